import assert from "node:assert/strict";
import { test } from "node:test";

import { csv, fromAggregates, fromMatrix, named, numeral, summary, table, toNumber } from "../page/js/series.js";

const bucket = (device, start, metric, of) => ({
  device,
  start,
  metric,
  type: "float",
  count: 1,
  min: 1,
  max: 1,
  avg: 1,
  ...of,
});

test("aggregates become curves, by metric", () => {
  const [v, w] = fromAggregates(
    [
      bucket("m2", 10, "v", { min: 1, max: 9, avg: 4 }),
      bucket("m10", 0, "v"),
      bucket("m10", 10, "v", { avg: "NaN" }),
      bucket("m2", 0, "w", { type: "bool", min: false, max: true, avg: 0.5 }),
    ],
    ["v", "w"],
  );
  assert.equal(v.metric, "v");
  assert.deepEqual(
    v.curves.map((c) => c.name),
    ["m2", "m10"],
    "in the order of the numbers in names",
  );
  assert.deepEqual(v.curves[0], {
    labels: { device: "m2" },
    text: false,
    times: [10],
    avg: [4],
    min: [1],
    max: [9],
    name: "m2",
  });
  assert.deepEqual(v.curves[1].avg, [1, null]);
  assert.deepEqual([w.curves[0].min, w.curves[0].max], [[0], [1]]);
});

test("a metric with values of two types in a bucket is one curve; texts have none", () => {
  const [v] = fromAggregates(
    [
      bucket("m", 0, "v", { count: 3, avg: 1, min: 0, max: 2 }),
      bucket("m", 0, "v", { type: "int", count: 1, avg: 5, min: 5, max: 5 }),
      bucket("n", 0, "v", { type: "text", min: undefined, max: undefined, avg: undefined }),
    ],
    ["v"],
  );
  assert.deepEqual([v.curves[0].avg, v.curves[0].min, v.curves[0].max], [[2], [0], [5]]);
  assert.ok(v.curves[1].text);
  assert.deepEqual(fromAggregates([], ["x"]), [{ metric: "x", curves: [] }]);
});

test("a matrix with the three curves of a band is one curve", () => {
  const one = (band, v) => ({
    metric: { fleet: "E", __band: band },
    values: [
      [1, v],
      [2, "NaN"],
    ],
  });
  const [c] = fromMatrix([one("min", "1"), one("avg", "2"), one("max", "3")]);
  assert.deepEqual(c, {
    labels: { fleet: "E" },
    text: false,
    times: [1000, 2000],
    avg: [2, null],
    min: [1, null],
    max: [3, null],
    name: "fleet=E",
  });
  assert.equal(fromMatrix([{ metric: {}, values: [[1, "2"]] }], "avg of all devices")[0].name, "avg of all devices");
});

test("names are as short as they can be", () => {
  const names = (...labels) => named(labels.map((l) => ({ labels: l }))).map((c) => c.name);
  assert.deepEqual(names({ device: "m1", fleet: "E" }, { device: "m2", fleet: "W" }), ["m1", "m2"]);
  assert.deepEqual(names({ device: "m1", axis: "x" }, { device: "m1", axis: "y" }), ["axis=x", "axis=y"]);
  assert.deepEqual(names({ __name__: "v", device: "m1" }, { __name__: "w", device: "m1" }), ["v", "w"]);
});

test("values of answers as numbers", () => {
  assert.equal(toNumber(true), 1);
  assert.equal(toNumber("+Inf"), Infinity);
  assert.ok(Number.isNaN(toNumber("NaN")));
  assert.equal(numeral("-Inf"), -Infinity);
  assert.equal(numeral("1e3"), 1000);
});

test("a summary counts the band in, and knows nothing of an empty curve", () => {
  assert.deepEqual(summary({ avg: [1, null, 3], min: [0, null, 2], max: [1, null, 9] }), {
    last: 3,
    min: 0,
    max: 9,
    avg: 2,
  });
  assert.equal(summary({ avg: [9007199254740990, 5], min: [9007199254740991, null], max: [9007199254740991, null] }).min, 5);
  assert.equal(summary({ avg: [9007199254740990], min: [9007199254740991], max: [9007199254740991] }).min, 9007199254740991, "no average is the least");
  assert.deepEqual(summary({ avg: [], min: [], max: [] }), { last: null, min: null, max: null, avg: null });
});

test("columns break at a gap, and only there", () => {
  const c = (times) => ({ times, avg: times, min: times, max: times });
  const [axis, a, , , b] = table([c([0, 1000, 9000]), c([0, 2000])], [[{ from: 1000, to: 9000, open: false }], []]);
  assert.deepEqual(axis, [0, 1, 2, 5, 9]);
  assert.deepEqual(a, [0, 1000, null, null, 9000]);
  assert.equal(b[3], undefined);
});

test("CSV", () => {
  const curve = { name: 'a "b", c', times: [0], avg: [1.5], min: [null], max: [2] };
  assert.equal(
    csv([{ title: "v", curves: [curve] }]),
    'time,panel,series,value,min,max\n1970-01-01T00:00:00.000Z,v,"a ""b"", c",1.5,,2\n',
  );
});
