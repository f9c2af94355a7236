// The room of all devices: which report, which are silent by their own measure, what they say now, where they are.

import { Cells, squares } from "./cells.js";
import { costPanel, money } from "./cost.js";
import { lastReadings } from "./device.js";
import { fill, h, middleCut, reach } from "./dom.js";
import { ago, count, instant, number, roughly, usually } from "./format.js";
import { degrees, frame, placed, positionMetrics } from "./geo.js";
import { byTag, cover, paces, patience, silences, tagOf, window } from "./pace.js";
import { palette } from "./palette.js";
import { expression, matches, toRequest } from "./requests.js";
import { meaning } from "./reasons.js";
import { ramp, shading } from "./shades.js";
import { numeral } from "./series.js";

const most = 50_000; // devices
const paceAge = 1200e3; // ms, after which intervals are learnt again
const few = 8; // rows of a list that is cut
const mostRows = 500; // of one that is opened
const mostTagValues = 30;
const mapHeight = 320;

/** Fleet shows a tenant's devices in an element. page is what the page offers to its rooms. */
export class Fleet {
  constructor(page) {
    this.page = page;
    this.pace = { at: 0, of: "", known: new Map() };
    this.pictures = [];
  }

  /** forget drops what was learnt of a tenant. */
  forget() {
    this.pace = { at: 0, of: "", known: new Map() };
  }

  /** destroy ends what observes the page. */
  destroy() {
    for (const p of this.pictures) p.destroy();
    this.pictures = [];
  }

  /** run asks for what the room shows, and returns {answers, draw}: draw puts it into an element. */
  async run(asked, { state, catalog, about, range, now }) {
    const answers = [];
    const ask = async (...request) => {
      const a = await asked(toRequest(...request));
      answers.push(a);
      return a.body;
    };
    const metric = shownMetric(state, catalog);
    const where = positionMetrics(catalog.metrics);
    const wanted = [...new Set([metric, ...(where ?? [])].filter(Boolean))];
    const [list, latest, refused, cost] = await Promise.all([
      ask("/api/v1/devices", [["limit", most]]),
      wanted.length === 0
        ? { latest: [] }
        : ask("/api/v1/latest", [...wanted.map((m) => ["metric", m]), ["from", range.from], ["to", range.to],
            ["limit", most * wanted.length]]),
      ask("/api/v1/rejected", [["samples", 100]]).catch(missing),
      ask("/api/v1/cost", []).catch(() => null), // devices are shown also where bills can't be made
    ]);
    const devices = list.devices.filter((d) => matches(d, { match: state.match, devices: [] }));
    await this.learn(ask, list.devices, catalog, now);
    const report = await this.report(ask, state, now);
    const rows = silences(devices, this.pace.known, now);
    const newest = new Map(latest.latest.filter((r) => r.metric === metric).map((r) => [r.device, r]));
    const places = where ? placed(latest.latest, where) : null;
    const units = catalog.metrics.find((m) => m.metric === metric)?.units ?? [];
    const all = list.devices.length;
    this.shown = { state, catalog, about, rows, newest, places, refused, cost, report, metric, all, now, range, unit: units[0] ?? "",
      truncated: list.truncated };
    return { answers, draw: (element) => this.draw(element) };
  }

  // Intervals are learnt by counting a day's readings, which rollups answer.
  async learn(ask, devices, catalog, now) {
    const metrics = cover(devices, catalog.metrics, { last: positionMetrics(catalog.metrics) ?? [] });
    const of = metrics.join("\n");
    if (this.pace.of === of && now - this.pace.at < paceAge) return;
    const counts = new Map();
    const each = [];
    // One after the other: the second reads from the cache what the first has paid for.
    for (const m of metrics)
      each.push(
        await ask("/prometheus/api/v1/query", [
          ["query", `max by (device) (count_over_time({__name__=${JSON.stringify(m)}}[1d]))`],
          ["time", now / 1e3],
          ["limit", most],
        ]),
      );
    for (const { data } of each)
      for (const { metric, value } of data.result)
        counts.set(metric.device, Math.max(counts.get(metric.device) ?? 0, numeral(value[1])));
    const known = paces(devices, counts, { from: now - window, to: now });
    this.pace = { at: now, of, known };
  }

  // A report that reads chunks, if the state asks for one.
  async report(ask, { look }, now) {
    if (look === "gaps") return ask("/api/v1/attendance", [["from", now - window], ["to", now], ["limit", most]]);
    if (look === "late") {
      const parameters = [["since", now - 6 * 3600e3], ["from", now - window], ["change", "late"], ["limit", 10_000]];
      return ask("/api/v1/diff", parameters);
    }
    return null;
  }

  draw(element) {
    this.destroy();
    const { rows, all, truncated, state } = this.shown;
    const of = (s) => rows.filter((r) => r.state === s).length;
    const refused = (this.shown.refused?.rejected ?? []).reduce((n, r) => n + r.count, 0);
    const { cost } = this.shown;
    // A tile leads to the panel that says more.
    const tile = (n, what, mark, title, panel) => {
      const inside = [h("b", {}, typeof n === "number" ? n.toLocaleString("en") : n), h("span", { class: mark }, what)];
      return panel ? h("button", { class: "tile", title, on: { click: () => reach(panel) } }, inside) : h("div", { class: "tile", title }, inside);
    };
    fill(
      element,
      h("div", { class: "tiles", role: "group", "aria-label": "How many devices report" },
        tile(rows.length, rows.length === all ? "devices" : `of ${all.toLocaleString("en")} devices`, "", "", "Newest values"),
        tile(of("reports"), "report", "dot", "a reading within three usual intervals"),
        tile(of("silent"), "silent", of("silent") > 0 ? "dot warn" : "", silentMeans(), "Silent devices"),
        of("unknown") > 0 ? tile(of("unknown"), "with no interval yet", "", "fewer than three readings of the last day") : null,
        tile(refused, "refused in a day", refused > 0 ? "dot warn" : "", "which, and why", "Data quality"),
        cost?.dollars ? tile(money(cost.dollars.total), `cost of ${cost.month}`, "", "what it is made of", "Cost") : null),
      this.filters(),
      truncated ? h("p", { class: "hint" }, `Shown are the first ${most.toLocaleString("en")} devices.`) : null,
      h("div", { class: "fleet-grid" }, this.silent(), this.tags(), this.strip(), this.map(), this.quality(), this.limits(), this.shown.cost ? costPanel(this.shown.cost, { wide: true }) : null),
    );
    if (state.match.length > 0 && rows.length === 0) this.page.say("no device matches");
  }

  filters() {
    const { state } = this.shown;
    const field = h("input", { class: "field", id: "fleet-filter", placeholder: "devices like pump-00.*",
      "aria-label": "Devices by name, a regular expression", spellcheck: false, autocapitalize: "off", autocomplete: "off" });
    const submit = (e) => {
      e.preventDefault();
      const value = field.value.trim();
      if (value === "") return;
      const pattern = /[\\^$.*+?()[\]{}|]/.test(value) && expression(value) ? value : `.*${value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}.*`;
      this.page.change({ match: [...state.match, { label: "device", op: "=~", value: pattern }] });
    };
    return h("form", { class: "filters", on: { submit } }, field,
      state.match.map((m, i) =>
        h("button", { type: "button", title: "Drop this condition", class: "chip",
          on: { click: () => this.page.change({ match: state.match.filter((_, n) => n !== i) }) } },
        `${m.label}${m.op}${m.value}`, h("span", { "aria-hidden": "true" }, " ×"))));
  }

  // --- what they say now

  strip() {
    const { catalog, metric, rows, newest, unit } = this.shown;
    const names = catalog.metrics.map((m) => m.metric);
    const pick = h("select", { id: "fleet-metric", "aria-label": "Metric of the strip",
      on: { change: (e) => this.page.change({ metrics: [e.target.value] }) } },
    names.map((m) => h("option", { value: m, selected: m === metric }, m)));
    const order = h("select", { "aria-label": "Order of the strip",
      on: { change: (e) => { this.page.keep({ order: e.target.value }); show(e.target.value); } } },
    [["device", "by name"], ["value", "by value"], ["silent", "by silence"]].map(([v, t]) =>
      h("option", { value: v, selected: v === this.shown.state.order }, t)));
    const shades = shading([...newest.values()].map((r) => r.value));
    const cells = new Cells({
      label: `Newest ${metric} of ${count(rows.length, "device")}`,
      page: this.page,
      layout: squares(360, 4, 44),
      paint: (c, b, item, mode) => {
        const colour = shades.of(mode, newest.get(item.device)?.value);
        if (colour) {
          c.fillStyle = colour;
          c.fillRect(b.x, b.y, b.w, b.h);
        } else {
          c.strokeStyle = palette(mode).grid;
          c.lineWidth = 1;
          c.strokeRect(b.x + 0.5, b.y + 0.5, Math.max(1, b.w - 1), Math.max(1, b.h - 1));
        }
        if (item.state === "silent" && b.w > 8) {
          c.fillStyle = palette(mode).gap;
          const side = Math.max(4, Math.floor(b.w / 4));
          c.fillRect(b.x + b.w - side, b.y, side, side);
        }
      },
      tip: (item) => this.tip(item, metric),
      open: (item) => this.page.open(item.device),
    });
    this.pictures.push(cells);
    const show = (by) => cells.show(ordered(rows, newest, by));
    show(this.shown.state.order);
    return h("section", { class: "panel wide", "aria-label": "Newest values" },
      h("h3", {}, "Newest", pick, order, h("span", { class: "hint" }, unit)),
      metric ? cells.element : h("p", { class: "none" }, "No metric yet."),
      legendOf(shades, { without: rows.filter((r) => !newest.has(r.device)).length, silent: rows.some((r) => r.state === "silent") }, this.page.mode));
  }

  tip(item, metric) {
    const { newest, now, unit } = this.shown;
    const r = newest.get(item.device);
    const value = r ? (typeof r.value === "string" ? r.value : number(r.value)) : "no value in this range";
    return [
      h("b", {}, item.device),
      h("div", {}, `${metric}: ${value}${r && unit ? " " + unit : ""}`),
      h("div", { class: "hint" }, `last reading ${ago(item.last, now)}${item.state === "silent" ? ": silent" : ""}`),
    ];
  }

  // --- who is silent

  silent() {
    const { rows, now } = this.shown;
    const list = rows.filter((r) => r.state === "silent").sort((a, b) => b.times - a.times || b.silent - a.silent);
    return h("section", { class: "panel", "aria-label": "Silent devices" },
      h("h3", {}, "Silent", h("span", { class: "hint" }, silentMeans())),
      list.length === 0
        ? h("p", { class: "none" }, rows.length === 0 ? "There are no devices." : "All devices report as often as they usually do.")
        : this.rows(["Device", "Silent for", "Intervals missed", "Usual interval", "Last reading"], list, (r) => [
          h("button", { class: "link", "aria-label": r.device, title: "Its last readings, and the silence", on: { click: () => this.page.open(r.device, this.lasting(r)) } }, middleCut(r.device)),
          roughly(r.silent),
          r.pace ? times(r.times) : "not known",
          r.pace ? usually(r.pace) : "not known",
          h("span", { title: ago(r.last, now) }, instant(Math.floor(r.last / 1e3) * 1e3, this.page.utc))]));
  }

  // The range in which a silent device is opened: one with its last readings, where they lie before this one.
  lasting({ last, pace }) {
    const { now, range } = this.shown;
    return last < range.from ? lastReadings(last, pace, now) : {};
  }

  // A table whose rows beyond the first few are shown when they are asked for.
  rows(names, list, cells) {
    const row = (r) => h("tr", {}, cells(r).map((c) => h("td", {}, c)));
    const body = h("tbody", {}, list.slice(0, few).map(row));
    const more = h("button", { class: "link more-rows", on: { click: () => {
      body.append(...list.slice(few, mostRows).map(row));
      more.remove();
    } } }, `and ${Math.min(mostRows, list.length) - few} more`);
    return [h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: "data" }, heads(names), body)), list.length > few ? more : null];
  }

  link(device) {
    return h("button", { class: "link", "aria-label": device, on: { click: () => this.page.open(device) } }, middleCut(device));
  }

  // --- by tag

  tags() {
    const { state, rows } = this.shown;
    const names = [...new Set(rows.flatMap((r) => Object.keys(r.tags)))].sort();
    if (names.length === 0) return null;
    const tag = names.includes(state.by) ? state.by : tagOf(rows);
    const values = byTag(rows, tag);
    const pick = h("select", { id: "fleet-tag", "aria-label": "Tag", on: { change: (e) => this.page.change({ by: e.target.value }) } },
      names.map((n) => h("option", { value: n, selected: n === tag }, n)));
    return h("section", { class: "panel", "aria-label": "By tag" },
      h("h3", {}, "By", pick),
      h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: "data" },
        heads(["Value", "Devices", "Report", "Silent"], 1),
        h("tbody", {}, values.slice(0, mostTagValues).map((v) =>
          h("tr", {},
            h("td", {}, h("button", { class: "link", "aria-label": v.value || "without", title: "Only these",
              on: { click: () => this.page.change({ match: [...state.match, { label: tag, op: "=", value: v.value }] }) } },
            middleCut(v.value || "without"))),
            [v.devices, v.reports, v.silent].map((n, i) =>
              h("td", { class: "n" }, i === 2 && n > 0 ? h("span", { class: "dot warn" }, n.toLocaleString("en")) : n.toLocaleString("en")))))))),
      values.length > mostTagValues ? h("p", { class: "none" }, `and ${values.length - mostTagValues} more`) : null);
  }

  // --- where they are

  map() {
    const { rows, places } = this.shown;
    if (!places) return null;
    const there = rows.filter((r) => places.has(r.device));
    let view = null;
    const cells = new Cells({
      label: `Positions of ${count(there.length, "device")}`,
      page: this.page,
      layout: (width, items) => {
        view = frame(items.map((i) => places.get(i.device)), { width, height: mapHeight });
        const at = (i) => {
          const p = places.get(items[i].device);
          return { x: view.x(p.lon) - 4, y: view.y(p.lat) - 4, w: 8, h: 8 };
        };
        return { height: mapHeight, columns: 1, at };
      },
      ground: (c, size, mode) => graticule(c, view, size, mode),
      paint: (c, b, item, mode) => {
        const { gap, series, ground } = palette(mode);
        c.beginPath();
        if (item.state === "silent") c.rect(b.x, b.y, b.w, b.h);
        else c.arc(b.x + 4, b.y + 4, 4, 0, 2 * Math.PI);
        c.fillStyle = item.state === "silent" ? gap : series[0];
        c.fill();
        c.lineWidth = 1;
        c.strokeStyle = ground;
        c.stroke();
      },
      tip: (item) => this.tip(item, this.shown.metric),
      open: (item) => this.page.open(item.device),
    });
    this.pictures.push(cells);
    cells.show(there);
    return h("section", { class: "panel wide", "aria-label": "Positions" },
      h("h3", {}, "Where they are", h("span", { class: "hint" },
        `${count(there.length, "device")} with a position in this range; a square is silent`)),
      there.length > 0 ? cells.element : h("p", { class: "none" }, "No device reported a position in this range."));
  }

  // --- data quality

  quality() {
    const { state, report, refused } = this.shown;
    const look = (name, text) => h("button", { "aria-pressed": String(state.look === name),
      on: { click: () => this.page.change({ look: state.look === name ? "" : name }) } }, text);
    return h("section", { class: "panel", "aria-label": "Data quality" },
      h("h3", {}, "Data quality", h("span", { class: "hint" }, "of the last day")),
      h("div", { class: "some pad" }, look("gaps", "Hours without readings"), look("late", "Late readings")),
      h("p", { class: "hint pad" }, "Both read the day's chunks; what that cost stands above."),
      state.look === "gaps" ? this.gaps(report) : state.look === "late" ? this.late(report) : null,
      this.refused(refused));
  }

  gaps(report) {
    const list = report.devices
      .map((d) => ({ device: d.device, hours: [...d.present].filter((c) => c === "0").length,
        refused: [...d.present].filter((c) => c === "r").length, present: d.present }))
      .filter((d) => d.hours + d.refused > 0)
      .sort((a, b) => b.hours + b.refused - a.hours - a.refused);
    if (list.length === 0) return h("p", { class: "none" }, "No device was without readings for an hour.");
    return this.rows(["Device", "Hours without", "Hours of the last day"], list, (d) => [this.link(d.device), String(d.hours + d.refused),
      h("span", { class: "presence", role: "img", "aria-label": d.present }, [...d.present].map((c) => h("span", { class: presence[c] ?? "gone" })))]);
  }

  late(report) {
    const by = new Map();
    for (const c of report.changes) by.set(c.device, (by.get(c.device) ?? 0) + 1);
    const list = [...by].sort((a, b) => b[1] - a[1]);
    if (list.length === 0) return h("p", { class: "none" }, "No reading was stored late in the last six hours.");
    return this.rows(["Device", "Late values, stored in the last six hours"], list, ([device, n]) => [this.link(device), n.toLocaleString("en")]);
  }

  refused(answer) {
    if (!answer) return null;
    if (answer.rejected.length === 0) return h("p", { class: "none" }, "No reading was refused.");
    return h("table", { class: "data" }, heads(["Refused", "Readings", "Last", "Devices"]),
      h("tbody", {}, answer.rejected.map((r) => {
        const by = new Map();
        for (const s of r.samples ?? []) if (s.device) by.set(s.device, (by.get(s.device) ?? 0) + 1);
        const names = [...by].sort((a, b) => b[1] - a[1]).slice(0, 3);
        return h("tr", {}, h("td", {}, r.reason, meaning(r.reason) ? h("div", { class: "hint folds" }, meaning(r.reason)) : null), h("td", {}, r.count.toLocaleString("en")),
          h("td", {}, ago(r.last, this.shown.now)), h("td", {}, names.map(([d]) => [this.link(d), " "])));
      })));
  }

  // --- what bounds the tenant

  limits() {
    const { about, all } = this.shown;
    const known = Object.entries(about?.limits ?? {});
    const used = about?.used ?? {};
    return h("section", { class: "panel", "aria-label": "Limits" },
      h("h3", {}, "Limits of the tenant"),
      known.length === 0
        ? h("p", { class: "none" }, `None are set. ${count(all, "device")} so far.`)
        : h("table", { class: "data" }, heads(["Limit", "At most", "Used"], 1),
          h("tbody", {}, known.map(([name, at]) => h("tr", {},
            h("td", {}, name), h("td", { class: "n" }, typeof at === "number" ? number(at) : String(at)),
            h("td", { class: "n" }, name === "ingest-devices" ? share(all, at) : name in used ? part(used[name]) : ""))))));
  }
}

const presence = { 1: "here", 0: "gone", r: "refused", "-": "before" };

function share(used, at) {
  return [h("meter", { max: at, value: used, high: at * 0.8, "aria-label": "used" }), ` ${number(used)} (${Math.round((100 * used) / at)} %)`];
}

function part(used) {
  return [h("meter", { max: 1, value: Math.min(1, Math.max(0, used)), high: 0.8, "aria-label": "used" }), ` ${Math.round(100 * used)} %`];
}

function heads(names, numbersFrom = 9) {
  return h("thead", {}, h("tr", {}, names.map((n, i) => h("th", { scope: "col", class: i >= numbersFrom ? "n" : null }, n))));
}

function silentMeans() {
  return `nothing for ${patience.intervals} of its usual intervals`;
}

function times(n) {
  return n >= 100 ? Math.round(n).toLocaleString("en") : String(Number(n.toPrecision(2)));
}

// An endpoint that a service without a topic of dead letters does not have.
function missing(e) {
  if (e.status === 404) return null;
  throw e;
}

/** shownMetric returns the metric whose newest values Fleet shows: the one picked, or that of the most devices. */
export function shownMetric(state, { metrics }) {
  if (metrics.some((m) => m.metric === state.metrics[0])) return state.metrics[0];
  const positions = (positionMetrics(metrics) ?? []);
  const best = metrics
    .filter((m) => m.types.some((t) => t !== "text") && !positions.includes(m.metric))
    .sort((a, b) => b.devices - a.devices)[0];
  return (best ?? metrics[0])?.metric ?? "";
}

function ordered(rows, newest, order) {
  const names = new Intl.Collator("en", { numeric: true });
  const value = (r) => {
    const v = newest.get(r.device)?.value;
    return typeof v === "number" || typeof v === "bigint" ? Number(v) : v === undefined ? -Infinity : v === true ? 1 : 0;
  };
  const compare = { device: () => 0, value: (a, b) => value(b) - value(a) || 0, silent: (a, b) => b.silent - a.silent }[order];
  return [...rows].sort((a, b) => compare(a, b) || names.compare(a.device, b.device));
}

function legendOf(shades, { without, silent }, mode) {
  const patch = (colour, text) => {
    const p = h("span", { class: "patch" });
    p.style.background = colour;
    return h("span", {}, p, text);
  };
  const parts = shades.numeric && shades.low === shades.high
    ? [patch(ramp(mode, 0.5), number(shades.low))]
    : shades.numeric
    ? [0, 0.25, 0.5, 0.75, 1].map((s, i) => patch(ramp(mode, s),
      i === 0 ? `${shades.cut ? "up to " : ""}${number(shades.low)}` : i === 4 ? `${number(shades.high)}${shades.cut ? " and more" : ""}` : ""))
    : shades.states.slice(0, 7).map((s) => patch(shades.of(mode, s), s));
  if (without > 0) parts.push(h("span", {}, h("span", { class: "patch empty-patch" }), `${count(without, "device")} without a value in this range`));
  if (silent) parts.push(h("span", {}, h("span", { class: "patch silent-patch" }), "silent"));
  return h("div", { class: "keys-of-strip hint" }, parts);
}

function graticule(c, view, { width, height }, mode) {
  const { grid, axis } = palette(mode);
  c.strokeStyle = grid;
  c.lineWidth = 1;
  c.fillStyle = axis;
  c.font = "11px system-ui, sans-serif";
  const line = (...points) => {
    c.beginPath();
    c.moveTo(points[0], points[1]);
    c.lineTo(points[2], points[3]);
    c.stroke();
  };
  for (const lat of view.lats) {
    line(0, view.y(lat), width, view.y(lat));
    c.fillText(degrees(lat, "NS"), 4, view.y(lat) - 3);
  }
  for (const lon of view.lons) {
    line(view.x(lon), 0, view.x(lon), height);
    const text = degrees(lon, "EW");
    if (view.x(lon) + 3 + c.measureText(text).width <= width) c.fillText(text, view.x(lon) + 3, height - 4);
  }
}
