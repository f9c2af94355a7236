// States of a text over time: a row of coloured stretches, each as long as its text was the newest one.

import { h } from "./dom.js";
import { count, instant, length } from "./format.js";
import { usual } from "./gaps.js";
import { drawLines, tipOf, within } from "./marks.js";
import { palette } from "./palette.js";
import { stateColour, textOn } from "./shades.js";
import { ticksOf } from "./time.js";

const tall = 30;
const axisTall = 18;

/** inset has the pixels beside the states: with them states lie below the curves of small charts. */
export const inset = { left: 46, right: 10 };

/**
 * stretches returns the states of a series as {from, to, value}, readings of the same text that follow each other as
 * one. readings are {ts, value} in order. A state ends two and a half usual intervals behind its last reading, where no
 * other comes before; the last one then ends there, or at `until`.
 */
export function stretches(readings, until) {
  const most = 2.5 * (usual(readings.map((r) => r.ts)) || Infinity);
  const out = [];
  readings.forEach(({ ts, value }, i) => {
    const next = readings[i + 1]?.ts ?? until;
    const to = Math.max(ts, next - ts > most ? ts + most : next);
    const last = out[out.length - 1];
    if (last && last.value === value && last.to >= ts) last.to = to;
    else out.push({ from: ts, to, value });
  });
  return out;
}

/** statesOf returns the texts that stretches have, those that lasted longest first. */
export function statesOf(list) {
  const by = new Map();
  for (const s of list) by.set(s.value, (by.get(s.value) ?? 0) + s.to - s.from);
  return [...by].sort((a, b) => b[1] - a[1]).map(([value, lasted]) => ({ value, lasted }));
}

/** Timeline draws the stretches of one series. range is {from, to}; page is as for charts. */
export class Timeline {
  constructor({ name, list, range, page }) {
    Object.assign(this, { list, range, page, at: -1, states: statesOf(list).map((s) => s.value) });
    this.canvas = h("canvas", {});
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h(
      "div",
      {
        class: "cells timeline",
        role: "application",
        tabIndex: 0,
        "aria-roledescription": "state timeline",
        "aria-label": `${name}: ${count(list.length, "state")}. Arrow keys move along them.`,
        on: {
          pointermove: (e) => this.point(this.under(e), e),
          pointerleave: () => this.point(-1),
          keydown: (e) => this.key(e),
          blur: () => this.point(-1),
        },
      },
      this.canvas,
      this.tip,
    );
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  /** destroy ends it. */
  destroy() {
    this.observer.disconnect();
  }

  x(t) {
    const { from, to } = this.range;
    return inset.left + ((t - from) / (to - from)) * (this.element.clientWidth - inset.left - inset.right);
  }

  // The annotations in the range.
  marks() {
    return within(this.page.annotations?.() ?? [], this.range);
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = (tall + axisTall) * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${tall + axisTall}px`;
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    const { axis, grid } = palette(this.page.mode);
    const [left, right] = [inset.left, width - inset.right];
    c.fillStyle = grid;
    c.fillRect(left, tall - 1, right - left, 1); // where no state is known
    this.list.forEach((s, i) => {
      const x = Math.max(left, this.x(s.from));
      const w = Math.max(1, Math.min(right, this.x(s.to)) - x);
      const colour = stateColour(this.page.mode, this.states, s.value);
      c.fillStyle = colour;
      c.fillRect(x, 0, w, tall);
      if (c.measureText(s.value).width < w - 8) {
        c.fillStyle = textOn(colour);
        c.fillText(s.value, x + 4, tall / 2);
      }
      if (i === this.at) {
        c.strokeStyle = axis;
        c.lineWidth = 2;
        c.strokeRect(x + 1, 1, w - 2, tall - 2);
      }
    });
    const frame = { ctx: c, left, top: 0, width: right - left, height: tall, ratio: 1, x: (t) => this.x(t) };
    drawLines(frame, this.marks(), this.page.mode, { onCells: true });
    c.fillStyle = axis;
    c.textAlign = "center";
    for (const { t, text } of ticksOf(this.range, (right - left) / 80, this.page.utc)) {
      const half = c.measureText(text).width / 2;
      c.fillText(text, Math.min(Math.max(this.x(t), half), width - half), tall + 10);
    }
  }

  under(e) {
    const x = e.clientX - this.canvas.getBoundingClientRect().left;
    return this.list.findIndex((s) => x >= this.x(s.from) && x < Math.max(this.x(s.to), this.x(s.from) + 1));
  }

  point(i) {
    if (i === this.at) return;
    this.at = i;
    this.draw();
    this.tip.hidden = i < 0;
    if (i < 0) return;
    const s = this.list[i];
    this.tip.replaceChildren(h("b", {}, s.value), h("div", { class: "hint" }, this.said(s)), ...tipOf(within(this.marks(), s)));
    const x = Math.max(0, Math.min(this.x(s.from), this.element.clientWidth - this.tip.offsetWidth));
    this.tip.style.transform = `translate(${x}px, ${tall + 4}px)`;
    this.tip.style.left = this.tip.style.top = "0";
  }

  said({ from, to }) {
    return `${instant(from, this.page.utc)}, for ${length(to - from)}`;
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.list.length === 0) return;
    const last = this.list.length - 1;
    const to = { ArrowRight: Math.min(last, this.at + 1), ArrowLeft: this.at < 0 ? last : Math.max(0, this.at - 1), Home: 0,
      End: last }[e.key];
    if (to === undefined) return;
    this.point(to);
    this.page.say(`${this.list[to].value}, ${this.said(this.list[to])}`);
    e.preventDefault();
    e.stopPropagation();
  }
}
