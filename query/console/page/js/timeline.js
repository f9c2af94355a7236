// States of a text over time: a row of coloured stretches, each as long as its text was the newest one.

import { h } from "./dom.js";
import { instant, length } from "./format.js";
import { usual } from "./gaps.js";
import { palette } from "./palette.js";
import { stateColour, textOn } from "./shades.js";

const tall = 30;

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

/** Timeline draws the stretches of one series. range is {from, to}; page says the mode, the time zone and speaks. */
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
        "aria-label": `${name}: ${list.length} states. Arrow keys move along them.`,
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
    return ((t - from) / (to - from)) * this.element.clientWidth;
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = tall * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${tall}px`;
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    const { axis } = palette(this.page.mode);
    this.list.forEach((s, i) => {
      const x = Math.max(0, this.x(s.from));
      const w = Math.max(1, Math.min(width, this.x(s.to)) - x);
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
    this.tip.replaceChildren(h("b", {}, s.value), h("div", { class: "hint" }, this.said(s)));
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
