import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, charge, count, incomplete, instant, length, number, parts, roughly, ticks, usually } from "../page/js/format.js";

test("numbers are as exact as one reads them", () => {
  for (const [v, text] of [
    [0, "0"],
    [-0, "0"],
    [21.5, "21.5"],
    [-3, "−3"],
    [1 / 3, "0.333333"],
    [123456.789, "123457"],
    [1234567.891, "1234567.89"],
    [1e15, "1000000000000000"],
    [9007199254740992, "9007199254740992"],
    [4012345679079.5, "4012345679080"],
    [1.5e18, "1.5e18"],
    [1e300, "1e300"],
    [0.00001234, "1.234e-5"],
    [NaN, "NaN"],
    [Infinity, "+Inf"],
    [-Infinity, "−Inf"],
    [9223372036854775807n, "9223372036854775807"],
    [true, "true"],
    [null, "–"],
  ]) {
    assert.equal(number(v), text);
  }
});

test("axes have short numbers that differ", () => {
  for (const [splits, labels] of [
    [[0, 5000, 9999], ["0", "5000", "9999"]],
    [[0, 10000, 20000], ["0", "10k", "20k"]],
    [[-2.5e6, 0, null], ["−2.5M", "0", ""]],
    [[1e9, 3e9], ["1G", "3G"]],
    [[0, 0.5], ["0", "0.5"]],
    [[4e12, 4.1e12], ["4T", "4.1T"]],
    [[4000000000000, 4000000000100], ["4000000000000", "4000000000100"]],
    [[4e6 + 0.001, 4e6 + 0.002], ["4000000.001", "4000000.002"]],
    [[], []],
  ]) {
    assert.deepEqual(ticks(splits), labels);
  }
});

test("long names are cut before their end", () => {
  assert.deepEqual(parts("truck-0042"), ["truck-0042", ""]);
  const [head, tail] = parts("compressor-of-the-northern-hall-01");
  assert.equal(head + tail, "compressor-of-the-northern-hall-01");
  assert.equal(tail, "hern-hall-01");
});

test("lengths of time", () => {
  assert.equal(length(90e3), "1m30s");
  assert.equal(length(86400e3), "1d");
  assert.equal(length(0), "0ms");
  assert.equal(length(1500), "1s500ms");
  assert.equal(roughly(200e3), "3 min");
  assert.equal(roughly(2 * 86400e3), "2 days");
  assert.equal(roughly(87 * 60e3), "1 h 27 min");
  assert.equal(roughly(26 * 3600e3), "1 day 2 h");
  assert.equal(roughly(10.5 * 3600e3), "10 h");
  assert.equal(roughly(0.4), "0 ms");
  assert.deepEqual([29785, 1234, 87.4].map(usually), ["30s", "1s200ms", "87ms"]);
  assert.equal(ago(1000, 61000), "1 min ago");
  assert.equal(ago(1000, 1400), "now");
  assert.equal(ago(61000, 1000), "in 1 min");
});

test("instants, charges, counts", () => {
  assert.equal(instant(Date.UTC(2026, 10, 22, 1, 2, 3, 45), true), "2026-11-22 01:02:03.045");
  assert.equal(charge(2.8995), "2.9 RU");
  assert.equal(charge(45.25), "45.3 RU");
  assert.equal(charge(12345.6), "12,346 RU");
  assert.equal(count(1, "gap"), "1 gap");
  assert.equal(count(1200, "gap"), "1,200 gaps");
});

test("what an answer lacks, without names of partitions", () => {
  assert.deepEqual(incomplete(["no ingester answers for partition telemetry/0", "no ingester answers for partition telemetry/3"]), [
    "Readings that are not stored yet may be missing: no ingester answers for 2 partitions.",
  ]);
  assert.deepEqual(incomplete(["partition telemetry/1 is being replayed: offset 3 of 9", "not all ingesters answer"]), [
    "The newest readings of 1 partition follow: an ingester is catching up.",
  ]);
  assert.deepEqual(incomplete(["not all ingesters answer"]), [
    "Readings that are not stored yet may be missing: not all ingesters answer.",
  ]);
  assert.deepEqual(incomplete(["not all ingesters answer: 2 of 3"]), [
    "Readings that are not stored yet may be missing: 2 of 3 ingesters answer.",
  ]);
  assert.deepEqual(incomplete(["no ingester answers for partition telemetry/0", "not all ingesters answer: 2 of 3"]), [
    "Readings that are not stored yet may be missing: no ingester answers for 1 partition, 2 of 3 answer.",
  ]);
  const waits = "the tenant's readings from offset 7 on wait for the limit ingest-readings";
  assert.deepEqual(incomplete([`partition telemetry/0: ${waits}`, `partition telemetry/1: ${waits}`]), [waits]);
  assert.deepEqual(incomplete(["the store returns only some chunks of many devices"]), [
    "the store returns only some chunks of many devices",
  ]);
});
