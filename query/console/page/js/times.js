// The controls of time: ranges, back, refresh, and its interval.

import { fill, h, icon } from "./dom.js";
import { instant, length } from "./format.js";
import { duration, fieldOf, named, presets, rangeOf, refreshes, spoken, typed } from "./time.js";

/** Times calls `change` with what of the state becomes different, `back` and `again`. */
export class Times {
  constructor(element, { change, back, again, now }) {
    Object.assign(this, { change, now });
    this.label = h("span", {});
    this.button = h(
      "button",
      {
        class: "range",
        id: "range",
        "aria-haspopup": "dialog",
        "aria-expanded": "false",
        title: "Range of time (t)",
        on: { click: () => this.toggle() },
      },
      icon("clock"),
      this.label,
    );
    this.back = h(
      "button",
      {
        class: "square",
        id: "back",
        title: "Back (b)",
        "aria-label": "Back to the previous range",
        on: {
          click: back,
        },
      },
      icon("back"),
    );
    this.again = h(
      "button",
      { class: "square", id: "again", title: "Refresh (r)", "aria-label": "Refresh", on: { click: again } },
      icon("refresh"),
    );
    this.every = h(
      "select",
      {
        id: "every",
        "aria-label": "Refresh interval",
        title: "Refresh interval",
        on: {
          change: (e) => this.change({ refresh: Number(e.target.value) }),
        },
      },
      refreshes.map((s) => h("option", { value: s }, s === 0 ? "off" : length(s * 1e3))),
    );
    this.pop = h("div", {
      class: "pop",
      role: "dialog",
      "aria-label": "Range of time",
      hidden: true,
      on: {
        keydown: (e) => e.key === "Escape" && this.toggle(false),
      },
    });
    fill(
      element,
      h("div", { class: "joined" }, this.back, this.button),
      h("div", { class: "joined" }, this.again, this.every),
      this.pop,
    );
    document.addEventListener("pointerdown", (e) => {
      if (!this.pop.hidden && !this.pop.contains(e.target) && !this.button.contains(e.target)) this.toggle(false);
    });
  }

  /** show shows the range of a state. */
  show(state, canGoBack) {
    this.state = state;
    this.label.textContent = named(state, (ms) => instant(ms, state.utc));
    this.back.disabled = !canGoBack;
    this.every.value = String(state.refresh);
    this.every.disabled = state.from !== null;
  }

  toggle(open = this.pop.hidden) {
    if (open === !this.pop.hidden) return;
    this.pop.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (!open) {
      this.button.focus();
      return;
    }
    this.draw();
    (this.pop.querySelector("[aria-pressed=true]") ?? this.pop.querySelector("button")).focus();
  }

  draw() {
    const { state } = this;
    const { from, to } = rangeOf(state, this.now());
    const field = (label, ms) => {
      const input = h("input", { class: "field", type: "datetime-local", step: "1", value: fieldOf(ms, state.utc) });
      return [h("label", { class: "above" }, label, input), input];
    };
    const [fromLabel, fromField] = field("From", from);
    const [toLabel, toField] = field("To", to);
    const fault = h("p", { class: "hint", role: "alert" });
    const step = h(
      "select",
      {},
      [0, 1e3, 5e3, 10e3, 30e3, 60e3, 300e3, 600e3, 1800e3, 3600e3, 86400e3].map((s) =>
        h(
          "option",
          {
            value: s,
            selected: s === state.step,
          },
          s === 0 ? "automatic" : length(s),
        ),
      ),
    );
    step.addEventListener("change", () => this.change({ step: Number(step.value) }));
    const utc = h("input", {
      type: "checkbox",
      checked: state.utc,
      on: {
        change: (e) => {
          this.change({ utc: e.target.checked });
          this.draw();
          this.pop.querySelector("input[type=checkbox]").focus();
        },
      },
    });
    const apply = () => {
      const range = { from: typed(fromField.value, state.utc), to: typed(toField.value, state.utc) };
      if (Number.isNaN(range.from) || Number.isNaN(range.to)) fault.textContent = "Both a date and a time are needed.";
      else if (range.from >= range.to) fault.textContent = "The end is before the start.";
      else {
        this.toggle(false);
        this.change(range);
      }
    };
    fill(
      this.pop,
      h(
        "div",
        { class: "presets", role: "group", "aria-label": "Until now" },
        presets.map((p) =>
          h(
            "button",
            {
              "aria-pressed": String(state.from === null && state.range === p),
              "aria-label": `Last ${spoken(p)}`,
              on: {
                click: () => {
                  this.toggle(false);
                  this.change({ range: p, from: null, to: null });
                },
              },
            },
            p,
          ),
        ),
      ),
      h("div", { class: "between" }, fromLabel, toLabel),
      fault,
      h(
        "div",
        { class: "foot" },
        h("label", { class: "choice" }, utc, "UTC"),
        h("label", { class: "choice" }, "Step", step),
        h("button", { class: "primary end", on: { click: apply } }, "Apply"),
      ),
    );
  }
}

/** live reports whether a state asks again by itself. */
export function live(state) {
  return state.refresh > 0 && state.from === null && duration(state.range) > 0;
}
