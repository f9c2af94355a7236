// Answers as they came, and what a query does: which keys it reads, and for how much.

import { fill, h } from "./dom.js";
import { charge, count } from "./format.js";

const mostText = 200_000; // characters

/** drawJSON shows the answers of requests as they came. */
export function drawJSON(element, requests, answers) {
  const plain = (_, v) => (typeof v === "bigint" ? String(v) : v);
  fill(element, requests.map((r, i) => {
    const text = JSON.stringify(answers[i].body, plain, 1);
    return h("section", { class: "panel", "aria-label": "Answer" }, h("h3", {}, h("code", {}, r.path)),
      h("pre", { class: "payload answer-text", tabIndex: 0 }, text.slice(0, mostText)),
      text.length > mostText ? h("p", { class: "none" }, `${(text.length - mostText).toLocaleString("en")} more characters: Share and export has the command that gets them all.`) : null);
  }));
}

/** planned returns a request for what another one would cost; told with true it is run, and what it did is said. */
export function planned(request, told = false) {
  return { ...request, explain: told ? "true" : "plan" };
}

/** priceOf returns what reports of plans expect to pay together: {rus, guessed}. */
export function priceOf(reports) {
  const reads = reports.flatMap((r) => r.reads);
  return { rus: reads.reduce((n, r) => n + r.estimated.request_units, 0), guessed: reads.some((r) => r.estimated.guessed) };
}

/** priced says a price: "about 12.4 RU". */
export function priced({ rus, guessed }) {
  return `${guessed ? "at least" : "about"} ${charge(rus)}`;
}

/** drawReports shows reports, one of each panel: {title, report}; run is a button, or null where they are of what has run. */
export function drawReports(element, reports, run) {
  const price = priceOf(reports.map((r) => r.report));
  const head = run
    ? h("div", { class: "box-note" }, h("h3", {}, `It would cost ${priced(price)}`),
      h("p", {}, price.guessed ? "The keys were not read before: counted is what asking for them costs." : "By what earlier reads of these keys have found."), h("div", { class: "foot" }, run))
    : null;
  fill(element, head, reports.map(({ title, report }) => [
    report.reads.length === 0 ? h("p", { class: "none" }, `${title}: no chunks and no rollups are read.`) : null,
    report.reads.map((r) => h("section", { class: "panel", "aria-label": "Read" },
      h("h3", {}, title, h("span", { class: "hint" }, `${(r.metrics ?? ["all metrics"]).join(", ")} of ${r.devices ? count(r.devices.length, "device") : "all devices"}`)),
      h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: "data" }, h("tbody", {}, [
        ["range", `${r.from} to ${r.to}`], ["how", r.how],
        ["expected", `${r.estimated.guessed ? "at least " : ""}${charge(r.estimated.request_units)}, ${count(Math.round(r.estimated.documents), "document")}, ${count(r.estimated.scans, "query", "queries")}`],
        ...(run ? [] : [["charged", `${charge(r.charged.request_units)}, ${count(r.charged.documents, "document")}, ${count(r.charged.head_rows, "row")} of heads`]]),
      ].map(([k, v]) => h("tr", {}, h("td", {}, k), h("td", {}, h("span", { class: "wrap" }, v))))))),
      r.scans.length === 0 ? null : h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, ["Container", "Key", "Documents", "RU"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, r.scans.map((s) => h("tr", {}, [s.container, s.device ? `${s.tenant_shard} ${s.device}` : s.tenant_shard, s.documents, s.request_units].map((v) => h("td", {}, String(v)))))))))),
  ]));
}
