// Panels and tables of the operators' rooms, and how their figures are written.

import { h } from "./dom.js";
import { instant } from "./format.js";

/** percent writes a part of one. */
export const percent = (x) => `${Math.round(100 * x)} %`;

/** bar draws a part of one. */
export function bar(x, label) {
  return h("span", { class: "share" }, h("meter", { min: 0, max: 1, value: Math.min(1, x), "aria-label": label }), ` ${percent(x)}`);
}

/** bytes writes a size. */
export function bytes(n) {
  const units = [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "KB"]];
  const [size, unit] = units.find(([s]) => n >= s) ?? [1, "B"];
  return `${Number((n / size).toPrecision(3))} ${unit}`;
}

/** whole writes a whole number with its thousands. */
export const whole = (n) => n.toLocaleString("en");

/** panel returns a panel with a title, a hint and its content: elements, or a text where there are none. */
export function panel(title, hint, content, wide = true) {
  return h("section", { class: wide ? "panel wide" : "panel", "aria-label": title }, h("h3", {}, title, hint ? h("span", { class: "hint" }, hint) : null),
    typeof content === "string" ? h("p", { class: "none" }, content) : content);
}

/**
 * table returns a table that scrolls sideways; columns are names, or [name, class, aria-sort]: the class of numbers is "n". A
 * stacked one shows each row as lines where the page is narrow: one with sentences in it.
 */
export function table(columns, rows, { stacked = false } = {}) {
  const cls = columns.map((c) => (Array.isArray(c) ? c[1] : null));
  const names = columns.map((c) => (Array.isArray(c) ? c[0] : c));
  return h("div", { class: "scroll", tabIndex: 0 }, h("table", { class: stacked ? "data stacked" : "data" },
    h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: cls[i], "aria-sort": Array.isArray(c) ? c[2] : null }, names[i])))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((c, i) => h("td", { class: cls[i], "data-name": stacked ? names[i] : null }, c)))))));
}

/** when writes an instant of an answer. */
export const when = (text) => instant(Math.floor(Date.parse(text) / 1e3) * 1e3, true) + "Z";
