import assert from "node:assert/strict";
import { test } from "node:test";

import { length } from "../page/js/format.js";
import { fragment, initial, matcherOf, parse } from "../page/js/state.js";

const round = (s) => parse(fragment(s, { length }));

test("a page that nobody has touched has an empty fragment", () => {
  assert.equal(fragment(initial(), { length }), "");
  assert.deepEqual(parse(""), initial());
  assert.deepEqual(parse("#"), initial());
});

test("a link shows the same again", () => {
  const s = {
    ...initial(),
    tenant: "acme",
    metrics: ["velocity", "öl & gas=%"],
    devices: ["truck-0000", "a b"],
    match: [
      { label: "fleet", op: "=~", value: "East|W.*" },
      { label: "model", op: "!=", value: 'a="b"&c' },
      { label: "driver", op: "=", value: "" },
      { label: "x", op: "!~", value: "=~" },
    ],
    by: "fleet",
    agg: "max",
    q: 'rate(odometer{fleet="East"}[5m])\n+ 1',
    range: "7d",
    step: 90e3,
    refresh: 10,
    view: "latest",
    order: "silent",
    sort: "-Value",
    legend: "avg",
    hide: ["pressure\npump-1", "avg(x)\nby y\nvalue"],
    utc: true,
  };
  assert.deepEqual(round(s), s);
  assert.deepEqual(round({ ...s, hide: Array(51).fill("a\nb") }).hide, [], "a link has no more than 50 of them");
  assert.deepEqual(round({ ...s, from: 1795313281235, to: 1795313291235, range: "15m" }), {
    ...s,
    from: 1795313281235,
    to: 1795313291235,
    range: "15m",
  });
});

test("what a fragment says wrongly is as if it were not said", () => {
  for (const wrong of [
    "range=never",
    "from=5",
    "from=9&to=5",
    "from=x&to=y",
    "refresh=7",
    "view=mirror",
    "agg=mode",
    "step=soon",
    "match=nothing",
    "unknown=1",
    "metric=",
    "utc=2",
    "order=none",
    "sort=None",
    "legend=-",
    "hide=x",
  ]) {
    assert.deepEqual(parse(wrong), initial(), wrong);
  }
});

test("a link may have its range in seconds", () => {
  for (const unit of ["", "000", "000000", "000000000"]) {
    const s = parse(`from=1795313281${unit}&to=1795313291${unit}`);
    assert.deepEqual([s.from, s.to], [1795313281000, 1795313291000], unit);
  }
});

test("nothing of a token is in a fragment", () => {
  assert.doesNotMatch(fragment({ ...initial(), token: "bn_secret" }, { length }), /secret|token/);
});

test("matchers", () => {
  assert.deepEqual(matcherOf("a=~b=c"), { label: "a", op: "=~", value: "b=c" });
  assert.deepEqual(matcherOf("a!~b"), { label: "a", op: "!~", value: "b" });
  assert.equal(matcherOf("=b"), null);
});
