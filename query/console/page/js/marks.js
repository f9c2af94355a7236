// Annotations as they stand in a chart: where they are drawn, which of them are at the cursor, which one is next.

import { h } from "./dom.js";
import { instant } from "./format.js";
import { faded, palette } from "./palette.js";

const reach = 6; // px, within which a cursor is at a mark
const mostSaid = 5;

/** endOf returns the last instant of an annotation. */
export function endOf(a) {
  return Math.max(a.time, a.timeEnd ?? 0);
}

/** within returns the annotations that a range has a part of, by time. */
export function within(all, { from, to }) {
  return all.filter((a) => endOf(a) >= from && a.time <= to).sort((a, b) => a.time - b.time);
}

/** near returns the annotations that an instant is at, give or take so many ms. */
export function near(all, t, slack) {
  return all.filter((a) => t >= a.time - slack && t <= endOf(a) + slack);
}

/** neighbour returns the annotation that begins next after an instant, or last before it; undefined if there is none. */
export function neighbour(all, t, forward) {
  return forward ? all.find((a) => a.time > t) : all.findLast((a) => a.time < t);
}

/** spoken returns an annotation in one line. */
export function spoken(a, utc) {
  const tags = a.tags.length > 0 ? ` (${a.tags.join(", ")})` : "";
  return `${instant(a.time, utc)}${a.timeEnd ? ` to ${instant(a.timeEnd, utc)}` : ""}: ${a.text}${tags}`;
}

/** besides returns what is said where there is no next annotation, or none before. */
export function besides(all, forward) {
  return all.length === 0 ? "no annotations here" : `no ${forward ? "later" : "earlier"} annotation`;
}

/** frameOf returns where a plot of uPlot is drawn, for drawBands and drawLines: x(ms) is in pixels of the canvas. */
export function frameOf(u) {
  return { ctx: u.ctx, ...u.bbox, ratio: devicePixelRatio, x: (ms) => u.valToPos(ms / 1e3, "x", true) };
}

/** atCursor returns the annotations at a place of a chart: time(x) is the instant at so many pixels. */
export function atCursor(all, x, time) {
  return x < 0 ? [] : near(all, time(x), time(x + reach) - time(x));
}

/** tipOf returns what a tip says of annotations. */
export function tipOf(found) {
  return [
    ...found.slice(0, mostSaid).map((a) =>
      h("div", { class: "mark-tip" }, h("b", {}, a.text), a.tags.length > 0 ? h("span", { class: "hint" }, ` ${a.tags.join(", ")}`) : null),
    ),
    found.length > mostSaid ? h("div", { class: "hint" }, `and ${found.length - mostSaid} more annotations`) : null,
  ].filter(Boolean);
}

/** drawBands draws the annotations that take time, below the curves of a plot. */
export function drawBands(frame, all, mode) {
  drawEach(frame, all, mode, ({ left, right, mark }) => {
    frame.ctx.fillStyle = faded(mark, 0.14);
    frame.ctx.fillRect(left, frame.top, right - left, frame.height);
  });
}

/**
 * drawLines draws where annotations begin and end: dashed lines, the first with a flag. On cells, which have any colour,
 * the lines have an edge in that of the ground.
 */
export function drawLines(frame, all, mode, { onCells = false } = {}) {
  const { ctx, ratio, top, height } = frame;
  const { ground } = palette(mode);
  drawEach(frame, all, mode, ({ left, right, mark }) => {
    const lines = () => {
      ctx.beginPath();
      for (const x of right > left ? [left, right] : [left]) {
        ctx.moveTo(x, top);
        ctx.lineTo(x, top + height);
      }
      ctx.stroke();
    };
    if (onCells) {
      ctx.strokeStyle = ground;
      ctx.lineWidth = 4 * ratio;
      ctx.setLineDash([]);
      lines();
    }
    ctx.strokeStyle = ctx.fillStyle = mark;
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([5 * ratio, 3 * ratio]);
    lines();
    ctx.beginPath();
    ctx.moveTo(left, top);
    ctx.lineTo(left + 8 * ratio, top + 4 * ratio);
    ctx.lineTo(left, top + 8 * ratio);
    ctx.fill();
  });
}

// drawEach draws within a frame, of each annotation what draw draws of it.
function drawEach({ ctx, left, top, width, height, x }, all, mode, draw) {
  const { mark } = palette(mode);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const a of all) draw({ left: x(a.time), right: x(endOf(a)), mark });
  ctx.restore();
}
