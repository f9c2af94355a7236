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

/** atCursor returns the annotations at the cursor of a plot. */
export function atCursor(u, all) {
  if (u.cursor.left < 0) return [];
  const t = u.posToVal(u.cursor.left, "x") * 1e3;
  return near(all, t, u.posToVal(u.cursor.left + reach, "x") * 1e3 - t);
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
export function drawBands(u, all, mode) {
  drawEach(u, all, mode, (ctx, { left, right, top, height, mark }) => {
    ctx.fillStyle = faded(mark, 0.14);
    ctx.fillRect(left, top, right - left, height);
  });
}

/** drawLines draws where annotations begin and end: dashed lines, the first with a flag. */
export function drawLines(u, all, mode) {
  const ratio = devicePixelRatio;
  drawEach(u, all, mode, (ctx, { left, right, top, height, mark }) => {
    ctx.strokeStyle = ctx.fillStyle = mark;
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([5 * ratio, 3 * ratio]);
    ctx.beginPath();
    for (const x of right > left ? [left, right] : [left]) {
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
    }
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(left, top);
    ctx.lineTo(left + 8 * ratio, top + 4 * ratio);
    ctx.lineTo(left, top + 8 * ratio);
    ctx.fill();
  });
}

// drawEach draws within the frame of a plot, of each annotation what draw draws of it.
function drawEach(u, all, mode, draw) {
  const { ctx, bbox } = u;
  const { left, top, width, height } = bbox;
  const { mark } = palette(mode);
  const x = (ms) => u.valToPos(ms / 1e3, "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const a of all) draw(ctx, { left: x(a.time), right: x(endOf(a)), top, height, mark });
  ctx.restore();
}
