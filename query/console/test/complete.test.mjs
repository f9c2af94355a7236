import assert from "node:assert/strict";
import { test } from "node:test";

import { complete, contextAt, ranked, tokens } from "../page/js/complete.js";
import { aggregators, functions } from "../page/js/functions.js";

const known = {
  metrics: [
    { metric: "velocity", detail: "" },
    { metric: "fuel_state", detail: "" },
    { metric: "oil pressure", detail: "" },
  ],
  labels: () => ["device", "fleet", "my tag"],
  values: (label) => ({ fleet: ["East", 'a"b'], device: ["m1"] })[label] ?? [],
};

// The caret is where | stands.
const at = (marked) => [marked.replace("|", ""), marked.indexOf("|")];
const context = (marked) => contextAt(...at(marked));
const offered = (marked) => complete(...at(marked), known).items.map((i) => i.text);

// The text after the first thing that fits is taken.
function taken(marked, n = 0) {
  const [text, caret] = at(marked);
  const { from, to, items } = complete(text, caret, known);
  const { insert, back } = items[n];
  const whole = text.slice(0, from) + insert + text.slice(to);
  const end = from + insert.length - back;
  return whole.slice(0, end) + "|" + whole.slice(end);
}

test("what stands at the caret", () => {
  for (const [marked, kind] of [
    ["|", "expression"],
    ["ra|", "expression"],
    ["sum(|", "expression"],
    ["a + |", "expression"],
    ["a{|", "label"],
    ["a{fl|", "label"],
    ['a{x="1", |', "label"],
    ["a{x=|", "value"],
    ['a{x="E|', "value"],
    ["a{x=~'E|", "value"],
    ["sum by (|", "label"],
    ["sum by (fleet, d|", "label"],
    ["a * on(de|", "label"],
    ["rate(a[|", "duration"],
    ["rate(a[5|", "duration"],
    ["rate(a[5m])|", "expression"],
    ['a{x="1"|', "none"],
    ["a{x|}", "label"],
    ["a # comm|", "none"],
    ['a{x="#"} + |', "expression"],
    ["a{x=1|", "none"],
    ["12|", "none"],
    ['{"oil pressure", x="|', "value"],
  ]) {
    assert.equal(context(marked).kind, kind, marked);
  }
  assert.equal(context('velocity{fleet="|').metric, "velocity");
  assert.equal(context('velocity{fleet="|').label, "fleet");
  assert.equal(context('{"oil pressure", x="|').metric, "oil pressure");
});

test("names are offered by how well they fit", () => {
  assert.equal(offered("vel|")[0], "velocity");
  assert.ok(offered("state|").includes("fuel_state"), "a part of a name");
  assert.ok(offered("rat|").includes("rate"));
  assert.deepEqual(offered("velocity{f|"), ["fleet"]);
  assert.deepEqual(offered('velocity{fleet="|'), ["East", 'a"b']);
  assert.deepEqual(offered('velocity{fleet="ea|'), ["East", 'a"b'].slice(0, 1));
  assert.deepEqual(offered("zzz|"), []);
});

test("what is taken is right PromQL, with the caret where one goes on", () => {
  assert.equal(taken("ra|"), "rate(|)");
  assert.equal(taken("sum(vel|)"), "sum(velocity|)");
  assert.equal(taken("pressure|"), '{"oil pressure"}|');
  assert.equal(taken("v{my|}"), 'v{"my tag"|}');
  assert.equal(taken('v{fleet="Ea|"}'), 'v{fleet="East"|}', "the quote that is there is not doubled");
  assert.equal(taken("v{fleet=|}"), 'v{fleet="East"|}');
  assert.equal(taken('v{fleet="a|'), 'v{fleet="a\\"b"|', "quotes in values are escaped");
  assert.equal(taken("tim|", 0), "time()|");
});

test("any text at all is read to its end", () => {
  for (const text of ['"', "'a\\", "`", 'a{b="\\"', "{{{[[((", ")}]", "#", "ä=~!"]) {
    for (let i = 0; i <= text.length; i++) complete(text, i, known);
    assert.equal(
      tokens(text)
        .map((t) => t.text)
        .join(""),
      text.startsWith("#") ? "" : text,
    );
  }
});

test("functions are named once, and in order", () => {
  for (const list of [functions, aggregators]) {
    const names = list.map(([n]) => n);
    assert.deepEqual(names, [...new Set(names)].sort());
  }
  assert.deepEqual(
    ranked([{ text: "xab" }, { text: "x_ab" }, { text: "abx" }, { text: "q" }], "AB").map((i) => i.text),
    ["abx", "x_ab", "xab"],
  );
});
