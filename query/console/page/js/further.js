// Queries beside the first: B, C and on, which may name those before them, as A / B does.

import { fill, h, icon } from "./dom.js";
import { letterOf } from "./promql.js";
import { mostAlso } from "./state.js";

/** Further shows the queries behind the first, and calls `change` with all of them. */
export class Further {
  constructor(element, { change }) {
    Object.assign(this, { element, change, state: null, open: false });
  }

  /** show shows those of a state; picked is the query of what is picked, which A is until something is typed. */
  show(state, picked) {
    const had = this.state;
    this.state = state;
    this.picked = picked;
    if (had && had.also.join("\n") === state.also.join("\n") && had.q === state.q && !this.stale) return;
    this.draw();
  }

  draw(focus = -1) {
    const { also, q } = this.state;
    const rows = [...also, ...(this.open ? [""] : [])].slice(0, mostAlso);
    const fields = rows.map((text, i) =>
      h("input", { class: "field mono", value: text, placeholder: i === 0 ? "a query, or A * 2" : "a query, or A / B", "aria-label": `Query ${letterOf(i + 1)}`,
        spellcheck: false, autocapitalize: "off", autocomplete: "off",
        on: { keydown: (e) => e.key === "Enter" && this.run(fields), change: () => (this.stale = true) } }));
    const add = h("button", { class: "link", on: { click: () => {
      this.open = true;
      this.draw(also.length);
    } } }, `Add query ${letterOf(rows.length + 1)}`);
    const none = !q && !this.picked;
    fill(this.element,
      rows.map((_, i) => h("div", { class: "further-row" }, h("b", {}, letterOf(i + 1)), fields[i],
        h("button", { class: "square plain", "aria-label": `Drop query ${letterOf(i + 1)}`, on: { click: () => this.drop(i) } }, icon("close")))),
      none || rows.length === mostAlso || this.open ? null : add);
    if (focus >= 0) fields[focus]?.focus();
  }

  run(fields) {
    const also = fields.map((f) => f.value.trim()).filter(Boolean);
    this.open = false;
    this.stale = true;
    this.change({ q: this.state.q || this.picked, also });
    this.stale = false;
  }

  drop(i) {
    if (i >= this.state.also.length) {
      this.open = false;
      this.draw();
    } else this.change({ also: this.state.also.filter((_, n) => n !== i) });
  }
}
