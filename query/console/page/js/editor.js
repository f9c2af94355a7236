// The PromQL box: what is picked as PromQL, until someone types; completion below the caret.

import { complete } from "./complete.js";
import { fill, h, icon } from "./dom.js";

/** Editor calls `run` with a query that was typed, "" for what is picked; `known` is what complete() needs. */
export class Editor {
  constructor(element, { run, known, typed }) {
    Object.assign(this, { run, known, changed: typed, found: null, chosen: -1, follows: "" });
    this.text = h("textarea", {
      id: "query",
      rows: 1,
      spellcheck: false,
      autocomplete: "off",
      autocapitalize: "off",
      placeholder: "PromQL, or pick a metric",
      role: "combobox",
      "aria-label": "PromQL",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": "options",
      "aria-haspopup": "listbox",
      on: {
        input: () => this.typed(),
        keydown: (e) => this.key(e),
        blur: () => this.close(),
        click: () => this.close(),
        scroll: () => this.close(),
      },
    });
    this.text.setAttribute("autocorrect", "off");
    this.list = h("ul", {
      id: "options",
      class: "options",
      role: "listbox",
      "aria-label": "Completions",
      hidden: true,
    });
    this.back = h(
      "button",
      {
        class: "plain",
        hidden: true,
        title: "Use the selection on the left again",
        on: {
          click: () => this.run(""),
        },
      },
      icon("close"),
      h("span", { class: "optional" }, "Typed"),
    );
    this.back.setAttribute("aria-label", "Drop the typed query, use the selection");
    this.cost = h("span", { class: "hint price", role: "status", title: "What this query is expected to cost" });
    this.go = h("button", { class: "primary", on: { click: () => this.submit() } }, "Run");
    fill(element, h("div", { class: "box" }, this.text, h("div", { class: "buttons" }, this.cost, this.back, this.go)), this.list);
  }

  /** show shows the query of a state: what was typed, or what is picked. */
  show(typed, picked) {
    this.follows = picked;
    this.back.hidden = typed === "";
    const value = typed || picked;
    if (this.text.value !== value && (document.activeElement !== this.text || !this.dirty)) this.text.value = value;
    this.grow();
  }

  /** price shows what the query in the box is expected to cost. */
  price(text) {
    this.cost.textContent = text;
  }

  submit() {
    this.price("");
    this.close();
    this.dirty = false;
    const value = this.text.value.trim();
    this.run(value === this.follows.trim() ? "" : value);
  }

  grow() {
    const lines = Math.min(8, this.text.value.split("\n").length);
    this.text.rows = lines;
  }

  typed() {
    this.dirty = true;
    this.changed(this.text.value);
    this.grow();
    this.offer(false);
  }

  // Opens the list for what stands at the caret: by itself only once something is typed of it.
  offer(asked) {
    const { text } = this;
    const found = complete(text.value, text.selectionStart, this.known);
    const typing = text.selectionStart > found.from;
    const whole =
      found.items.length === 1 && found.items[0].insert === text.value.slice(found.from, text.selectionStart);
    if (found.items.length === 0 || whole || (!typing && !asked)) {
      this.close();
      return;
    }
    this.found = found;
    this.choose(asked ? 0 : -1, found);
    this.place(found.from);
  }

  choose(n, found = this.found) {
    this.chosen = n;
    fill(
      this.list,
      found.items.map((item, i) =>
        h(
          "li",
          {
            id: `option-${i}`,
            role: "option",
            "aria-selected": String(i === n),
            on: {
              mousedown: (e) => {
                e.preventDefault(); // the box keeps the focus
                this.accept(i);
              },
            },
          },
          h("span", { class: "text" }, item.text),
          item.detail ? h("span", { class: "hint detail" }, item.detail) : null,
          h("span", { class: "hint kind" }, item.kind),
        ),
      ),
    );
    this.list.hidden = false;
    this.text.setAttribute("aria-expanded", "true");
    if (n >= 0) {
      this.text.setAttribute("aria-activedescendant", `option-${n}`);
      this.list.children[n].scrollIntoView({ block: "nearest" });
    } else this.text.removeAttribute("aria-activedescendant");
  }

  // Below the line, at the column where the word begins.
  place(from) {
    const before = this.text.value.slice(0, from).split("\n");
    const style = getComputedStyle(this.text);
    const pen = (this.canvas ??= document.createElement("canvas")).getContext("2d");
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const width =
      pen.measureText(before[before.length - 1]).width + parseFloat(style.paddingLeft) - this.text.scrollLeft;
    const room = this.text.clientWidth - Math.min(260, this.list.offsetWidth);
    this.list.style.left = `${Math.max(0, Math.min(width, room))}px`;
    this.list.style.top = `${before.length * parseFloat(style.lineHeight) + 16}px`;
  }

  close() {
    this.found = null;
    this.list.hidden = true;
    this.text.setAttribute("aria-expanded", "false");
    this.text.removeAttribute("aria-activedescendant");
  }

  accept(n) {
    const { from, to, items } = this.found;
    const { insert, back } = items[n];
    this.text.setRangeText(insert, from, to, "end");
    const caret = from + insert.length - back;
    this.text.setSelectionRange(caret, caret);
    this.dirty = true;
    this.close();
    this.grow();
    if (back > 0) this.offer(true);
  }

  key(e) {
    const open = this.found !== null;
    const n = open ? this.found.items.length : 0;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      if (open && this.chosen >= 0) this.accept(this.chosen);
      else this.submit();
    } else if (open && e.key === "ArrowDown") {
      e.preventDefault();
      this.choose((this.chosen + 1) % n);
    } else if (open && e.key === "ArrowUp") {
      e.preventDefault();
      this.choose(this.chosen < 0 ? n - 1 : this.chosen - 1);
    } else if (open && e.key === "Tab" && !e.shiftKey) {
      e.preventDefault();
      this.accept(Math.max(0, this.chosen));
    } else if (open && e.key === "Escape") {
      e.preventDefault();
      e.stopPropagation();
      this.close();
    } else if (e.key === " " && e.ctrlKey) {
      e.preventDefault();
      this.offer(true);
    } else if (e.key === "Escape") this.text.blur();
  }
}
