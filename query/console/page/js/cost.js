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

/** costPanel returns the panel of a bill. */
export function costPanel(bill) {
  const row = (name, value) => h("tr", {}, h("td", {}, name), h("td", { class: "n" }, value));
  const units = (rus) => Math.round(rus).toLocaleString("en");
  const spent = Object.entries(bill.rusByKind).filter(([, rus]) => rus > 0).sort((a, b) => b[1] - a[1]);
  return h("section", { class: "panel", "aria-label": "Cost" },
    h("h3", {}, `Cost of ${bill.month}: ${money(bill.dollars.total)}`, h("span", { class: "hint" },
      `list prices of ${count(Math.round(bill.hours), "hour")}; ${units(bill.rus)} request units`)),
    !(bill.dollars.total > 0) ? null : h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Part"), h("th", { scope: "col", class: "n" }, "Dollars"))),
      h("tbody", {}, parts.filter(([name]) => bill.dollars[name] > 0).map(([name, text]) => row(text, money(bill.dollars[name]))))),
    spent.length === 0 ? null : h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Work"), h("th", { scope: "col", class: "n" }, "RU"))),
      h("tbody", {}, spent.map(([kind, rus]) => row(kinds[kind] ?? kind, units(rus))))));
}
