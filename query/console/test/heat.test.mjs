import assert from "node:assert/strict";
import { test } from "node:test";

import { colours, image, position, valueAt } from "../page/js/heatscale.js";
import { fragment, initial, parse, request } from "../page/js/heatstate.js";
import { brushed, nameOf, partitions, rowsIn, sums } from "../page/js/heatwindow.js";

test("the scale rises from the ground to the hottest, and valueAt is its inverse", () => {
  for (const brightness of [0, 0.3, 0.5, 1]) {
    let before = -1;
    for (const v of [0, 1e-6, 0.1, 1, 10, 99, 100]) {
      const at = position(v, 100, brightness);
      assert.ok(at >= before && at >= 0 && at <= 1, `${v} at ${at}`);
      before = at;
      if (v > 0) assert.ok(Math.abs(valueAt(at, 100, brightness) - v) < 1e-6 * Math.max(1, v));
    }
    assert.equal(position(100, 100, brightness), 1);
  }
  assert.equal(position(5, 0, 0.5), 0);
  assert.ok(position(1, 100, 1) > position(1, 100, 0), "brighter shows more of what is cold");
});

// Most colours are near the ground: half of the scale is for what is below a tenth of the hottest.
test("most of the scale is near the ground", () => {
  assert.ok(position(10, 100, 0.5) > 0.45);
  for (const mode of ["light", "dark"]) {
    const table = colours(mode);
    assert.equal(table.length, 256);
    const far = (a, b) => Math.hypot(...a.map((c, i) => c - b[i]));
    assert.ok(far(table[0], table[255]) > 180, mode);
    assert.ok(far(table[0], table[40]) < 60, mode);
  }
});

test("an image has a pixel for each value, the ground where nothing is", () => {
  const pixels = image([[0, 5], [10]], 2, { most: 10, brightness: 0.5, mode: "dark" });
  const ground = [...colours("dark")[0], 255];
  assert.equal(pixels.length, 16);
  assert.deepEqual([...pixels.slice(0, 4)], ground);
  assert.deepEqual([...pixels.slice(8, 12)], [...colours("dark")[255], 255]);
  assert.deepEqual([...pixels.slice(12)], ground);
});

const row = (at, range, values, first = "a~" + at, keys = 1) => ({ at, range, values, first, last: first, keys });
const map = {
  from: 1000,
  step: 10,
  columns: 3,
  rows: [row(0.1, 0, [1, 2, 3]), row(0.4, 0, [0, 0, 1]), row(0.6, 1, [5, 0, 0]), row(0.9, 1, [1, 1, 1])],
};

test("windows, sums and partitions", () => {
  assert.equal(rowsIn(map, { low: 0.3, high: 0.7 }).length, 2);
  assert.equal(rowsIn(map, { low: 0.2, high: 0.3 }).length, 4, "a window of nothing shows all");
  assert.deepEqual(sums(map.rows, 3), { byColumn: [7, 3, 5], byRow: [6, 1, 5, 3] });
  assert.deepEqual(partitions(map.rows), [
    { range: 0, first: 0, count: 2 },
    { range: 1, first: 2, count: 2 },
  ]);
});

test("a brush in any direction asks for what it covers", () => {
  const want = { from: 1010, to: 1030, low: 0.4, high: 0.9 };
  assert.deepEqual(brushed(map, map.rows, { x0: 1, x1: 2, y0: 1, y1: 2 }), want);
  assert.deepEqual(brushed(map, map.rows, { x0: 2, x1: 1, y0: 2, y1: 1 }), want);
  assert.deepEqual(brushed(map, map.rows, { x0: 0, x1: 2, y0: 3, y1: 3 }), { from: 1000, to: 1030, low: 0.9, high: 1 });
});

test("names", () => {
  assert.equal(nameOf(row(0, 0, [], "acme~1q")), "acme~1q");
  assert.equal(nameOf({ first: "a~1", last: "b~2", keys: 3 }), "a~1 to b~2, 3 keys");
  assert.equal(nameOf({ keys: 1 }), "keys without a name");
});

test("the address bar holds the state", () => {
  const state = { ...initial(), container: "chunks-2026-11", kind: "bytes", from: 5, to: 9, low: 0.25, brightness: 0.7 };
  assert.deepEqual(parse("#" + fragment(state)), state);
  assert.equal(fragment(initial()), "");
  assert.deepEqual(parse("#kind=x&span=9y&from=9&to=5&low=0.9&high=0.1&brightness=7"), initial());
  assert.match(request(initial(), 1e9, 100), /^\/api\/v1\/heat\?kind=rus&rows=100&from=\d+&to=\d+$/);
  assert.match(request(state, 1e9, 100), /container=chunks-2026-11&from=5&to=9/);
});
