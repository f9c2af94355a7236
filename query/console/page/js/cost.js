// What a month costs a tenant: the answer of /api/v1/cost as a panel.

import { h } from "./dom.js";
import { count } from "./format.js";

const kinds = {
  chunks: "chunks written", backfill: "late chunks written", lookups: "look-ups of ingesters", rollups: "rollups",
  catalog: "names of devices and metrics", queries: "queries", erase: "erasures", reads: "other reads", control: "settings",
};

const parts = [
  ["usage", "throughput that was used"], ["idle", "share of throughput that nobody used"],
  ["floors", "share of what serves all tenants"], ["storage", "data and index"],
];

/** money says dollars, below one to a hundredth of a cent. */
export function money(dollars) {
  const digits = dollars !== 0 && Math.abs(dollars) < 1 ? 4 : 2;
  return "$" + dollars.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const mostListed = 5; // of each kind

/**
 * costPanel returns the panel of a bill; one with devices, metrics and queries says which of them took most. share is the
 * bill's part of what all tenants cost together, more an element that stands below.
 */
export function costPanel(bill, { wide = false, share = null, more = null } = {}) {
  const units = (rus) => Math.round(rus).toLocaleString("en");
  const spent = Object.entries(bill.rusByKind).filter(([, rus]) => rus > 0).sort((a, b) => b[1] - a[1]);
  const dearest = (list, name) => (list ?? []).filter((x) => x.rus > 0).slice(0, mostListed).map((x) => [name(x), units(x.rus)]);
  const gb = (n) => n.toLocaleString("en", { maximumSignificantDigits: 3 });
  const folds = (x) => h("span", { class: "wrap" }, x.name);
  return h("section", { class: wide ? "panel wide" : "panel", "aria-label": "Cost" },
    h("h3", {}, `Cost of ${bill.month}: ${money(bill.dollars.total)}`, h("span", { class: "hint" },
      `${count(Math.round(bill.hours), "hour")} so far, at list prices; ${units(bill.rus)} request units${share === null ? "" : `; ${Math.round(100 * share)} % of the account`}`)),
    part(["Part", "Dollars"], bill.dollars.total > 0 ? parts.filter(([name]) => bill.dollars[name] > 0).map(([name, text]) => [text, money(bill.dollars[name])]) : []),
    part(["Stored in", "GB-months of data", "of index", "Dollars", "RU/s forced"], (bill.stored ?? []).slice(0, mostListed).map((x) => [x.container, gb(x.dataGBMonths), gb(x.indexGBMonths), money(x.dollars), units(x.leastRUsOfContainer)])),
    part(["Kept for", "GB-months", "Half would save"], (bill.retention ?? []).filter((x) => x.days > 0).map((x) => [count(x.days, "day"), gb(x.gbMonths), money(x.halfSavesDollars ?? 0)])),
    part(["Work", "RU"], spent.map(([kind, rus]) => [kinds[kind] ?? kind, units(rus)])),
    part(["Devices", "RU"], dearest(bill.devices, folds)),
    part(["Metrics", "RU", "GB-months"], (bill.metrics ?? []).filter((x) => x.rus > 0).slice(0, mostListed).map((x) => [folds(x), units(x.rus), gb(x.gbMonths ?? 0)])),
    part(["Who asked", "RU"], dearest(bill.queries?.callers, folds)),
    part(["Dearest queries", "RU"], dearest(bill.queries?.queries, (x) => h("code", { class: "wrap" }, x.name))),
    more);
}

function part(names, rows) {
  return rows.length === 0 ? null : h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: "data costs" },
    h("thead", {}, h("tr", {}, names.map((n, i) => h("th", { scope: "col", class: i > 0 ? "n" : null }, n)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((c, i) => h("td", { class: i > 0 ? "n" : null }, c)))))));
}
