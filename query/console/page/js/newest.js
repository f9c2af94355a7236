// The table of newest values.

import { fill, h, middleCut } from "./dom.js";
import { ago, instant, number } from "./format.js";
import { numeral } from "./series.js";
import { widen } from "./views.js";

/** latestOf returns the rows of the table of newest values of an answer: {device, metric, labels, value, ts}. */
export function latestOf(body) {
  if (body.latest) return body.latest.map((r) => ({ ...r, labels: r.labels ?? {} }));
  const { resultType, result } = body.data;
  if (resultType === "scalar" || resultType === "string") {
    const [t, v] = result;
    return [{ device: "", metric: "", labels: {}, ts: t * 1e3, value: resultType === "scalar" ? numeral(v) : v }];
  }
  return result.map(({ metric: { __name__: metric = "", device = "", ...labels }, value, values }) => {
    const [t, v] = value ?? values[values.length - 1];
    return { device, metric, labels, ts: t * 1e3, value: numeral(v) };
  });
}

const columns = [
  ["Device", (r) => r.device],
  ["Metric", (r) => r.metric],
  ["Value", (r) => r.value, "n"],
  ["Age", (r) => -r.ts, "n"],
  ["Labels", (r) => labelled(r.labels)],
];

function labelled(labels) {
  return Object.entries(labels)
    .map(([l, v]) => `${l}=${v}`)
    .join(" ");
}

/** drawLatest puts the table of newest values into an element. page has sorted {column, down}, column by its title, and sort(table, order) changes it. */
export function drawLatest(element, rows, page) {
  if (rows.length === 0) {
    fill(
      element,
      h(
        "div",
        { class: "panel empty" },
        h("p", {}, "Nothing was reported in this range."),
        h("div", { class: "some" }, widen(page)),
      ),
    );
    return;
  }
  const { sorted } = page;
  const shown = columns
    .map(([title, of, cls]) => ({ title, of, cls }))
    .filter(({ of }) => rows.some((r) => of(r) !== ""));
  const by = columns.find(([title]) => title === sorted.column)[1];
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const compare = (a, b) =>
    typeof by(a) === "string" || typeof by(b) === "string"
      ? order(String(by(a)), String(by(b)))
      : Number(by(a)) - Number(by(b));
  const list = [...rows].sort((a, b) => (sorted.down ? compare(b, a) : compare(a, b)));
  const head = shown.map(({ title, cls }) =>
    h(
      "th",
      {
        class: cls,
        scope: "col",
        "aria-sort": sorted.column === title ? (sorted.down ? "descending" : "ascending") : "none",
      },
      h(
        "button",
        {
          on: {
            click: () => {
              page.sort("sort", { column: title, down: sorted.column === title && !sorted.down });
              drawLatest(element, rows, page);
              element.querySelectorAll("thead button")[shown.findIndex((s) => s.title === title)].focus();
            },
          },
        },
        title + (sorted.column === title ? (sorted.down ? " ↓" : " ↑") : ""),
      ),
    ),
  );
  fill(
    element,
    h(
      "div",
      { class: "panel scroll", tabIndex: 0, "aria-label": "Newest values", role: "region" },
      h(
        "table",
        { class: "data" },
        h("thead", {}, h("tr", {}, head)),
        h(
          "tbody",
          {},
          list.map((r) =>
            h(
              "tr",
              {},
              shown.map(({ title, of, cls }) => {
                switch (title) {
                  case "Device":
                    return h(
                      "td",
                      {},
                      r.device
                        ? h(
                            "button",
                            { class: "link", "aria-label": r.device, title: "Pick this device", on: { click: () => page.device(r.device) } },
                            middleCut(r.device),
                          )
                        : "",
                    );
                  case "Metric":
                    return h(
                      "td",
                      {},
                      r.metric
                        ? h(
                            "button",
                            {
                              class: "link",
                              "aria-label": r.metric,
                              title: "Chart this metric",
                              on: { click: () => page.metric(r.metric, r.device) },
                            },
                            middleCut(r.metric),
                          )
                        : "",
                    );
                  case "Value":
                    return h("td", { class: "n" }, typeof r.value === "string" ? h("span", { class: "folds" }, r.value) : number(r.value));
                  case "Age":
                    return h("td", { class: "n", title: instant(r.ts, page.utc) }, ago(r.ts, page.now));
                }
                return h("td", { class: cls }, of(r));
              }),
            ),
          ),
        ),
      ),
    ),
  );
}
