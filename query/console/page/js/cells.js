// Many things on one canvas, thousands of them: which is under the mouse or the keyboard's cursor, and what it is.

import { h } from "./dom.js";

/**
 * Cells draws items, each with a name, and lets one be pointed at and opened. layout(width, items) returns {height,
 * columns, at}: at(i) is the box {x, y, w, h} of an item, columns how many items the arrow keys go up and down by.
 * paint(context, box, item, mode) draws one, ground(context, size, mode), if given, what lies below.
 * tip(item) returns what is said of one, open(item) is called when one is chosen.
 */
export class Cells {
  constructor({ label, layout, paint, ground, tip, open, page }) {
    Object.assign(this, { layout, paint, ground, tipOf: tip, open, page, items: [], cursor: -1 });
    this.canvas = h("canvas", {});
    this.mark = h("div", { class: "cell-mark", hidden: true }); // so that pointing draws no canvas anew
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h(
      "div",
      {
        class: "cells",
        role: "application",
        tabIndex: 0,
        "aria-roledescription": "map of devices",
        "aria-label": `${label}. Arrow keys move from device to device, Enter opens one.`,
        on: {
          pointermove: (e) => this.point(this.under(e)),
          pointerleave: () => this.point(-1),
          click: (e) => this.choose(this.under(e)),
          keydown: (e) => this.key(e),
          blur: () => this.point(-1),
        },
      },
      this.canvas,
      this.mark,
      this.tip,
    );
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  /** show draws items in the place of those before. */
  show(items) {
    this.items = items;
    if (this.cursor >= items.length) this.cursor = -1;
    this.draw();
  }

  /** destroy ends it. */
  destroy() {
    this.observer.disconnect();
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const ratio = devicePixelRatio;
    this.laid = this.layout(width, this.items);
    const { height, at } = this.laid;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    this.ground?.(c, { width, height }, this.page.mode);
    this.items.forEach((item, i) => this.paint(c, at(i), item, this.page.mode));
    this.marked();
  }

  // The frame around the item under the cursor.
  marked() {
    this.mark.hidden = this.cursor < 0;
    if (this.cursor < 0) return;
    const b = this.laid.at(this.cursor);
    const { style } = this.mark;
    style.transform = `translate(${b.x - 2}px, ${b.y - 2}px)`;
    style.width = `${b.w + 4}px`;
    style.height = `${b.h + 4}px`;
  }

  // The item below the mouse: the nearest one of those whose box, a little larger, has it.
  under(e) {
    if (!this.laid) return -1;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < this.items.length; i++) {
      const b = this.laid.at(i);
      if (x < b.x - 2 || x > b.x + b.w + 2 || y < b.y - 2 || y > b.y + b.h + 2) continue;
      const far = Math.hypot(x - b.x - b.w / 2, y - b.y - b.h / 2);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  point(i) {
    if (i === this.cursor) return;
    this.cursor = i;
    this.canvas.style.cursor = i < 0 ? "" : "pointer";
    this.marked();
    this.tip.hidden = i < 0;
    if (i < 0) return;
    const b = this.laid.at(i);
    this.tip.replaceChildren(...this.tipOf(this.items[i]));
    const x = Math.min(Math.max(0, b.x + b.w + 10), this.element.clientWidth - this.tip.offsetWidth);
    this.tip.style.transform = `translate(${Math.max(0, x)}px, ${b.y + b.h + 8}px)`;
    this.tip.style.left = this.tip.style.top = "0";
  }

  choose(i) {
    if (i >= 0) this.open(this.items[i]);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.items.length === 0) return;
    const last = this.items.length - 1;
    const { columns } = this.laid;
    const to = {
      ArrowRight: this.cursor + 1,
      ArrowLeft: this.cursor < 0 ? last : this.cursor - 1,
      ArrowDown: this.cursor < 0 ? 0 : this.cursor + columns,
      ArrowUp: this.cursor < 0 ? last : this.cursor - columns,
      Home: 0,
      End: last,
    }[e.key];
    if (to !== undefined) {
      this.point(Math.min(last, Math.max(0, to)));
      this.page.say([...this.tip.children].map((c) => c.textContent).join(", "));
    } else if (e.key === "Enter") this.choose(this.cursor);
    else if (e.key === "Escape") this.point(-1);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}

/** squares lays items out as a grid of the largest squares that are not taller together than so many pixels. */
export function squares(most, least = 4, largest = 26) {
  return (width, items) => {
    let side = largest;
    const columnsOf = (s) => Math.max(1, Math.floor(width / s));
    while (side > least && Math.ceil(items.length / columnsOf(side)) * side > most) side--;
    const columns = columnsOf(side);
    const gap = side > 6 ? 1 : 0;
    return {
      columns,
      height: Math.max(side, Math.ceil(items.length / columns) * side),
      at: (i) => ({ x: (i % columns) * side, y: Math.floor(i / columns) * side, w: side - gap, h: side - gap }),
    };
  };
}
