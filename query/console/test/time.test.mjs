import assert from "node:assert/strict";
import { test } from "node:test";

import { instant } from "../page/js/format.js";
import { initial } from "../page/js/state.js";
import {
  aligned,
  duration,
  fieldOf,
  named,
  presets,
  rangeOf,
  spoken,
  stepFor,
  ticksOf,
  typed,
  zoomed,
} from "../page/js/time.js";

test("durations", () => {
  for (const [text, ms] of [
    ["15m", 900e3],
    ["1h30m", 5400e3],
    ["250ms", 250],
    ["30d", 30 * 86400e3],
  ]) {
    assert.equal(duration(text), ms);
  }
  for (const none of ["", "h", "5", "1w", "-5m", "5m "]) assert.ok(Number.isNaN(duration(none)), none);
  for (const p of presets) assert.ok(duration(p) > 0, p);
});

test("a range ends now, or where it was set to", () => {
  assert.deepEqual(rangeOf({ ...initial(), range: "1h" }, 5e6), { from: 14e5, to: 5e6, absolute: false });
  assert.deepEqual(rangeOf({ ...initial(), from: 1, to: 9 }, 5e6), { from: 1, to: 9, absolute: true });
});

test("a step is the shortest that fits", () => {
  for (const [range, points, want] of [
    ["15m", 250, "5s"],
    ["1h", 250, "15s"],
    ["1d", 250, "10m"],
    ["30d", 250, "3h"],
    ["5m", 600, "1s"],
  ]) {
    assert.equal(stepFor(duration(range), points), duration(want), range);
  }
  const years = 20 * 365 * 86400e3;
  assert.ok(years / stepFor(years, 100) <= 100);
  assert.equal(stepFor(years, 100) % 86400e3, 0);
});

test("a range that moves on asks for the same buckets", () => {
  assert.deepEqual(aligned({ from: 61e3, to: 119e3 }, 30e3), { from: 60e3, to: 120e3 });
  assert.deepEqual(aligned({ from: 60e3, to: 120e3 }, 30e3), { from: 60e3, to: 120e3 });
});

test("an axis of time has round instants, and the date at midnight", () => {
  const from = Date.parse("2026-11-22T22:10:00Z");
  const texts = (span, most) => ticksOf({ from, to: from + span }, most, true).map(({ text }) => text);
  assert.deepEqual(texts(3 * 3600e3, 4), ["23:00", "11-23", "01:00"]);
  assert.deepEqual(texts(40e3, 4), ["22:10:00", "22:10:10", "22:10:20", "22:10:30"]);
  assert.deepEqual(texts(3 * 86400e3, 4), ["11-23", "11-24", "11-25"]);
  for (const most of [0, 1, 7]) assert.ok(texts(7 * 3600e3, most).length <= Math.max(1, most) + 1);
});

test("zooming keeps the cursor where it is", () => {
  assert.deepEqual(zoomed({ from: 1000e3, to: 2000e3 }, 1250e3, 0.5), { from: 1125e3, to: 1625e3 });
  assert.deepEqual(zoomed({ from: 1125e3, to: 1625e3 }, 1250e3, 2), { from: 1000e3, to: 2000e3 });
  const least = zoomed({ from: 100e3, to: 110e3 }, 105e3, 0.5);
  assert.equal(least.to - least.from, 10e3);
  assert.equal(zoomed({ from: 0, to: 1e6 }, 5e5, 10).from, 0);
});

test("ranges have names", () => {
  assert.equal(named({ ...initial(), range: "15m" }), "Last 15 minutes");
  assert.equal(spoken("1d"), "1 day");
  const set = { ...initial(), from: 0, to: 90061001 };
  assert.equal(
    named(set, (ms) => instant(ms, true)),
    "1970-01-01 00:00:00 to 1970-01-02 01:01:01.001",
  );
});

test("fields of date and time, here and in UTC", () => {
  const at = Date.UTC(2026, 10, 22, 10, 30, 15);
  assert.equal(fieldOf(at, true), "2026-11-22T10:30:15");
  for (const utc of [true, false]) assert.equal(typed(fieldOf(at, utc), utc), at);
  assert.ok(Number.isNaN(typed("", true)));
});
