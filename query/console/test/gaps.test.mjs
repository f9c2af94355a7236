import assert from "node:assert/strict";
import { test } from "node:test";

import { common, gapsOf, united, usual } from "../page/js/gaps.js";

const every = (n, from, to) => Array.from({ length: Math.ceil((to - from) / n) }, (_, i) => from + i * n);

test("what is usual is the median", () => {
  assert.equal(usual([]), 0);
  assert.equal(usual([5]), 0);
  assert.equal(usual([0, 10, 20, 30, 500, 510]), 10);
});

test("a device that reports more seldom than a step has no gaps", () => {
  assert.deepEqual(gapsOf(every(60, 0, 600), 5), []);
});

test("a hole lies between the values around it", () => {
  const times = [...every(10, 0, 100), ...every(10, 200, 300)];
  assert.deepEqual(gapsOf(times, 10), [{ from: 90, to: 200, open: false }]);
});

test("one value that is late is no hole; where each step must have one it is", () => {
  const times = [0, 10, 20, 40, 50];
  assert.deepEqual(gapsOf(times, 10), []);
  assert.deepEqual(gapsOf(times, 10, { factor: 1.5 }), [{ from: 20, to: 40, open: false }]);
});

test("a device that has fallen silent has an open hole, one that was new before its first value has none", () => {
  assert.deepEqual(gapsOf(every(10, 500, 600), 10, { until: 700 }), [{ from: 590, to: 700, open: true }]);
  assert.deepEqual(gapsOf(every(10, 500, 600), 10, { until: 610 }), []);
  assert.deepEqual(gapsOf([500], 10, { until: 700 }), []);
});

test("holes of several curves", () => {
  const g = (from, to) => ({ from, to });
  assert.deepEqual(united([g(5, 7), g(0, 2), g(1, 3)]), [g(0, 3), g(5, 7)]);
  assert.deepEqual(common([[g(0, 10)], [g(5, 15)]]), [g(5, 10)]);
  assert.deepEqual(common([[g(0, 10)], []]), []);
  assert.deepEqual(common([]), []);
});
