// What is below the query: charts with their legends, what an answer says of itself, errors.

import { Chart, swatch } from "./chart.js";
import { fill, h, middleCut } from "./dom.js";
import { charge, count, incomplete, instant, length, number, roughly } from "./format.js";
import { faultAt } from "./promql.js";
import { fromAggregates, fromMatrix, summary } from "./series.js";
import { SeriesMap } from "./seriesmap.js";

/**
 * panelsOf returns the panels of a plan with the curves of their answers. answers has one for each request; catalog says
 * which metrics are texts, which PromQL does not answer.
 */
export function panelsOf(plan, answers, catalog) {
  const types = new Map(catalog.metrics.map((m) => [m.metric, m.types]));
  const isText = (metric) => types.get(metric)?.every((t) => t === "text") ?? false;
  return plan.panels.map((p) => {
    const answer = answers.get(p.request);
    const base = { title: p.title, promql: p.promql, step: plan.step, range: plan.range };
    if (!answer) return { ...base, curves: [], texts: 0, exact: false };
    const { body } = answer;
    if (body.aggregates) {
      const { curves } = fromAggregates(body.aggregates, [p.title]).find((m) => m.metric === p.title);
      return {
        ...base,
        exact: false,
        texts: curves.filter((c) => c.text).length,
        curves: curves.filter((c) => !c.text),
      };
    }
    return { ...base, exact: true, texts: isText(p.title) ? 1 : 0, curves: matrix(body.data, plan.all) };
  });
}

// A range query of a number answers a matrix too; what is none can't be drawn.
function matrix(data, name) {
  return data.resultType === "matrix" ? fromMatrix(data.result, name) : [];
}

/** drawCharts puts panels into an element, and returns the charts, which are to be mounted and, later, destroyed. */
export function drawCharts(element, panels, page) {
  const shared = { ...page, panels: panels.length }; // so that one order holds for all legends
  const drawn = panels.map((panel) => drawPanel(panel, shared));
  fill(
    element,
    drawn.map((d) => d.element),
  );
  for (const { chart } of drawn) chart?.mount();
  return drawn;
}

/** same reports whether panels have the same curves, displayed alike, so that what is drawn can be updated. */
export function same(a, b) {
  const shape = (panels) =>
    JSON.stringify(panels.map(({ title, curves, step, unit, log, low, high, stack, heat, total }) =>
      [title, curves.map((c) => c.name), step, unit, log, low, high, stack, heat, total !== null]));
  return shape(a) === shape(b);
}

/** updateCharts shows newer values in what drawCharts has drawn of panels that are the same. */
export function updateCharts(drawn, panels) {
  drawn.forEach((d, i) => d.update?.(panels[i]));
}

function drawPanel(panel, page) {
  const { curves, title } = panel;
  const name = title || "Result";
  if (curves.length === 0) {
    const why = panel.texts > 0 ? `${name} is text: no chart shows it.` : "Nothing was reported in this range.";
    const instead =
      panel.texts > 0 ? h("button", { on: { click: () => page.latest() } }, "Newest values") : widen(page);
    return {
      element: h(
        "section",
        { class: "panel", "aria-label": name },
        title ? h("h3", {}, title) : null,
        h("div", { class: "empty" }, h("p", {}, why), h("div", { class: "some" }, instead)),
      ),
    };
  }
  const sized = { ...panel, height: page.heightOf(page.panels, curves.length) };
  const chart = panel.heat ? new SeriesMap(sized, page) : new Chart(sized, page, hiddenIn(panel, page.hiddenOf(panel)));
  const legend = new Legend(panel, chart, page);
  const head = h("h3", {}, heading(name, panel, chart, page));
  const below = h("div", {}, data(panel, chart, page));
  return {
    chart,
    update: (next) => {
      chart.update(next);
      legend.panel = next;
      legend.draw();
      fill(head, heading(name, next, chart, page));
      const open = below.querySelector("details").open;
      fill(below, data(next, chart, page));
      below.querySelector("details").open = open;
    },
    element: h(
      "section",
      { class: "panel", "aria-label": name },
      head,
      chart.element,
      panel.heat ? chart.legend() : null,
      legend.element,
      below,
    ),
  };
}

// How many devices a chart's heading links.
const mostLinks = 5;

// What stands above a chart: its name, how many curves, their step and unit, gaps.
function heading(name, panel, chart, page) {
  const { curves } = panel;
  const holes = chart.gaps.reduce((n, g) => n + g.length, 0);
  const band = curves.some((c) => c.min.some((v) => v !== null)) && chart.bands();
  return [
    name,
    h(
      "span",
      { class: "hint" },
      [
        panel.total ? `top ${curves.filter((c) => !c.before).length} of ${panel.total.curves}` : count(curves.length, "curve"),
        `step ${length(panel.step)}`,
        panel.unit,
        band ? "band: least to greatest" : "",
        panel.total ? `last values of all add up to ${number(panel.total.last)}` : "",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
    holes > 0 ? h("span", { class: "hint" }, h("span", { class: "hatch" }), ` ${count(holes, "gap")}`, whyGaps(curves, chart, page)) : null,
  ];
}

// A link to the device of each curve with gaps, whose room says why they are.
function whyGaps(curves, chart, page) {
  const gapped = curves.filter((c, n) => chart.gaps[n].length > 0 && !c.before && c.labels.device).map((c) => c.labels.device);
  const devices = [...new Set(gapped)];
  if (devices.length === 0) return null;
  const links = devices.slice(0, mostLinks).map((d, i) => [i > 0 ? ", " : " ", h("button", { class: "link", title: `Whose the gaps of ${d} are`, on: { click: () => page.why(d) } }, d)]);
  return [": why?", links, devices.length > mostLinks ? ` and ${devices.length - mostLinks} more` : ""];
}

/** widen returns buttons that ask for a longer range. */
export function widen(page) {
  return page.presets.map((p) => h("button", { on: { click: () => page.range(p) } }, `Last ${p}`));
}

// hiddenIn returns the numbers of the curves whose names are hidden. Names that no curve of this answer has are kept.
function hiddenIn({ curves }, names) {
  const found = new Set(curves.map((_, i) => i).filter((i) => names.has(curves[i].name)));
  return found.size === curves.length ? new Set() : found;
}

// A legend of more curves can be searched.
const fewCurves = 8;

const figures = ["last", "min", "avg", "max"];

// The curves of a panel with figures, sorted and searched. A click hides or shows one; with shift, all others.
class Legend {
  constructor(panel, chart, page) {
    Object.assign(this, { panel, chart, page, names: page.hiddenOf(panel), found: "", buttons: new Map() });
    this.body = h("tbody", {});
    this.head = h("tr", {});
    const search = h("input", {
      class: "field",
      type: "search",
      placeholder: "find a curve",
      "aria-label": "Find a curve",
      on: {
        input: (e) => {
          this.found = e.target.value.trim().toLowerCase();
          this.draw();
        },
      },
    });
    this.element = h(
      "div",
      { class: "legend-box" },
      panel.curves.length > fewCurves ? h("div", { class: "legend-search" }, search) : null,
      h("div", { class: "scroll legend", tabIndex: -1 }, h("table", { class: "data" }, h("thead", {}, this.head), this.body)),
    );
    this.draw();
  }

  // A heading that sorts by its column.
  heading(title) {
    const { ordered } = this.page;
    const by = ordered.column === title;
    const cls = title === "Curve" ? null : title === "last" ? "n" : "n optional";
    const sort = () => {
      this.page.ordered = { column: title, down: by ? !ordered.down : title !== "Curve" };
      this.page.sort("legend", this.page.ordered);
      this.draw();
      this.head.querySelector(`[data-column="${title}"]`).focus();
    };
    return h(
      "th",
      { class: cls, scope: "col", "aria-sort": by ? (ordered.down ? "descending" : "ascending") : "none" },
      h("button", { "data-column": title, on: { click: sort } }, title + (by ? (ordered.down ? " ↓" : " ↑") : "")),
    );
  }

  // The numbers of the curves that are found, in order.
  order() {
    const { curves } = this.panel;
    const { column, down } = this.page.ordered;
    const all = curves.map((_, n) => n).filter((n) => curves[n].name.toLowerCase().includes(this.found));
    if (column === "Curve") return down ? all.reverse() : all;
    const value = new Map(all.map((n) => [n, summary(curves[n])[column] ?? -Infinity]));
    return all.sort((a, b) => (down ? value.get(b) - value.get(a) : value.get(a) - value.get(b)));
  }

  draw() {
    const { curves } = this.panel;
    this.buttons.clear();
    fill(this.head, ["Curve", ...figures].map((t) => this.heading(t)));
    fill(
      this.body,
      this.order().map((n) => {
        const c = curves[n];
        const s = summary(c);
        const off = this.names.has(c.name);
        const mark = this.panel.heat ? null : swatch(this.page.mode, c.ink ?? n); // the colours of a heat map are values
        mark?.classList.toggle("off", off);
        const labels = Object.entries(c.labels)
          .map(([l, v]) => `${l}=${v}`)
          .join(", ");
        const button = h(
          "button",
          {
            class: "series",
            "aria-label": c.name,
            "aria-pressed": String(!off),
            title: labels || c.name,
            on: { click: (e) => this.toggle(n, e.shiftKey) },
          },
          mark,
          middleCut(c.name),
        );
        this.buttons.set(n, button);
        return h(
          "tr",
          {
            class: off ? "off" : null,
            on: { mouseenter: () => this.chart.light(n), mouseleave: () => this.chart.light(-1) },
          },
          h("td", { class: "wide" }, button),
          figures.map((k) => h("td", { class: k === "last" ? "n" : "n optional" }, number(s[k]))),
        );
      }),
    );
  }

  toggle(n, alone) {
    const { names } = this;
    const all = this.panel.curves.map((c) => c.name);
    const others = all.filter((_, i) => i !== n);
    const already = others.every((name) => names.has(name)) && !names.has(all[n]);
    if (alone) {
      names.clear();
      if (!already) for (const name of others) names.add(name);
    } else if (!names.delete(all[n])) names.add(all[n]);
    if (all.every((name) => names.has(name))) names.clear();
    this.draw();
    this.chart.show(hiddenIn(this.panel, names));
    this.page.hid();
    this.buttons.get(n)?.focus();
  }
}

// A table of what is drawn, for those who can't see it or want a number: made when it is opened.
const mostRows = 500;

function data({ curves }, chart, page) {
  const rows = h("div", { class: "rows scroll", tabIndex: 0 });
  const fillIn = () => {
    const all = curves
      .flatMap((c, n) => [
        ...c.times.map((t, i) => [t, c.name, c.avg[i], c.min[i], c.max[i]]),
        ...chart.gaps[n].map((g) => [g.from + 1, c.name, g]),
      ])
      .sort((a, b) => b[0] - a[0]);
    fill(
      rows,
      h(
        "table",
        { class: "data" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Time", "Curve", "Value", "Least", "Greatest"].map((t, i) =>
              h("th", { class: i > 1 ? "n" : null, scope: "col" }, t),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          all.slice(0, mostRows).map(([t, name, v, min, max]) => {
            const gap = typeof v === "object" && v !== null;
            return h(
              "tr",
              { class: gap ? "gap" : null },
              h("td", {}, instant(gap ? v.from : t, page.utc)),
              h("td", {}, name),
              gap
                ? h(
                    "td",
                    { class: "n", colSpan: 3 },
                    `gap of ${length(v.to - v.from)}${v.open ? " until the end" : ""}`,
                  )
                : [v, min, max].map((x) => h("td", { class: "n" }, number(x))),
            );
          }),
        ),
      ),
      all.length > mostRows
        ? h("p", { class: "none" }, `and ${count(all.length - mostRows, "row")} more: save it as CSV`)
        : null,
    );
  };
  return h(
    "details",
    { class: "more", on: { toggle: (e) => e.target.open && fillIn() } },
    h("summary", {}, "As a table"),
    rows,
  );
}

/** drawAnswer says beside the tabs what an answer cost, and whether it is complete. */
export function drawAnswer(element, a, spent) {
  const facts = [];
  facts.push(
    a.complete
      ? h("span", { class: "dot" }, "complete")
      : h("span", { class: "dot warn", title: incomplete(a.why).join("\n") }, "incomplete"),
  );
  if (a.cost) facts.push(h("b", {}, charge(a.cost.request_units)));
  facts.push(h("span", { class: "optional" }, `${Math.round(a.took)} ms`));
  const open = element.querySelector("details[open]") !== null;
  fill(element, facts, details(a, spent, open));
}

// details says where an answer came from: what operators want to know, and what a click shows everybody else.
function details(a, spent, open) {
  const lines = [];
  if (a.cost) {
    lines.push(["documents read", a.cost.documents.toLocaleString("en")]);
    lines.push(["documents kept from before", (a.cost.cached ?? 0).toLocaleString("en")]);
    lines.push(["rows from ingesters' memory", (a.cost.head_rows ?? 0).toLocaleString("en")]);
  }
  for (const part of a.source ? a.source.split(", ") : []) {
    const [name, n] = part.split("=");
    if (name === "rollups") lines.push(["of these, rollups", n]);
  }
  if (a.cost) lines.push(["this page so far", charge(spent)]);
  if (lines.length === 0) return null;
  return h(
    "details",
    { class: "about", open },
    h("summary", {}, "details"),
    h("dl", { class: "pop" }, lines.map(([what, n]) => [h("dt", {}, what), h("dd", {}, n)])),
  );
}

/**
 * notes returns what there is to say above the answer: why it is incomplete and which curves end early, as lacking()
 * returns it, what was left out, warnings.
 */
export function notes(a, left, lacks = null) {
  const out = [];
  if (!a.complete) {
    const ends = lacks ? [`${lacks.late.toLocaleString("en")} of ${count(lacks.all, "curve")} lack their newest values, of up to ${roughly(lacks.ms)}.`] : [];
    const warning = note("warn", "This answer is incomplete", ...ends, ...incomplete(a.why));
    warning.append(
      h(
        "details",
        { class: "why" },
        h("summary", {}, "details for operators"),
        a.why.map((w) => h("p", {}, w)),
      ),
    );
    out.push(warning);
  }
  if (left > 0)
    out.push(
      note(
        "",
        "",
        `Shown are the first 50 devices; ${count(left, "other")} match too. Narrow them, or aggregate them.`,
      ),
    );
  if (a.truncated) out.push(note("", "", "Not all is shown: narrow it by tag or device."));
  for (const n of a.notes.filter((n) => !n.includes("truncated"))) out.push(note("", "", n));
  return out;
}

function note(kind, title, ...texts) {
  return h(
    "div",
    { class: `box-note ${kind}` },
    title ? h("h3", {}, title) : null,
    texts.map((t) => h("p", {}, t)),
  );
}

/** marked returns a query with a mark where a message says that it is wrong; null where the message has no place. */
export function marked(query, message) {
  const at = faultAt(query, message);
  if (!at) return null;
  const { line, from, to } = at;
  const here = to > from ? line.slice(from, to) : "\u2038"; // a caret where something is missing
  return h("pre", { class: "fault" }, line.slice(0, from), h("mark", {}, here), line.slice(to));
}

/** problem returns an error as the service says it, with what can be done about it, and where it is. */
export function problem(p, actions, where_ = null) {
  const where = p.parameter ? ` (${p.parameter})` : "";
  return h(
    "div",
    { class: "box-note bad", role: "alert" },
    h("h3", {}, p.status ? `${p.status} ${p.title}${where}` : p.title),
    h("p", {}, p.message),
    where_,
    actions.length > 0 ? h("div", { class: "foot" }, actions) : null,
  );
}
