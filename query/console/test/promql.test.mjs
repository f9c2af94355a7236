import assert from "node:assert/strict";
import { test } from "node:test";

import { banded, faultAt, label, line, literal, matchers, oneOf, quoted, selector } from "../page/js/promql.js";

test("strings and expressions are escaped", () => {
  assert.equal(quoted('a"b\\c\n'), '"a\\"b\\\\c\\n"');
  assert.equal(literal("a.b|c"), "a\\.b\\|c");
  assert.equal(oneOf(["a.b", "c"]), "a\\.b|c");
});

test("selectors", () => {
  const east = [{ label: "fleet", op: "=", value: "East" }];
  assert.equal(selector(["velocity"], []), "velocity");
  assert.equal(selector(["velocity"], east), 'velocity{fleet="East"}');
  assert.equal(selector(["oil pressure"], []), '{"oil pressure"}');
  assert.equal(selector(["sum"], []), '{"sum"}', "a word of the language is no name");
  assert.equal(selector(["a", "b.c"], east), '{__name__=~"a|b\\\\.c", fleet="East"}');
  assert.equal(selector(["v"], [{ label: "my tag", op: "!~", value: 'x"' }]), 'v{"my tag"!~"x\\""}');
  assert.equal(label("a-b"), '"a-b"');
});

test("devices become one matcher", () => {
  assert.deepEqual(matchers({ match: [], devices: ["m1"] }), [{ label: "device", op: "=", value: "m1" }]);
  assert.deepEqual(matchers({ match: [], devices: ["m1", "m.2"] }), [{ label: "device", op: "=~", value: "m1|m\\.2" }]);
  assert.deepEqual(matchers({ match: [{ label: "", op: "=", value: "" }], devices: [] }), []);
});

test("bands", () => {
  assert.equal(line("sum", "my tag", "v", 300e3), 'sum by ("my tag") (avg_over_time(v[5m]))');
  assert.equal(banded("sum", "all", "v", 0), "sum(v)", "the least of all has not the scale of a sum");
  assert.equal(
    banded("avg", "fleet", "v", 60e3),
    [
      'label_replace(avg by (fleet) (avg_over_time(v[1m])), "__band", "avg", "", "")',
      'label_replace(min by (fleet) (min_over_time(v[1m])), "__band", "min", "", "")',
      'label_replace(max by (fleet) (max_over_time(v[1m])), "__band", "max", "", "")',
    ].join("\nor "),
  );
});

test("a message says where a query is wrong", () => {
  assert.deepEqual(faultAt("sum(x) foo", '1:8: parse error: unexpected identifier "foo"'), {
    line: "sum(x) foo",
    from: 7,
    to: 10,
  });
  assert.deepEqual(faultAt("a +\n)", 'invalid parameter "query": 2:1: parse error: unexpected ")"'), {
    line: ")",
    from: 0,
    to: 1,
  });
  assert.deepEqual(faultAt("avg(", "1:5: parse error: unclosed left parenthesis"), { line: "avg(", from: 4, to: 4 });
  assert.equal(faultAt("x", "the query takes too long"), null);
  assert.equal(faultAt("x", "7:1: parse error: elsewhere"), null);
});
