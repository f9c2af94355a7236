// Many curves as a heat map: a row for each, a column for each step, its colour the value.

import { h } from "./dom.js";
import { count, instant, number, parts } from "./format.js";
import { atCursor, besides, drawLines, neighbour, spoken, tipOf, within } from "./marks.js";
import { palette } from "./palette.js";
import { ramp, shading } from "./shades.js";
import { ticksOf } from "./time.js";

// Rows of so many pixels have their names beside them, where the map is wide enough.
const namedRow = 11;
const namedWidth = 560;
const nameWidth = 150;

/** SeriesMap draws curves into an element of its own, as Chart does, whose methods it has. */
export class SeriesMap {
  constructor(panel, page) {
    Object.assign(this, { page, cursor: null });
    this.row = Math.max(3, Math.min(22, Math.floor((panel.height ?? 300) / Math.max(1, panel.curves.length))));
    this.take(panel);
    this.canvas = h("canvas", {});
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", {
      class: "plot cells", role: "application", tabIndex: 0, "aria-roledescription": "heat map",
      "aria-label": this.described(),
      on: { pointermove: (e) => this.under(e), pointerleave: () => this.point(null), keydown: (e) => this.key(e), blur: () => this.point(null) },
    }, this.canvas, this.tip);
    this.observer = new ResizeObserver(() => this.draw());
  }

  /** described returns in words what the map shows. */
  described() {
    const { title, curves } = this.panel;
    const marks = this.marks().length;
    const walk = marks > 0 ? ` ${count(marks, "annotation")}: n and p go to the next and the previous one.` : "";
    return `${title || "Result"}: ${count(curves.length, "row")}. Arrow keys move, Escape leaves.${walk}`;
  }

  // The annotations in the range.
  marks() {
    return within(this.page.annotations?.() ?? [], this.panel.range);
  }

  take(panel) {
    this.panel = panel;
    this.gaps = panel.curves.map(() => []);
    this.shades = shading(panel.curves.flatMap((c) => c.avg.filter((v) => v !== null)));
  }

  /** update draws newer values of the same curves. */
  update(panel) {
    this.take(panel);
    this.element.setAttribute("aria-label", this.described());
    this.draw();
  }

  mount() {
    this.draw();
    this.observer.observe(this.element);
  }

  destroy() {
    this.observer.disconnect();
  }

  bands() {
    return false;
  }

  show() {
    // all rows stay
  }

  light(n) {
    this.point(n < 0 ? null : { n, t: null });
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const { curves, range, step } = this.panel;
    const ratio = devicePixelRatio;
    const height = this.row * curves.length + 18;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    const { mode } = this.page;
    const { axis } = palette(mode);
    const { left } = this;
    const x = (t) => this.x(t);
    const wide = Math.max(1, x(range.from + step) - left + 0.5);
    curves.forEach((curve, n) => curve.times.forEach((t, i) => {
      const colour = this.shades.of(mode, curve.avg[i] ?? undefined);
      if (!colour) return;
      c.fillStyle = colour;
      c.fillRect(x(t), n * this.row, wide, this.row > 6 ? this.row - 1 : this.row);
    }));
    c.clearRect(0, 0, left, height); // a cell may begin before the range
    if (left > 0) this.drawNames(c, axis);
    drawLines({ ctx: c, left, top: 0, width: width - left, height: this.row * curves.length, ratio: 1, x }, this.marks(), mode, { onCells: true });
    c.fillStyle = axis;
    c.font = "11px system-ui, sans-serif";
    for (const { t, text } of ticksOf(range, (width - left) / 90, this.page.utc)) {
      c.fillRect(x(t), height - 18, 1, 5);
      c.fillText(text, Math.min(x(t) + 3, width - c.measureText(text).width), height - 4);
    }
    if (this.cursor) {
      c.strokeStyle = axis;
      c.lineWidth = 1.5;
      c.strokeRect(left + 0.75, this.cursor.n * this.row, width - left - 1.5, this.row);
    }
  }

  // Where the cells begin: behind the names of the rows, where they fit.
  get left() {
    return this.row >= namedRow && this.element.clientWidth >= namedWidth ? nameWidth : 0;
  }

  // Where an instant is, in pixels.
  x(t) {
    const { from, to } = this.panel.range;
    return this.left + ((t - from) / (to - from)) * (this.element.clientWidth - this.left);
  }

  // How many ms a pixel is.
  get pixel() {
    const { from, to } = this.panel.range;
    return (to - from) / Math.max(1, this.element.clientWidth - this.left);
  }

  drawNames(c, colour) {
    c.fillStyle = colour;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    const most = nameWidth - 14;
    this.panel.curves.forEach(({ name }, n) => {
      let [head, tail] = parts(name);
      for (; head.length > 0 && c.measureText(`${head}…${tail}`).width > most; ) head = head.slice(0, -1);
      const whole = c.measureText(name).width <= most;
      c.fillText(whole ? name : `${head}…${tail}`, 8, (n + 0.5) * this.row);
    });
    c.textBaseline = "alphabetic";
  }

  under(e) {
    const box = this.canvas.getBoundingClientRect();
    const n = Math.floor((e.clientY - box.top) / this.row);
    const { range, curves } = this.panel;
    const t = range.from + (e.clientX - box.left - this.left) * this.pixel;
    this.point(n >= 0 && n < curves.length && t >= range.from ? { n, t } : null);
  }

  // The value of a row at a time: that of the step which the time lies in.
  valueAt({ n, t }) {
    const { curves, step } = this.panel;
    const { times, avg } = curves[n];
    const i = t === null ? times.length - 1 : times.findLastIndex((x) => x <= t);
    return i < 0 || (t !== null && t - times[i] > step) ? { at: t, value: null } : { at: times[i], value: avg[i] };
  }

  point(cursor) {
    this.cursor = cursor;
    this.draw();
    this.tip.hidden = cursor === null;
    if (cursor === null) return;
    const { at, value } = this.valueAt(cursor);
    this.tip.replaceChildren(h("b", {}, this.panel.curves[cursor.n].name),
      h("div", {}, number(value)), h("div", { class: "hint" }, at === null ? "" : instant(Math.round(at), this.page.utc)), ...this.said(cursor));
    const left = cursor.t === null ? this.left : this.x(cursor.t);
    this.tip.style.transform = `translate(${Math.max(0, Math.min(left, this.element.clientWidth - this.tip.offsetWidth))}px, ${(cursor.n + 1) * this.row + 4}px)`;
    this.tip.style.left = this.tip.style.top = "0";
  }

  // What a tip says of the annotations at the cursor.
  said({ t }) {
    if (t === null) return [];
    return tipOf(atCursor(this.marks(), 0, (x) => t + x * this.pixel));
  }

  // walk moves the cursor to the next annotation, or the one before, and says it.
  walk(forward) {
    const all = this.marks();
    const next = neighbour(all, this.cursor?.t ?? (forward ? -Infinity : Infinity), forward);
    if (!next) return this.page.say(besides(all, forward));
    this.point({ n: this.cursor?.n ?? 0, t: next.time });
    this.page.say(spoken(next, this.page.utc));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "n" || e.key === "p") this.walk(e.key === "n");
    else if (e.key === "a" && this.page.annotate) this.page.annotate(Math.round((this.cursor?.t ?? this.page.now) / 1e3) * 1e3);
    else if (!this.move(e)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  // move follows an arrow key, and reports whether it was one.
  move(e) {
    const { curves, range, step } = this.panel;
    const now = this.cursor ?? { n: 0, t: range.to - step };
    const t = now.t ?? range.to - step;
    const to = { ArrowDown: { n: Math.min(curves.length - 1, now.n + 1), t }, ArrowUp: { n: Math.max(0, now.n - 1), t },
      ArrowLeft: { n: now.n, t: Math.max(range.from, t - step) }, ArrowRight: { n: now.n, t: Math.min(range.to - 1, t + step) }, Escape: null }[e.key];
    if (to === undefined) return false;
    this.point(this.cursor === null && to ? now : to);
    if (this.cursor) this.page.say(`${curves[this.cursor.n].name}, ${number(this.valueAt(this.cursor).value)}`);
    return true;
  }

  /** legend returns what the colours mean. */
  legend() {
    const { low, high } = this.shades;
    return h("div", { class: "keys-of-strip hint" }, [0, 0.5, 1].map((s) => {
      const patch = h("span", { class: "patch" });
      patch.style.background = ramp(this.page.mode, s);
      return h("span", {}, patch, s === 0 ? number(low) : s === 1 ? number(high) : "");
    }));
  }
}
