// The room of one device: all that it reports, what is missing and why, what was refused, where its readings are.

import { Chart, swatch } from "./chart.js";
import { fill, h, middleCut, reach } from "./dom.js";
import { ago, charge, count, instant, length, number, roughly, usually } from "./format.js";
import { patience } from "./pace.js";
import { toRequest } from "./requests.js";
import { sampleList } from "./samples.js";
import { fromAggregates, summary, toNumber } from "./series.js";
import { stateColour } from "./shades.js";
import { aligned, stepFor } from "./time.js";
import { statesOf, stretches, Timeline } from "./timeline.js";

const mostTexts = 20_000; // readings of texts
const mostGaps = 100;
const fewSamples = 5; // refused readings that are shown at once
const gapDays = 31;

// Whose a gap is, by its verdict.
const whose = {
  never: "the device, or its way to Kafka",
  lost: "the way to Kafka",
  silent: "the device",
  refused: "the device's messages",
  late: "the way to Kafka: stored since",
  expired: "the retention",
  erased: "an operator: they were erased",
  waiting: "a limit of the tenant: they will come",
  replaying: "an ingester: they may come",
  damaged: "the store: tell your operator",
  unknown: "not known",
};

/** Device shows one device in an element. page is what the page offers to its rooms. */
export class Device {
  constructor(page) {
    this.page = page;
    this.drawn = [];
  }

  /** destroy ends what observes the page. */
  destroy() {
    for (const d of this.drawn) d.destroy();
    this.drawn = [];
  }

  /** run asks for what the room shows, and returns {answers, draw}. */
  async run(asked, { state, catalog, range, now, width }) {
    const device = state.devices[0] ?? "";
    if (device === "") {
      const { body, ...said } = await asked(toRequest("/api/v1/devices", [["limit", 100]]));
      return { answers: [{ body, ...said }], draw: (element) => fill(element, this.pick("", body.devices), this.choose(body.devices)) };
    }
    const answers = [];
    let diagnosis = null;
    const ask = async (path, parameters) => {
      const a = await asked(toRequest(path, parameters));
      answers.push(a);
      if (path === "/api/v1/gaps") diagnosis = a;
      return { ...a.body, source: a.cost };
    };
    const span = range.to - range.from;
    // Small charts have room for half as many points.
    const step = state.step || stepFor(span, Math.max(60, Math.min(400, width / 2)));
    const bounds = aligned(range, step);
    const one = ["device", device];
    const within = [["from", Math.max(range.from, range.to - gapDays * 86400e3)], ["to", Math.min(range.to, now)]];
    const none = (e) => {
      if (e.status === 404) return null;
      throw e;
    };
    const [found, tenant, aggregates, latest, gaps, refused] = await Promise.all([
      ask("/api/v1/devices", [["match", `device=${device}`], ["limit", 1]]),
      ask("/api/v1/tenant", [one]),
      ask("/api/v1/aggregates", [one, ["from", bounds.from], ["to", bounds.to], ["step", length(step)], ["limit", 500_000]]),
      ask("/api/v1/latest", [one, ["limit", 1000]]),
      ask("/api/v1/gaps", [one, ...within]).catch((e) => (e.status === 400 ? { gaps: [], fault: e.message } : none(e))),
      ask("/api/v1/rejected", [one, ["samples", 20]]).catch(none),
    ]);
    const texts = [...new Set(aggregates.aggregates.filter((a) => a.type === "text").map((a) => a.metric))].slice(0, 20);
    const readings = texts.length === 0 ? { readings: [] } : await ask("/api/v1/readings", [one, ...texts.map((m) => ["metric", m]),
      ["from", range.from], ["to", range.to], ["limit", mostTexts]]);
    const units = new Map(catalog.metrics.map((m) => [m.metric, m.units[0] ?? ""]));
    this.shown = { device, state, catalog, range: bounds, step, known: found.devices[0], retention: tenant.retention ?? [], aggregates,
      latest: latest.latest, gaps, refused, texts, readings, units, now };
    this.shown.there = Boolean(found.devices[0]) || aggregates.aggregates.length > 0 || latest.latest.length > 0;
    // That nothing is known of the intervals of a device that is not there makes no answer incomplete.
    this.shown.answers = this.shown.there ? answers : answers.filter((a) => a !== diagnosis);
    return { answers: this.shown.answers, draw: (element) => this.draw(element) };
  }

  draw(element) {
    this.destroy();
    const { there, device, catalog, answers } = this.shown;
    if (!there) {
      fill(element, this.pick(device, catalog.devices), h("div", { class: "panel empty" },
        ...(answers.every((a) => a.complete)
          ? [h("h3", {}, `There is no device ${device}`), h("p", {}, "Its first reading has not come, or its readings have expired.")]
          : [h("h3", {}, `No reading of ${device} is known`), h("p", {}, "The answer is incomplete: readings that are not stored yet may be missing.")])));
      return;
    }
    const grid = h("div", { class: "multiples" });
    fill(element, this.pick(device, catalog.devices), this.facts(), grid, h("div", { class: "fleet-grid" },
      this.gaps(), this.refused(), this.newest(), this.bins()));
    this.multiples(grid);
  }

  pick(device, devices) {
    const field = h("input", { class: "field", id: "device-name", value: device, placeholder: "id of a device", list: "device-names",
      "aria-label": "Device", spellcheck: false, autocapitalize: "off", autocomplete: "off" });
    const submit = (e) => {
      e.preventDefault();
      if (field.value.trim()) this.page.open(field.value.trim());
    };
    return h("form", { class: "filters", on: { submit } }, field,
      h("datalist", { id: "device-names" }, devices.slice(0, 1000).map((d) => h("option", { value: d.device }))),
      h("button", { type: "submit" }, "Show"),
      device ? h("button", { type: "button", on: { click: () => this.page.change({ room: "explore" }) } }, "Explore its metrics") : null);
  }

  choose(devices) {
    return h("div", { class: "panel empty" }, h("h3", {}, "Which device?"),
      h("div", { class: "some" }, devices.slice(0, 12).map((d) => h("button", { on: { click: () => this.page.open(d.device) } }, d.device))));
  }

  facts() {
    const { device, known, gaps, now } = this.shown;
    const { utc } = this.page;
    const usual = gaps?.expect_ms;
    const silence = known ? now - known.last : 0;
    const silent = usual && silence > Math.max(patience.least, patience.intervals * usual);
    const items = known ? [
      ["last reading", [ago(known.last, now), " ", silent ? h("span", { class: "dot warn" }, `silent for ${count(Math.floor(silence / usual), "usual interval")}`) : null],
        instant(known.last, utc)],
      ["first reading", instant(known.first, utc)],
      ["usual interval", usual ? usually(usual) : "not known"],
      ["metrics", String(known.metrics.length)],
      gaps?.gaps.length > 0 ? ["gaps in this range", h("button", { class: "link", title: "Whose they are, and why", on: { click: () => reach("Gaps") } }, String(gaps.gaps.length))] : null,
    ].filter(Boolean) : [];
    return h("section", { class: "panel facts", "aria-label": "Device" }, h("h3", {}, device),
      h("dl", {}, items.map(([what, value, title]) => h("div", {}, h("dt", {}, what), h("dd", { title }, value)))),
      h("div", { class: "some" }, Object.entries(known?.tags ?? {}).map(([tag, value]) =>
        h("button", { class: "chip", title: "All devices with this tag",
          on: { click: () => this.page.change({ room: "fleet", devices: [], match: [{ label: tag, op: "=", value }] }) } }, `${tag}=${value}`))));
  }

  // What is said where the range has no readings: when the last ones were.
  nothing() {
    const { known, gaps, now, range } = this.shown;
    const before = known && known.last < range.from;
    const last = before ? h("button", { class: "primary", on: { click: () => this.page.zoom(lastReadings(known.last, gaps?.expect_ms, now)) } }, "Around its last reading") : null;
    return h("div", { class: "panel empty" },
      h("p", {}, before ? `Nothing was reported in this range: its last reading is of ${instant(known.last, this.page.utc)}.` : "Nothing was reported in this range."),
      h("div", { class: "some" }, last, this.page.presets.map((p) => h("button", { on: { click: () => this.page.range(p) } }, `Last ${p}`))));
  }

  // --- small multiples

  multiples(grid) {
    const { aggregates, texts, state, readings, range } = this.shown;
    const numeric = aggregates.aggregates.filter((a) => a.type !== "text");
    const metrics = [...new Set(numeric.map((a) => a.metric))].sort();
    if (metrics.length + texts.length === 0) {
      fill(grid, this.nothing());
      return;
    }
    for (const metric of metrics) {
      const rows = numeric.filter((a) => a.metric === metric);
      const bool = rows.every((a) => a.type === "bool");
      const { curves } = fromAggregates(bool ? rows.map((a) => ({ ...a, avg: a.last })) : rows, [metric])[0];
      grid.append(this.multiple(metric, curves, bool));
    }
    for (const metric of texts) {
      for (const { labels, list } of textSeries(readings.readings, metric, Math.min(range.to, this.shown.now)))
        grid.append(this.states(metric, labels, list));
    }
    if (readings.truncated)
      grid.append(h("p", { class: "hint" }, `Of texts the first ${mostTexts.toLocaleString("en")} readings are shown.`));
    for (const d of this.drawn) d.mount?.();
    if (state.metrics.length > 0) grid.querySelector(`[data-metric="${CSS.escape(state.metrics[0])}"]`)?.classList.add("picked");
  }

  multiple(metric, curves, bool) {
    const { range, step, units } = this.shown;
    const unit = units.get(metric);
    const chart = new Chart({ title: metric, curves, step, range, exact: false, stepped: bool, height: bool ? 84 : 130, known: this.shown.gaps?.gaps ?? [] },
      { ...this.page.drawing(), panels: 2, gapAt: (t) => this.verdictAt(t) });
    this.drawn.push(chart);
    // The newest value, where it is of this one curve; that of a curve is the average of a step.
    const newest = this.shown.latest.filter((r) => r.metric === metric);
    const last = newest.length === 1 ? toNumber(newest[0].value) : summary(curves[0]).last;
    const said = bool ? (last === null ? "" : last >= 0.5 ? "true" : "false") : `${number(last)}${unit ? " " + unit : ""}`;
    return h("section", { class: "panel", "aria-label": metric, "data-metric": metric },
      h("h3", {}, h("button", { class: "link", title: "Explore this metric", on: { click: () => this.page.metric(metric, this.shown.device) } }, metric),
        curves.length > 1 ? curves.slice(0, 6).map((c, n) => h("span", { class: "hint" }, swatch(this.page.mode, n), " ", c.name)) : h("span", { class: "hint" }, said)),
      chart.element);
  }

  states(metric, labels, list) {
    const name = [metric, labels].filter(Boolean).join(" ");
    const line = new Timeline({ name, list, range: this.shown.range, page: { ...this.page.drawing(), mode: this.page.mode } });
    this.drawn.push(line);
    const states = statesOf(list);
    return h("section", { class: "panel", "aria-label": name, "data-metric": metric },
      h("h3", {}, name, h("span", { class: "hint" }, list[list.length - 1]?.value ?? "")),
      line.element,
      h("div", { class: "keys-of-strip hint" }, states.slice(0, 7).map((s) => {
        const patch = h("span", { class: "patch" });
        patch.style.background = stateColour(this.page.mode, states.map((x) => x.value), s.value);
        return h("span", {}, patch, `${s.value} ${roughly(s.lasted)}`);
      })));
  }

  // --- tables

  newest() {
    const { latest, units, now } = this.shown;
    return section("Newest values", "", latest.length === 0 ? "None in the last 31 days." : table(["Metric", "Value", "Age"], latest.map((r) => [
      middleCut(r.metric + labelled(r.labels)),
      `${typeof r.value === "string" ? r.value : number(r.value)} ${units.get(r.metric) ?? ""}`,
      h("span", { title: instant(r.ts, this.page.utc) }, ago(r.ts, now))])));
  }

  // What a chart says of the gap at an instant: whose it is; "" where the gaps of the device have none there.
  verdictAt(t) {
    const found = (this.shown.gaps?.gaps ?? []).find((g) => t >= (g.began ?? g.from) && t <= g.to);
    if (!found) return "";
    const since = found.began ? ` since ${instant(Math.floor(found.began / 1e3) * 1e3, this.page.utc)}` : "";
    return `gap of ${length(Math.round((found.to - (found.began ?? found.from)) / 1e3) * 1e3)}${since}, ${found.verdict}: ${whose[found.verdict] ?? found.verdict}`;
  }

  gaps() {
    const { gaps, range } = this.shown;
    if (!gaps) return null;
    if (gaps.fault) return section("Gaps", "", gaps.fault);
    const { utc } = this.page;
    const said = gaps.expect_ms ? `usual interval ${usually(gaps.expect_ms)}` : "too few readings for an interval: only what the store lacks shows";
    const began = (g) => g.began ?? g.from;
    const rows = gaps.gaps.slice().reverse().slice(0, mostGaps).map((g) => [
      [h("button", { class: "link", title: "Show this time", on: { click: () => this.page.zoom(around({ from: began(g), to: g.to })) } }, instant(Math.floor(began(g) / 1e3) * 1e3, utc)),
        began(g) < range.from ? h("span", { class: "hint" }, " before the range") : null],
      length(Math.round((g.to - began(g)) / 1e3) * 1e3),
      g.missing > 0 ? g.missing.toLocaleString("en") : "",
      h("span", { class: g.verdict === "damaged" ? "dot warn" : "" }, g.verdict),
      whose[g.verdict] ?? g.verdict,
      h("span", { class: "wrap" }, [g.reason, g.detail, g.fix, g.arrived ? `stored ${instant(g.arrived, utc)}` : ""].filter(Boolean).join(": ")),
    ]);
    const more = gaps.gaps.length > mostGaps ? ` The last ${mostGaps} of ${gaps.gaps.length} are shown.` : "";
    return section("Gaps", said + "." + more, rows.length === 0 ? "None in this range." : table(["From", "Length", "Missing", "Verdict", "Whose", "Why"], rows), true);
  }

  refused() {
    const { refused, now } = this.shown;
    if (!refused) return null;
    const samples = refused.rejected.flatMap((r) => (r.samples ?? []).map((s) => ({ ...s, reason: r.reason }))).sort((a, b) => b.at - a.at);
    const said = refused.rejected.map((r) => `${r.reason}: ${r.count.toLocaleString("en")}`).join(", ");
    return section("Refused readings", said ? `${said}, in the last day` : "of the last day", samples.length === 0 ? "None in the last day." :
      sampleList(samples, { few: fewSamples, said: (s) => `${s.ts ? `of ${instant(s.ts, this.page.utc)}, ` : ""}refused ${ago(s.at, now)}` }), true);
  }

  bins() {
    const { aggregates, retention, range } = this.shown;
    const { documents = 0, cached = 0, head_rows: held = 0, request_units: rus = 0 } = aggregates.source ?? {};
    const row = (what, said) => h("tr", {}, h("td", {}, what), h("td", {}, h("span", { class: "wrap" }, said)));
    return section("Where its readings are", `${instant(range.from, this.page.utc)} to ${instant(range.to, this.page.utc)}`, h("table", { class: "data" }, h("tbody", {},
      row("held", held > 0 ? `${count(held, "row")} of open bins, in an ingester's memory and in the log or the journal` : "nothing: all of it is stored"),
      row("stored", `${count(documents + cached, "chunk")}; this range cost ${charge(rus)} to read`),
      retention.map((line, i) => row(i === 0 ? "kept" : "", line)))));
  }
}

/** lastReadings returns a range that has the last readings of a silent device, and its silence up to a day. */
export function lastReadings(last, usual, now) {
  const margin = Math.max(3600e3, 60 * (usual ?? 0));
  const to = now - last <= 86400e3 ? now : last + margin;
  return { from: last - margin, to: Math.ceil(to / 1e3) * 1e3 };
}

function around({ from, to }) {
  const margin = Math.max(60e3, to - from);
  return { from: from - margin, to: to + margin };
}

function labelled(labels) {
  const all = Object.entries(labels ?? {}).map(([l, v]) => `${l}=${v}`);
  return all.length > 0 ? ` {${all.join(", ")}}` : "";
}

/** textSeries returns the stretches of a metric that is text, for each set of labels: {labels, list}. */
export function textSeries(readings, metric, until) {
  const by = new Map();
  for (const { ts, labels, values } of readings) {
    if (typeof values[metric] !== "string") continue;
    const key = labelled(labels).trim();
    if (!by.has(key)) by.set(key, []);
    by.get(key).push({ ts, value: values[metric] });
  }
  return [...by].map(([labels, list]) => ({ labels, list: stretches(list, until) }));
}

function section(title, hint, content, wide = false) {
  return h("section", { class: wide ? "panel wide" : "panel", "aria-label": title }, h("h3", {}, title, hint ? h("span", { class: "hint" }, hint) : null),
    typeof content === "string" ? h("p", { class: "none pad" }, content) : h("div", { class: "scroll", tabIndex: 0 }, content));
}

function table(names, rows) {
  return h("table", { class: names.length > 3 ? "data stacked" : "data" }, h("thead", {}, h("tr", {}, names.map((n) => h("th", { scope: "col" }, n)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((c, i) => h("td", { "data-name": names[i] }, c))))));
}
