import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { containersLike, fragment, heldBy, initial, isLocal, lags, lagsOf, ordered, parse, refusedBy, requests, tenantsHeld } from "../page/js/operatorstate.js";
import { meaning } from "../page/js/reasons.js";

test("the address bar has the state of the page of operators", () => {
  assert.equal(fragment(initial()), "");
  assert.deepEqual(parse(""), initial());
  const s = { view: "tenants", since: "6h", container: "chunks-2026-11", partition: "3", tenant: "acme", find: "gold", sort: "memory", process: "10.0.0.7:7072", reason: "future", bill: true, refresh: 10 };
  assert.deepEqual(parse(fragment(s)), s);
  for (const wrong of ["view=none", "since=2h", "partition=x", "partition=-1", "refresh=1", "unknown=1", "sort=toString", "view=toString"])
    assert.deepEqual(parse(wrong), initial(), wrong);
});

test("each room asks for what it shows", () => {
  const now = 1795313281000;
  const of = (part) => requests({ ...initial(), ...part }, now);
  assert.deepEqual(of({}), { heat: "/api/v1/partitions?since=1h", placement: "/api/v1/placement" });
  assert.equal(of({ view: "ingest", tenant: "a b" }).bins, "/api/v1/bins?tenant=a+b&devices=20&by=age");
  assert.equal(of({ view: "rejected", reason: "future", since: "6h" }).rejected, `/api/v1/rejected?from=${now - 6 * 3600e3}&reason=future&samples=50`);
  assert.equal(of({ view: "actions" }).actions, "/api/v1/actions?since=720h");
});

test("one tenant's page asks for its tokens and actions", () => {
  const now = 1795313281000;
  const all = requests({ ...initial(), view: "tenants" }, now);
  assert.equal(all.tenants, "/api/v1/tenants");
  assert.deepEqual(Object.keys(all).sort(), ["bins", "costs", "heat", "limits", "placement", "rejected", "tenants"]);
  const one = requests({ ...initial(), view: "tenants", tenant: "a/b" }, now);
  assert.equal(one.tokens, "/api/v1/tenants/a%2Fb/tokens");
  assert.equal(requests({ ...initial(), view: "tenants", tenant: "a/b", bill: true }, now).bill, "/api/v1/tenants/a%2Fb/cost");
  assert.equal(one.actions, "/api/v1/actions?since=720h&tenant=a%2Fb");
  assert.deepEqual(Object.keys(one).sort(), ["actions", "bins", "costs", "heat", "limits", "placement", "rejected", "tenants", "tokens"]);
});

test("tenants are searched and sorted", () => {
  const rows = [
    { tenant: "b", tags: "plan=gold", load: 0.1, memory: 5, registered: "2026-11-22" },
    { tenant: "a", tags: "plan=free", load: null, memory: 5, registered: "2026-11-23", suspended: { reason: "unpaid" } },
    { tenant: "c", tags: "", contact: "Gold@example.com", load: 0.9, memory: 7, registered: "" },
  ];
  const names = (find, sort) => ordered(rows, find, sort).map((r) => r.tenant).join("");
  assert.equal(names("", "load"), "cba");
  assert.equal(names("", "memory"), "cab");
  assert.equal(names("", "tenant"), "abc");
  assert.equal(names("", "state"), "abc");
  assert.equal(names("", "registered"), "cba");
  assert.equal(names("gold", "tenant"), "bc");
  assert.equal(names(" SUSPENDED  unpaid", "tenant"), "a");
  assert.equal(names("gold free", "tenant"), "");
});

test("what is looked at needs no answers, and has others beside it", () => {
  assert.ok(isLocal({ partition: "3" }));
  assert.ok(!isLocal({ partition: "", container: "catalog" }));
  assert.deepEqual(containersLike("rollups-2026-11"), ["rollups-2026-11", "chunks-2026-11", "catalog"]);
  assert.deepEqual(containersLike("chunks-2026-11-acme"), ["chunks-2026-11-acme", "chunks-2026-11", "rollups-2026-11", "catalog"]);
  assert.deepEqual(containersLike(""), ["catalog"]);
});

test("each reason of a refusal has a meaning", () => {
  const page = readFileSync(new URL("../../../docs/reference/payloads.md", import.meta.url), "utf8");
  const [, table] = /\n\| reason \| meaning \|\n\|---\|---\|\n([^]*?)\n\n/.exec(page);
  const reasons = [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, reason]) => reason);
  assert.ok(reasons.length > 15);
  assert.deepEqual(reasons.filter((r) => meaning(r) === ""), []);
  assert.equal(meaning("no such reason"), "");
});

test("lags and refusals", () => {
  assert.deepEqual(lags({ log_end: 100, position: 90, journal_floor: 80, floor: 40 }), { unread: 10, unjournaled: 10, unstored: 50 });
  assert.deepEqual(lags({ log_end: 5, position: 9, journal_floor: 9, floor: 9 }), { unread: 0, unjournaled: 0, unstored: 0 });
  assert.deepEqual(refusedBy([{ samples: [{ tenant: "a" }, { tenant: "b" }, { tenant: "b" }] }, { samples: [{}] }]), [["b", 2], ["a", 1], ["", 1]]);
});

test("what several processes hold", () => {
  const part = (topic, partition, read) => ({ topic, partition, log_end: 100, position: read, journal_floor: 50, floor: 20 });
  const one = { process: "a", bins: { partitions: [part("t", 0, 90), part("t", 1, 80)], tenants: [{ tenant: "x", devices: 1, bins: 2, readings: 3, bytes: 4, from: "2026-11-23T10:00:00Z", records_behind: 5 }] } };
  const two = { process: "b", bins: { partitions: [part("t", 1, 80)], tenants: [
    { tenant: "x", devices: 10, bins: 20, readings: 30, bytes: 40, from: "2026-11-23T09:00:00Z", records_behind: 50 },
    { tenant: "y", devices: 1, bins: 1, readings: 1, bytes: 1, from: "2026-11-23T08:00:00Z", records_behind: 1 }] } };
  const all = [one, two, { process: "c", error: "no answer in time" }, { process: "d", bins: { partitions: [], tenants: null } }];
  assert.deepEqual(heldBy(all), [["t/1", ["a", "b"]]]);
  assert.deepEqual(lagsOf(one.bins.partitions), { unread: 30, unjournaled: 70, unstored: 130 });
  assert.deepEqual(tenantsHeld(all.filter((p) => p.bins).map((p) => p.bins)).map((t) => [t.tenant, t.devices, t.bins, t.readings, t.bytes, t.from, t.records_behind]),
    [["y", 1, 1, 1, 1, "2026-11-23T08:00:00Z", 1], ["x", 11, 22, 33, 44, "2026-11-23T09:00:00Z", 55]]);
});
