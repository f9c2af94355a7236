import assert from "node:assert/strict";
import { test } from "node:test";

import { fragment, initial, lags, ordered, parse, refusedBy, requests } from "../page/js/operatorstate.js";

test("the address bar has the state of the page of operators", () => {
  assert.equal(fragment(initial()), "");
  assert.deepEqual(parse(""), initial());
  const s = { view: "tenants", since: "6h", container: "chunks-2026-11", partition: "3", tenant: "acme", find: "gold", sort: "memory", reason: "future", refresh: 10 };
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
  assert.deepEqual(Object.keys(all).sort(), ["bins", "heat", "limits", "placement", "rejected", "tenants"]);
  const one = requests({ ...initial(), view: "tenants", tenant: "a/b" }, now);
  assert.equal(one.tokens, "/api/v1/tenants/a%2Fb/tokens");
  assert.equal(one.actions, "/api/v1/actions?since=720h&tenant=a%2Fb");
  assert.deepEqual(Object.keys(one).sort(), ["actions", "bins", "heat", "limits", "placement", "rejected", "tenants", "tokens"]);
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

test("lags and refusals", () => {
  assert.deepEqual(lags({ log_end: 100, position: 90, journal_floor: 80, floor: 40 }), { unread: 10, unjournaled: 10, unstored: 50 });
  assert.deepEqual(lags({ log_end: 5, position: 9, journal_floor: 9, floor: 9 }), { unread: 0, unjournaled: 0, unstored: 0 });
  assert.deepEqual(refusedBy([{ samples: [{ tenant: "a" }, { tenant: "b" }, { tenant: "b" }] }, { samples: [{}] }]), [["b", 2], ["a", 1], ["", 1]]);
});
