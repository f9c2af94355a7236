import assert from "node:assert/strict";
import { test } from "node:test";

import { lastReadings, textSeries } from "../page/js/device.js";
import { shownMetric } from "../page/js/fleet.js";
import { degrees, frame, placed, positionMetrics } from "../page/js/geo.js";
import { palette } from "../page/js/palette.js";
import { byTag, cover, paces, silences, tagOf } from "../page/js/pace.js";
import { ramp, shading, textOn } from "../page/js/shades.js";
import { fragment, initial, parse } from "../page/js/state.js";
import { length } from "../page/js/format.js";
import { statesOf, stretches } from "../page/js/timeline.js";

const metric = (name, devices, ...types) => ({ metric: name, devices, types, units: [] });
const device = (name, metrics, first, last, tags = {}) => ({ device: name, metrics, first, last, tags });

test("links of before there were rooms are charts; those of a tenant alone are its fleet", () => {
  assert.equal(parse("tenant=acme").room, "fleet");
  assert.equal(parse("tenant=acme&range=3h").room, "fleet");
  for (const link of ["metric=a", "q=up", "device=m1", "match=a=b", "view=latest", "by=site"])
    assert.equal(parse(link).room, "explore", link);
  for (const room of ["fleet", "device", "explore"])
    for (const rest of [{}, { metrics: ["a"] }, { look: "gaps" }]) {
      const s = { ...initial(), ...rest, room };
      assert.deepEqual(parse(fragment(s, { length })), s);
    }
});

test("metrics are counted until each device has three, positions and texts last or never", () => {
  const metrics = [metric("latitude", 3, "float"), metric("a", 2, "float"), metric("b", 2, "bool"), metric("t", 3, "text")];
  const devices = [device("x", ["a", "b", "latitude", "t"]), device("y", ["a", "b", "latitude"]), device("z", ["latitude"])];
  assert.deepEqual(cover(devices, metrics, { last: ["latitude"] }), ["a", "b", "latitude"]);
  assert.deepEqual(cover(devices, metrics, { most: 1 }), ["latitude"]);
  assert.deepEqual(cover([], metrics), []);
});

test("a device is silent by its own interval, which its silence does not make longer", () => {
  const day = 86400e3;
  const [from, to] = [1000 * day, 1001 * day];
  const devices = [
    device("quick", [], from - day, to - 600e3), // each second until ten minutes ago
    device("slow", [], from, to - 3600e3), // each hour
    device("new", [], to - 5e3, to - 1e3), // too few readings
    device("gone", [], 0, from - day),
  ];
  const counts = new Map([["quick", day / 1e3 - 599], ["slow", 24], ["new", 2]]);
  const pace = paces(devices, counts, { from, to });
  assert.equal(Math.round(pace.get("quick")), 1000);
  assert.equal(Math.round(pace.get("slow")), 3600e3);
  const rows = silences(devices, pace, to);
  assert.deepEqual(rows.map((r) => r.state), ["silent", "reports", "unknown", "silent"]);
  assert.equal(Math.round(rows[0].times), 600);
  assert.equal(silences([device("d", [], 0, 0)], new Map([["d", 1e3]]), 29e3)[0].state, "reports", "30 s at least");
});

test("the last readings of a silent device, with its silence up to a day", () => {
  const hour = 3600e3;
  assert.deepEqual(lastReadings(10 * hour, 1000, 12 * hour + 1), { from: 9 * hour, to: 12 * hour + 1000 });
  assert.deepEqual(lastReadings(10 * hour, hour, 12 * hour), { from: -50 * hour, to: 12 * hour }, "60 intervals at least");
  assert.deepEqual(lastReadings(10 * hour, undefined, 100 * hour), { from: 9 * hour, to: 11 * hour });
});

test("devices by tag, the most silent value first", () => {
  const rows = [
    { tags: { site: "a", id: "1", one: "x" }, state: "reports" },
    { tags: { site: "b", id: "2", one: "x" }, state: "silent" },
    { tags: { site: "b", id: "3", one: "x" }, state: "unknown" },
    { tags: {}, state: "reports" },
  ];
  assert.deepEqual(byTag(rows, "site").map((v) => [v.value, v.devices, v.reports, v.silent]), [["b", 2, 0, 1], ["a", 1, 1, 0], ["", 1, 1, 0]]);
  assert.equal(tagOf(rows), "site", "few values, but more than one");
  assert.equal(tagOf([]), "");
});

test("positions", () => {
  const metrics = [metric("lat", 1, "float"), metric("lon", 1, "float"), metric("lng", 1, "text")];
  assert.deepEqual(positionMetrics(metrics), ["lat", "lon"]);
  assert.equal(positionMetrics([metric("lat", 1, "float")]), null);
  const latest = [
    { device: "a", metric: "lat", value: 53.5 }, { device: "a", metric: "lon", value: 10 },
    { device: "b", metric: "lat", value: 93 }, { device: "b", metric: "lon", value: 10 },
    { device: "c", metric: "lat", value: "NaN" }, { device: "c", metric: "lon", value: 3 },
  ];
  assert.deepEqual([...placed(latest, ["lat", "lon"])], [["a", { lat: 53.5, lon: 10 }]]);
  const places = [{ lat: 50, lon: 0 }, { lat: 60, lon: 20 }];
  const f = frame(places, { width: 600, height: 300 });
  for (const p of places) assert.ok(f.x(p.lon) >= 33 && f.x(p.lon) <= 567 && f.y(p.lat) >= 33 && f.y(p.lat) <= 267);
  assert.ok(f.y(60) < f.y(50), "north is above");
  for (const at of [[{ lat: 1, lon: 1 }], []]) {
    const one = frame(at, { width: 300, height: 300 });
    assert.ok(one.lats.length > 0 && one.lons.length > 0 && Number.isFinite(one.x(1)));
  }
  assert.equal(degrees(-3.5, "NS"), "3.5° S");
});

test("colours of values", () => {
  const s = shading([...Array(200).keys(), 1e9]);
  assert.equal(s.of("light", 1e9), s.of("light", s.high), "one that is far off does not hide the others");
  assert.ok(s.high < 1000 && s.low >= 0);
  assert.equal(shading([5]).of("light", 5), ramp("light", 0.5));
  assert.equal(shading([1, 2]).of("light", undefined), null);
  const states = shading(["on", "on", "off", true]);
  assert.deepEqual(states.states, ["on", "off", "true"]);
  assert.notEqual(states.of("dark", "on"), states.of("dark", "off"));
  assert.equal(shading([]).of("light", undefined), null);
});

test("a state lasts until the next one, and ends where readings stay away", () => {
  const at = (n, value) => ({ ts: n * 10, value });
  assert.deepEqual(stretches([at(0, "a"), at(1, "a"), at(2, "b"), at(3, "b"), at(9, "b")], 200), [
    { from: 0, to: 20, value: "a" },
    { from: 20, to: 55, value: "b" },
    { from: 90, to: 115, value: "b" },
  ]);
  assert.deepEqual(stretches([at(1, "a")], 50), [{ from: 10, to: 50, value: "a" }]);
  assert.deepEqual(stretches([], 50), []);
  assert.deepEqual(statesOf([{ from: 0, to: 5, value: "a" }, { from: 5, to: 20, value: "b" }, { from: 20, to: 22, value: "a" }]),
    [{ value: "b", lasted: 15 }, { value: "a", lasted: 7 }]);
  const series = textSeries([{ ts: 1, values: { s: "x" } }, { ts: 2, labels: { axis: "y" }, values: { s: "x" } }, { ts: 3, values: { n: 1 } }], "s", 9);
  assert.deepEqual(series.map((s) => s.labels), ["", "{axis=y}"]);
});

test("the metric of the strip is the one picked, else that of the most devices", () => {
  const metrics = [metric("latitude", 9, "float"), metric("longitude", 9, "float"), metric("speed", 5, "float"), metric("note", 9, "text")];
  assert.equal(shownMetric(initial(), { metrics }), "speed");
  assert.equal(shownMetric({ ...initial(), metrics: ["note"] }, { metrics }), "note");
  assert.equal(shownMetric({ ...initial(), metrics: ["gone"] }, { metrics: [metric("note", 9, "text")] }), "note");
  assert.equal(shownMetric(initial(), { metrics: [] }), "");
});

test("a state's name is read on its colour", () => {
  const luminance = (hex) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const mode of ["light", "dark"])
    for (const colour of [...palette(mode).series, palette(mode).axis]) {
      const [a, b] = [luminance(colour), luminance(textOn(colour))].sort((x, y) => x - y);
      assert.ok((b + 0.05) / (a + 0.05) >= 4.5, `${mode} ${colour}`);
    }
});
