// The picture of a map: one canvas image of its rows and columns, histograms along both axes, and on top of them a
// drawing of lines, labels and the selection.

import { h } from "./dom.js";
import { image } from "./heatscale.js";
import { partitions, sums } from "./heatwindow.js";

const ns = "http://www.w3.org/2000/svg";
const margin = { left: 74, right: 54, top: 40, bottom: 24 };
const narrow = { left: 40, right: 28, top: 32, bottom: 24 };

/** svg returns an SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS(ns, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

/** Heatmap draws into an element, and reports where the pointer is. */
export class Heatmap {
  constructor(element, { hover, pin, brush }) {
    this.element = element;
    this.on = { hover, pin, brush };
    this.canvas = h("canvas", { role: "img", "aria-label": "Heat of keys over time" });
    this.overlay = svg("svg", { tabindex: "0", "aria-label": "Heat of keys over time; arrow keys move the mark" });
    element.append(this.canvas, this.overlay);
    this.down = null;
    this.overlay.addEventListener("pointerdown", (e) => this.press(e));
    this.overlay.addEventListener("pointermove", (e) => this.move(e));
    this.overlay.addEventListener("pointerup", (e) => this.release(e));
    this.overlay.addEventListener("pointercancel", () => this.drop());
    this.overlay.addEventListener("pointerleave", () => !this.down && this.on.hover(null));
  }

  /** draw shows rows of a map. scale is {most, brightness, mode}; ink the colours of the histograms and lines. */
  draw(map, rows, scale, ink) {
    const box = this.element.getBoundingClientRect();
    Object.assign(this, { map, rows, size: { w: box.width, h: box.height }, margin: box.width < 600 ? narrow : margin });
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.clearRect(0, 0, box.width, box.height);
    const plot = this.plot();
    if (rows.length > 0 && map.columns > 0) {
      const small = document.createElement("canvas");
      small.width = map.columns;
      small.height = rows.length;
      const pixels = image(
        rows.map((r) => r.values),
        map.columns,
        scale,
      );
      small.getContext("2d").putImageData(new ImageData(pixels, map.columns, rows.length), 0, 0);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(small, plot.x, plot.y, plot.w, plot.h);
      this.histograms(ctx, plot, ink);
    }
    this.lines(plot);
  }

  /** plot returns the rectangle of the image. */
  plot() {
    const { left, right, top, bottom } = this.margin;
    return { x: left, y: top, w: Math.max(1, this.size.w - left - right), h: Math.max(1, this.size.h - top - bottom) };
  }

  histograms(ctx, plot, ink) {
    const { byColumn, byRow } = sums(this.rows, this.map.columns);
    const most = { column: Math.max(...byColumn, 1e-9), row: Math.max(...byRow, 1e-9) };
    const step = { x: plot.w / this.map.columns, y: plot.h / this.rows.length };
    const room = { top: this.margin.top - 8, right: this.margin.right - 8 };
    byColumn.forEach((v, i) => {
      ctx.fillStyle = i < this.map.now ? ink.bar : ink.expected;
      const high = (v / most.column) * room.top;
      ctx.fillRect(plot.x + i * step.x, plot.y - 3 - high, Math.max(step.x - (step.x > 3 ? 1 : 0), 0.5), high);
    });
    ctx.fillStyle = ink.bar;
    byRow.forEach((v, i) => {
      const wide = (v / most.row) * room.right;
      ctx.fillRect(plot.x + plot.w + 3, plot.y + i * step.y, wide, Math.max(step.y - (step.y > 3 ? 1 : 0), 0.5));
    });
  }

  lines(plot) {
    const { map, rows } = this;
    const out = [];
    const yOf = (row) => plot.y + (row * plot.h) / Math.max(1, rows.length);
    const xOf = (at) => plot.x + ((at - map.from) / (map.step * map.columns)) * plot.w;
    let labelled = -Infinity;
    const groups = partitions(rows);
    // Where partitions are many, lines across the picture would cover it: a tick beside it is enough.
    const across = plot.h / Math.max(1, groups.length) >= 16;
    for (const p of groups) {
      const top = yOf(p.first);
      const middle = top + (p.count * plot.h) / rows.length / 2;
      const x2 = across ? plot.x + plot.w : plot.x - 1;
      if (p.first > 0) out.push(svg("line", { class: "edge", x1: plot.x - 5, x2, y1: top, y2: top }));
      if (middle - labelled >= 13) {
        const text = this.margin === narrow ? `${p.range}` : `part. ${p.range}`;
        out.push(svg("text", { x: plot.x - 7, y: middle + 4, "text-anchor": "end" }, text));
        labelled = middle;
      }
    }
    out.push(...this.times(plot, xOf));
    let at = -Infinity;
    for (const m of map.marks) {
      const x = xOf(m.at);
      const line = svg("line", { class: "mark", x1: x, x2: x, y1: plot.y, y2: plot.y + plot.h });
      line.append(svg("title", {}, document.createTextNode(m.text)));
      out.push(line);
      if (x - at > 60) out.push(svg("text", { x: x + 3, y: plot.y + plot.h - 6 }, m.kind));
      at = x;
    }
    if (map.now < map.columns) {
      const x = plot.x + (map.now / map.columns) * plot.w;
      out.push(svg("line", { class: "now", x1: x, x2: x, y1: plot.y - 6, y2: plot.y + plot.h }));
      if (plot.x + plot.w - x > 50) out.push(svg("text", { x: x + 4, y: plot.y + 12 }, "forecast"));
    }
    this.brush = svg("rect", { class: "brush", width: 0, height: 0 });
    this.cell = svg("rect", { class: "cell", width: 0, height: 0 });
    this.overlay.replaceChildren(...out, this.cell, this.brush);
  }

  // times returns the labels of the axis of time.
  times(plot, xOf) {
    const { map } = this;
    const long = map.step * map.columns;
    const many = Math.max(2, Math.floor(plot.w / 90));
    const choices = [6e4, 3e5, 9e5, 36e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6];
    const every = choices.find((c) => long / c <= many) ?? choices.at(-1);
    const out = [];
    const shift = new Date(map.from).getTimezoneOffset() * 6e4;
    for (let t = Math.ceil((map.from - shift) / every) * every + shift; t < map.from + long; t += every) {
      const d = new Date(t);
      const two = (n) => String(n).padStart(2, "0");
      const text = every >= 864e5 || long > 1728e5
        ? `${two(d.getMonth() + 1)}-${two(d.getDate())}${every < 864e5 ? ` ${two(d.getHours())}:${two(d.getMinutes())}` : ""}`
        : `${two(d.getHours())}:${two(d.getMinutes())}`;
      const x = xOf(t);
      if (x > plot.x + plot.w - 12) break;
      out.push(svg("line", { class: "edge", x1: x, x2: x, y1: plot.y + plot.h, y2: plot.y + plot.h + 4 }));
      out.push(svg("text", { x, y: plot.y + plot.h + 16, "text-anchor": "middle" }, text));
    }
    return out;
  }

  /** mark frames a cell, or none. */
  mark(cell) {
    if (!this.cell) return;
    const plot = this.plot();
    const w = plot.w / Math.max(1, this.map.columns);
    const high = plot.h / Math.max(1, this.rows.length);
    const at = cell
      ? { x: plot.x + cell.x * w - 1, y: plot.y + cell.y * high - 1, width: Math.max(w, 2) + 2, height: Math.max(high, 2) + 2 }
      : { width: 0, height: 0 };
    for (const [name, value] of Object.entries(at)) this.cell.setAttribute(name, value);
  }

  /** placeOf returns where a cell is, in pixels of the element. */
  placeOf(cell) {
    const plot = this.plot();
    return {
      x: plot.x + ((cell.x + 0.5) * plot.w) / this.map.columns,
      y: plot.y + ((cell.y + 0.5) * plot.h) / this.rows.length,
    };
  }

  // at returns the cell under the pointer, the nearest one beyond an edge; null outside of the image.
  at(event, near = false) {
    if (!this.map || this.rows.length === 0) return null;
    const box = this.element.getBoundingClientRect();
    const plot = this.plot();
    const x = Math.floor(((event.clientX - box.left - plot.x) / plot.w) * this.map.columns);
    const y = Math.floor(((event.clientY - box.top - plot.y) / plot.h) * this.rows.length);
    const inside = x >= 0 && y >= 0 && x < this.map.columns && y < this.rows.length;
    if (!inside && !near) return null;
    return { x: Math.min(Math.max(x, 0), this.map.columns - 1), y: Math.min(Math.max(y, 0), this.rows.length - 1) };
  }

  press(event) {
    const cell = this.at(event);
    if (!cell || event.button !== 0) return;
    this.down = { cell, x: event.clientX, y: event.clientY };
    this.overlay.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.down) return this.on.hover(this.at(event));
    if (!this.dragged(event)) return;
    this.on.hover(null);
    const box = this.element.getBoundingClientRect();
    const [x0, x1] = [this.down.x, event.clientX].sort((a, b) => a - b);
    const [y0, y1] = [this.down.y, event.clientY].sort((a, b) => a - b);
    const at = { x: x0 - box.left, y: y0 - box.top, width: x1 - x0, height: y1 - y0 };
    for (const [name, value] of Object.entries(at)) this.brush.setAttribute(name, value);
  }

  dragged(event) {
    return Math.hypot(event.clientX - this.down.x, event.clientY - this.down.y) > 5;
  }

  release(event) {
    const down = this.down;
    if (!down) return;
    const dragged = this.dragged(event);
    this.drop();
    if (!dragged) return this.on.pin(down.cell);
    const end = this.at(event, true);
    this.on.brush({ x0: down.cell.x, y0: down.cell.y, x1: end.x, y1: end.y });
  }

  drop() {
    this.down = null;
    for (const name of ["width", "height"]) this.brush?.setAttribute(name, 0);
  }
}
