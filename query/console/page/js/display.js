// How charts show their curves: lines, a stack or a heat map, the axis, the top ones of many, an earlier time.

import { fill, h } from "./dom.js";
import { draws, shifts, tops } from "./state.js";

const called = { lines: "lines", stack: "stacked", heat: "heat map" };

/** Display shows the choices, and calls `change` with what of the state becomes different. */
export class Display {
  constructor(element, { change }) {
    const pick = (label, values, name, text, read = String) =>
      h("label", {}, label, h("select", { "data-name": name, on: { change: (e) => change({ [name]: read(e.target.value) }) } },
        values.map((v) => h("option", { value: v }, text(v)))));
    const end = (label, name) =>
      h("label", {}, label, h("input", { class: "field", "data-name": name, inputMode: "decimal", placeholder: "auto", autocomplete: "off",
        on: { change: (e) => change({ [name]: limit(e.target.value) }) } }));
    this.log = h("input", { type: "checkbox", on: { change: (e) => change({ log: e.target.checked }) } });
    this.summary = h("span", { class: "hint" });
    this.details = h("details", { class: "display" }, h("summary", {}, "Display", " ", this.summary),
      h("div", { class: "choices" }, pick("Draw", draws, "draw", (v) => called[v]), h("label", {}, this.log, "logarithmic"),
        end("from", "low"), end("to", "high"),
        pick("Curves", tops, "top", (n) => (n === 0 ? "all" : `top ${n}`), Number),
        pick("Compare", shifts, "versus", (s) => (s === "" ? "with nothing" : `${s} before`))));
    fill(element, this.details);
  }

  /** show shows the choices of a state. */
  show(state) {
    for (const e of this.details.querySelectorAll("[data-name]")) {
      if (document.activeElement !== e || e.tagName === "SELECT") e.value = String(state[e.dataset.name] ?? "");
    }
    this.log.checked = state.log;
    this.summary.textContent = [
      state.draw === "lines" ? "" : called[state.draw],
      state.log ? "logarithmic" : "",
      state.low !== null || state.high !== null ? `${state.low ?? "auto"} to ${state.high ?? "auto"}` : "",
      state.top > 0 ? `top ${state.top}` : "",
      state.versus ? `with ${state.versus} before` : "",
    ].filter(Boolean).join(", ");
  }
}

// The end of an axis that was typed; null lets the chart find it.
function limit(text) {
  const n = Number(text.trim().replace(",", "."));
  return text.trim() === "" || !Number.isFinite(n) ? null : n;
}
