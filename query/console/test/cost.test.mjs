import assert from "node:assert/strict";
import { test } from "node:test";

import { money } from "../page/js/cost.js";

test("sums below a dollar have the digits that a small tenant's bill needs", () => {
  assert.equal(money(0), "$0.00");
  assert.equal(money(0.0475), "$0.0475");
  assert.equal(money(1234.5), "$1,234.50");
});
