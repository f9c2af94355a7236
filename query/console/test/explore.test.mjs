import assert from "node:assert/strict";
import { test } from "node:test";

import { beside, lacking, stacked, topOf } from "../page/js/curves.js";
import { length } from "../page/js/format.js";
import { expanded, letterOf } from "../page/js/promql.js";
import { planned, priced, priceOf } from "../page/js/reports.js";
import { charts, earlier } from "../page/js/requests.js";
import { fragment, initial, parse } from "../page/js/state.js";
import { same } from "../page/js/views.js";

const curve = (name, avg, times = avg.map((_, i) => 1000 * i)) =>
  ({ name, labels: { device: name }, times, avg, min: avg.map(() => null), max: avg.map(() => null) });

test("a letter stands for the query before", () => {
  assert.deepEqual(expanded(["avg(x)", "2", "A / B"]), ["avg(x)", "2", "(avg(x)) / (2)"]);
  assert.deepEqual(expanded(["x", "A + A", "sum(B)"]), ["x", "(x) + (x)", "sum(((x) + (x)))"]);
  assert.deepEqual(expanded(["A", "B", "D"]), ["A", "B", "D"], "neither itself nor one behind it");
  for (const kept of ['y{A="A", b=~"}A"}', "label_replace(y, 'A', \"A\", `A`, '')", "sum by (A) (y)", "AB + A1 + x:A", "y # A\n"])
    assert.equal(expanded(["x", kept])[1], kept);
  assert.equal(letterOf(2), "C");
});

test("how charts are displayed, and further queries, are in the link", () => {
  const s = { ...initial(), room: "explore", q: "x", also: ["y", "A / B"], draw: "stack", log: true, low: -1.5, high: 100, top: 10, versus: "1d", view: "explain" };
  assert.deepEqual(parse(fragment(s, { length })), s);
  for (const wrong of ["draw=pie", "log=yes", "low=x", "low=5&high=1", "top=7", "versus=3y", "also=y"])
    assert.deepEqual(parse(wrong), initial(), wrong);
});

test("several queries have a panel and a request each; the top ones are chosen of more", () => {
  const state = { ...initial(), q: "x", also: ["", "A * 2"] };
  const plan = charts(state, { devices: [], metrics: [] }, { from: 0, to: 3600e3 }, 200);
  assert.deepEqual(plan.panels.map((p) => [p.title, p.promql]), [["A: x", "x"], ["B: A * 2", "(x) * 2"]]);
  const limit = (top) => Object.fromEntries(charts({ ...state, top }, { devices: [], metrics: [] }, { from: 0, to: 3600e3 }, 200).panels[0].request.parameters).limit;
  assert.equal(limit(0), 100);
  assert.equal(limit(10), 1000);
});

test("an earlier time", () => {
  const asked = { path: "/p", post: false, parameters: [["query", "x"], ["start", 7200], ["end", 10800], ["from", 7200e3], ["to", 10800e3], ["step", 60]] };
  assert.deepEqual(Object.fromEntries(earlier(asked, 3600e3).parameters), { query: "x", start: 3600, end: 7200, from: 3600e3, to: 7200e3, step: 60 });
  const both = beside([curve("a", [1]), curve("b", [2])], [curve("b", [9], [5000])], { ms: 3600e3, name: "1h" });
  assert.deepEqual(both.map((c) => [c.name, c.times[0], c.ink]), [["a", 0, undefined], ["b", 0, undefined], ["b (1h before)", 3605000, 1]]);
});

test("the top curves, and what all add up to", () => {
  const all = [curve("a", [1, 1]), curve("b", [5, 7]), curve("c", [null, null]), curve("d", [3, 4])];
  assert.deepEqual(topOf(all, 0), { curves: all, total: null });
  const { curves, total } = topOf(all, 2);
  assert.deepEqual(curves.map((c) => c.name), ["b", "d"]);
  assert.deepEqual(total, { curves: 4, last: 12 });
});

test("a stack stands on what is shown below", () => {
  const columns = [[0, 1], [1, null], [9, 9], [9, 9], [2, 3], [9, 9], [9, 9], [4, undefined], [9, 9], [9, 9]];
  assert.deepEqual(stacked(columns, new Set()).filter((_, i) => i % 3 === 1), [[1, null], [3, 3], [7, undefined]]);
  assert.deepEqual(stacked(columns, new Set([0]))[7], [6, undefined]);
  assert.deepEqual(stacked(columns, new Set())[2], [null, null], "without bands");
});

test("a price before it is paid", () => {
  assert.equal(planned({ path: "/p" }).explain, "plan");
  assert.equal(planned({ path: "/p" }, true).explain, "true");
  const read = (request_units, guessed) => ({ estimated: { request_units, guessed } });
  assert.equal(priced(priceOf([{ reads: [read(3, false), read(9.5, false)] }])), "about 12.5 RU");
  assert.equal(priced(priceOf([{ reads: [read(3, true)] }, { reads: [] }])), "at least 3 RU");
});

test("what is drawn is updated only where the curves are the same, displayed alike", () => {
  const panel = { title: "x", curves: [curve("a", [1])], step: 1, unit: "", log: false, low: null, high: null, stack: false, heat: false, total: null };
  assert.ok(same([panel], [{ ...panel, curves: [curve("a", [1, 2])] }]));
  for (const other of [[], [{ ...panel, curves: [curve("b", [1])] }], [{ ...panel, log: true }], [{ ...panel, step: 2 }], [panel, panel]])
    assert.ok(!same([panel], other));
});

test("which curves end early, by their own steps", () => {
  const curve = (...times) => ({ times, labels: {} });
  const panels = [{ step: 60e3, curves: [curve(0, 60e3, 120e3), curve(0, 300e3), { ...curve(0), before: true }, curve()] }];
  assert.equal(lacking(panels, 240e3), null);
  assert.deepEqual(lacking(panels, 420e3), { late: 1, all: 2, ms: 300e3 });
  assert.equal(lacking([], 420e3), null);
});
