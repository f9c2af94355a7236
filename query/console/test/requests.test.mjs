import assert from "node:assert/strict";
import { test } from "node:test";

import {
  charts,
  curl,
  encoded,
  expression,
  latest,
  matches,
  picked,
  readings,
  shell,
  toRequest,
} from "../page/js/requests.js";
import { initial } from "../page/js/state.js";

const device = (name, tags = {}, metrics = ["velocity", "fuel"]) => ({ device: name, tags, metrics });
const fleet = (n) => Array.from({ length: n }, (_, i) => device(`truck-${i}`, { fleet: i % 2 ? "East" : "West" }));
const catalog = (devices, truncated = false) => ({ devices, truncated });
const hour = { from: 3600e3 + 7, to: 7200e3 + 7 };
const asked = (request, name) => request.parameters.filter(([n]) => n === name).map(([, v]) => v);

test("matchers are those of PromQL: whole texts, and what is missing is empty", () => {
  const d = device("m1", { fleet: "East" });
  const is = (label, op, value) => matches(d, { match: [{ label, op, value }], devices: [] });
  assert.ok(is("fleet", "=", "East"));
  assert.ok(!is("fleet", "=~", "Eas"));
  assert.ok(is("fleet", "=~", "E.*|W.*"));
  assert.ok(is("driver", "=", ""));
  assert.ok(is("driver", "!~", ".+"));
  assert.ok(is("device", "=~", "m[0-9]"));
  assert.ok(matches(d, { match: [], devices: ["m1"] }));
  assert.ok(!matches(d, { match: [], devices: ["m2"] }));
  assert.equal(expression("("), null);
  assert.ok(is("fleet", "=~", "("), "an expression that is not finished narrows nothing");
});

test("few devices have a curve each, of one request for all metrics", () => {
  const s = { ...initial(), metrics: ["velocity", "fuel"] };
  const plan = charts(s, catalog(fleet(3)), hour, 250);
  assert.equal(plan.by, "device");
  assert.equal(plan.panels.length, 2);
  assert.equal(plan.panels[0].request, plan.panels[1].request);
  const { request } = plan.panels[0];
  assert.equal(request.path, "/api/v1/aggregates");
  assert.deepEqual(asked(request, "metric"), ["velocity", "fuel"]);
  assert.deepEqual(asked(request, "device"), [], "all there are need no names");
  assert.deepEqual(
    [asked(request, "from"), asked(request, "to"), asked(request, "step")],
    [[3600e3], [7215e3], ["15s"]],
  );
  assert.equal(plan.panels[0].promql, "velocity");
  assert.equal(picked(s, plan), '{__name__=~"velocity|fuel"}');
});

test("devices that are picked are named, and no more than fifty", () => {
  const east = { ...initial(), metrics: ["velocity"], match: [{ label: "fleet", op: "=", value: "East" }] };
  assert.deepEqual(asked(charts(east, catalog(fleet(4)), hour, 250).panels[0].request, "device"), [
    "truck-1",
    "truck-3",
  ]);
  const many = charts({ ...east, by: "device" }, catalog(fleet(140)), hour, 250);
  assert.equal(asked(many.panels[0].request, "device").length, 50);
  assert.equal(many.left, 20);
  const none = charts({ ...east, match: [{ label: "fleet", op: "=", value: "?" }] }, catalog(fleet(4)), hour, 250);
  assert.equal(none.panels[0].request, null, "nothing matches, nothing is asked");
});

test("only those are asked for that have the metric, unless none is known to", () => {
  const mixed = catalog([...fleet(3), device("m1", {}, ["temp"])]);
  const of = (metric) => charts({ ...initial(), metrics: [metric] }, mixed, hour, 250).panels[0].request;
  assert.deepEqual(asked(of("temp"), "device"), ["m1"]);
  assert.deepEqual(asked(of("new"), "device"), [], "it may have come in meanwhile");
});

test("many devices are put together, with a band", () => {
  const s = { ...initial(), metrics: ["velocity"] };
  const plan = charts(s, catalog(fleet(30)), hour, 250);
  assert.equal(plan.by, "all");
  assert.equal(plan.panels[0].promql, "avg(velocity)");
  const [query] = asked(plan.panels[0].request, "query");
  assert.equal(query.split("\nor ").length, 3);
  assert.match(query, /^label_replace\(avg\(velocity\), "__band", "avg", "", ""\)/);
  assert.equal(asked(plan.panels[0].request, "end")[0], hour.to / 1e3, "no step lies in the future");
  const day = charts({ ...s, by: "fleet", agg: "max" }, catalog(fleet(30)), { from: 0, to: 86400e3 }, 250);
  assert.deepEqual(asked(day.panels[0].request, "query"), ["max by (fleet) (max_over_time(velocity[10m]))"]);
  assert.equal(charts(s, catalog(fleet(3), true), hour, 250).by, "all", "there may be more than the catalog shows");
});

test("several metrics in one query keep their names", () => {
  const s = { ...initial(), metrics: ["a", "b"], by: "fleet" };
  assert.equal(picked(s, charts(s, catalog(fleet(3)), hour, 250)), 'avg by (__name__, fleet) ({__name__=~"a|b"})');
  assert.equal(picked(initial(), charts(initial(), catalog([]), hour, 250)), "");
});

test("what is typed is asked as it is", () => {
  const plan = charts({ ...initial(), q: "1 + 1", metrics: ["a"] }, catalog([]), hour, 250);
  assert.deepEqual(asked(plan.panels[0].request, "query"), ["1 + 1"]);
  assert.deepEqual(asked(latest({ ...initial(), q: "up" }, catalog([]), hour, 5), "time"), [hour.to / 1e3]);
});

test("newest values, and readings", () => {
  const s = { ...initial(), metrics: ["velocity"], devices: ["truck-1"] };
  assert.equal(
    encoded(latest(s, catalog(fleet(3)), hour, 500).parameters),
    "device=truck-1&metric=velocity&from=3600007&to=7200007&limit=500",
  );
  assert.equal(latest({ ...s, devices: ["nobody"] }, catalog(fleet(3)), hour, 500), null);
  assert.deepEqual(asked(latest(initial(), catalog(fleet(3)), hour, 500), "device"), []);
  assert.deepEqual(asked(readings(s, catalog(fleet(3)), hour), "format"), ["csv"]);
});

test("a long request is a form", () => {
  assert.equal(toRequest("/x", [["device", "m"]]).post, false);
  assert.equal(toRequest("/x", Array(101).fill(["device", "m"])).post, true, "a URL names at most 100");
  assert.equal(toRequest("/x", [["query", "x".repeat(3000)]]).post, true);
});

test("curl is safe to paste, and has no token", () => {
  const request = toRequest("/api/v1/latest", [
    ["device", "it's"],
    ["limit", 5],
  ]);
  assert.equal(
    curl(request, "http://h:1", { tenant: "acme", token: "" }),
    `curl --compressed -G -H 'X-Scope-OrgID: acme' \\
  http://h:1/api/v1/latest \\
  --data-urlencode 'device=it'\\''s' \\
  --data-urlencode limit=5`,
  );
  const with_ = curl({ ...request, post: true }, "http://h:1", { tenant: "", token: "bn_secret" });
  assert.match(with_, /"Authorization: Bearer \$BINNACLE_TOKEN"/);
  assert.doesNotMatch(with_, /secret|-G|OrgID/);
  assert.equal(shell("$(rm)"), "'$(rm)'");
});
