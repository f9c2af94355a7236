// What is below the query: charts with their legends, what an answer says of itself, errors.

import { Chart, swatch } from "./chart.js";
import { fill, h } from "./dom.js";
import { charge, count, incomplete, instant, length, number, parts } from "./format.js";
import { faultAt } from "./promql.js";
import { fromAggregates, fromMatrix, summary } from "./series.js";

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
  const drawn = panels.map((panel) => drawPanel(panel, { ...page, panels: panels.length }));
  fill(
    element,
    drawn.map((d) => d.element),
  );
  const charts = drawn.map((d) => d.chart).filter(Boolean);
  for (const c of charts) c.mount();
  return charts;
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
  const chart = new Chart(panel, page, hiddenIn(panel, page.hiddenOf(panel)));
  const legend = new Legend(panel, chart, page);
  const holes = chart.gaps.reduce((n, g) => n + g.length, 0);
  const band = curves.some((c) => c.min.some((v) => v !== null)) && chart.bands();
  const head = h(
    "h3",
    {},
    name,
    h(
      "span",
      { class: "hint" },
      `${count(curves.length, "curve")} · step ${length(panel.step)}${band ? " · band: least to greatest" : ""}`,
    ),
    holes > 0 ? h("span", { class: "hint" }, h("span", { class: "hatch" }), ` ${count(holes, "gap")}`) : null,
  );
  return {
    chart,
    element: h(
      "section",
      { class: "panel", "aria-label": name },
      head,
      chart.element,
      legend.element,
      data(panel, chart, page),
    ),
  };
}

/** middleCut returns a name that is cut in its middle where there is no room, so that names that differ at the end differ. */
export function middleCut(name) {
  const [head, tail] = parts(name);
  return h("span", { class: "name-cut" }, h("span", {}, head), h("span", {}, tail));
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

// The curves of a panel with figures. A click hides or shows one; with shift, all others.
class Legend {
  constructor(panel, chart, page) {
    Object.assign(this, { panel, chart, page, names: page.hiddenOf(panel) });
    this.body = h("tbody", {});
    this.element = h(
      "div",
      { class: "scroll legend", tabIndex: -1 },
      h(
        "table",
        { class: "data" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Curve"),
            ["last", "min", "avg", "max"].map((t) =>
              h(
                "th",
                {
                  class: t === "last" ? "n" : "n optional",
                  scope: "col",
                },
                t,
              ),
            ),
          ),
        ),
        this.body,
      ),
    );
    this.draw();
  }

  draw() {
    const { curves } = this.panel;
    fill(
      this.body,
      curves.map((c, n) => {
        const s = summary(c);
        const off = this.names.has(c.name);
        const mark = swatch(this.page.mode, n);
        mark.classList.toggle("off", off);
        const labels = Object.entries(c.labels)
          .map(([l, v]) => `${l}=${v}`)
          .join(", ");
        return h(
          "tr",
          {
            class: off ? "off" : null,
            on: { mouseenter: () => this.chart.light(n), mouseleave: () => this.chart.light(-1) },
          },
          h(
            "td",
            { class: "wide" },
            h(
              "button",
              {
                class: "series",
                "aria-label": c.name,
                "aria-pressed": String(!off),
                title: labels || c.name,
                on: {
                  click: (e) => this.toggle(n, e.shiftKey),
                },
              },
              mark,
              middleCut(c.name),
            ),
          ),
          ["last", "min", "avg", "max"].map((k) => h("td", { class: k === "last" ? "n" : "n optional" }, number(s[k]))),
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
    this.body.querySelectorAll("button")[n].focus();
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

/** notes returns what there is to say above the answer: why it is incomplete, what was left out, warnings. */
export function notes(a, left) {
  const out = [];
  if (!a.complete) {
    const warning = note("warn", "This answer is incomplete", ...incomplete(a.why));
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
