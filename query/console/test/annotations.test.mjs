import assert from "node:assert/strict";
import { test } from "node:test";

import { noteOf } from "../page/js/annotations.js";
import { near, neighbour, spoken, within } from "../page/js/marks.js";

const deploy = { time: 1000, text: "deploy", tags: ["eu", "7.2"] };
const outage = { time: 2000, timeEnd: 5000, text: "outage", tags: [] };
const all = [deploy, outage];

test("annotations of a range are those of which it has a part", () => {
  assert.deepEqual(within([outage, deploy], { from: 0, to: 9000 }), all, "by time");
  assert.deepEqual(within(all, { from: 4000, to: 9000 }), [outage]);
  assert.deepEqual(within(all, { from: 5001, to: 9000 }), []);
  assert.deepEqual(within(all, { from: 0, to: 1000 }), [deploy]);
});

test("annotations at an instant, the next one and the one before", () => {
  assert.deepEqual(near(all, 1040, 50), [deploy]);
  assert.deepEqual(near(all, 1060, 50), []);
  assert.deepEqual(near(all, 3500, 0), [outage]);
  assert.equal(neighbour(all, -Infinity, true), deploy);
  assert.equal(neighbour(all, 1000, true), outage);
  assert.equal(neighbour(all, 2000, true), undefined);
  assert.equal(neighbour(all, 2000, false), deploy);
  assert.equal(neighbour(all, Infinity, false), outage);
});

test("an annotation in words, and out of a form", () => {
  assert.equal(spoken({ ...deploy, timeEnd: 61_000 }, true), "1970-01-01 00:00:01 to 1970-01-01 00:01:01: deploy (eu, 7.2)");
  assert.deepEqual(noteOf({ text: " x ", tags: " a, ,b", from: "2026-11-20T12:00:00", to: "" }, true), { text: "x", tags: ["a", "b"], time: 1795176000000 });
  assert.deepEqual(noteOf({ text: "x", tags: "", from: "", to: "" }, true), { text: "x", tags: [] });
});
