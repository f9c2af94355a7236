// One chart: uPlot with bands, marked gaps, a tip at the cursor, zoom by dragging and by keys. What is drawn comes
// ready from series.js; this file knows pixels.

import { h } from "./dom.js";
import { count, instant, length, number, ticks } from "./format.js";
import { common, gapsOf, united } from "./gaps.js";
import { atCursor, besides, drawBands, drawLines, frameOf, neighbour, spoken, tipOf, within } from "./marks.js";
import { faded, inkOf, palette } from "./palette.js";
import { stacked } from "./curves.js";
import { table } from "./series.js";
import { zoomed } from "./time.js";

const tall = 300;
const low = 200;

// More bands than these cover each other.
const mostBands = 6;

// How many curves a tip names.
const mostTips = 10;

/** Chart draws curves into an element of its own. */
export class Chart {
  /**
   * panel is {title, curves, step, range, exact, stepped, height}: exact says that each step has a value where there is one at all, as
   * answers of PromQL have; stepped that a value holds until the next one; known has gaps {from, to, began} that are known from elsewhere, began of one that began before the range; hidden has the numbers of curves that are not drawn. page is {utc, mode, sync, zoom(range), say(text)}: zoom is called with what was dragged. Where it has annotations() they are drawn,
   * and annotate(ms) is called to add one; gapAt(ms) says more of the gap at an instant.
   */
  constructor(panel, page, hidden = new Set()) {
    Object.assign(this, { panel, page, hidden, lit: -1 });
    this.height = panel.height ?? (page.panels > 1 ? low : tall);
    this.measure();
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", {
      class: "plot",
      role: "application",
      tabIndex: 0,
      "aria-roledescription": "chart",
      "aria-label": this.described(),
      on: { keydown: (e) => this.key(e), blur: () => this.leave() },
    });
    this.observer = new ResizeObserver(() => this.resize());
  }

  /** described returns in words what the chart shows. */
  described() {
    const { title, curves } = this.panel;
    const holes = this.gaps.flat().length;
    const what = `${title || "Result"}: ${count(curves.length, "curve")}, ${count(holes, "gap")}`;
    const marks = this.marks().length;
    const walk = marks > 0 ? ` ${count(marks, "annotation")}: n and p go to the next and the previous one.` : "";
    return `${what}. Arrow keys move along the curves, plus and minus zoom.${walk}`;
  }

  // The annotations in the range.
  marks() {
    return within(this.page.annotations?.() ?? [], this.panel.range);
  }

  /** mount draws the chart, once its element is in the page. */
  mount() {
    this.draw();
    this.observer.observe(this.element);
  }

  /** destroy ends it. */
  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  draw() {
    this.plot?.destroy();
    this.plot = new globalThis.uPlot(this.options(), this.data, this.element);
    this.element.append(this.tip);
  }

  resize() {
    const width = this.element.clientWidth;
    if (this.plot && width > 0 && Math.abs(width - this.plot.width) > 1)
      this.plot.setSize({ width, height: this.height });
  }

  // measure finds the gaps of the curves, and lays out their columns.
  measure() {
    const { curves, step, range, exact } = this.panel;
    const until = Math.min(range.to, this.page.now);
    this.gaps = curves.map((c) => gapsOf(c.times, step, { factor: exact ? 1.5 : 2.5, until: exact ? null : until }));
    this.plain = table(curves, this.gaps);
    this.data = this.laid();
  }

  // The columns that are drawn: in a stack each curve stands on those before it.
  laid() {
    return this.panel.stack ? stacked(this.plain, this.hidden) : this.plain;
  }

  /** show draws the chart without the curves whose numbers are in a set. */
  show(hidden) {
    this.hidden = hidden;
    if (hidden.has(this.lit)) this.lit = -1;
    this.data = this.laid();
    this.draw();
  }

  /** light lets one curve stand out; -1 none. */
  light(n) {
    const lit = this.hidden.has(n) ? -1 : n;
    if (this.lit === lit) return;
    this.lit = lit;
    this.plot?.redraw(false);
  }

  // The colour and dash of a curve: one of an earlier time has those of its pair.
  ink(n) {
    return inkOf(this.page.mode, this.panel.curves[n].ink ?? n);
  }

  /** update draws newer values of the same curves, without what a new chart would lose: cursor, tip, place. */
  update(panel) {
    this.panel = { ...panel, height: this.height };
    this.measure();
    this.element.setAttribute("aria-label", this.described());
    this.plot?.setData(this.data);
  }

  bands() {
    if (this.panel.stack) return false;
    const shown = this.panel.curves.map((_, i) => i).filter((i) => !this.hidden.has(i));
    return shown.filter((i) => this.panel.curves[i].min.some((v) => v !== null)).length <= mostBands;
  }

  options() {
    const { curves } = this.panel;
    const colours = palette(this.page.mode);
    const font = "11px system-ui, sans-serif";
    const axis = {
      stroke: colours.axis,
      font,
      grid: { stroke: colours.grid, width: 1 },
      ticks: { stroke: colours.grid, width: 1, size: 4 },
    };
    const banded = this.bands();
    const single = (c) => c.times.length === 1;
    const small = this.height < low;
    return {
      width: Math.max(200, this.element.clientWidth),
      height: this.height,
      ...(small ? { padding: [8, 14, 0, 0] } : {}),
      pxAlign: 1,
      tzDate: (t) => (this.page.utc ? globalThis.uPlot.tzDate(new Date(t * 1e3), "Etc/UTC") : new Date(t * 1e3)),
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
        ...(this.page.sync ? { sync: { key: this.page.sync, setSeries: false } } : {}),
      },
      scales: {
        x: { time: true, range: () => [this.panel.range.from / 1e3, this.panel.range.to / 1e3] },
        y: this.panel.stepped ? { range: [-0.15, 1.15] } : valueScale(this.panel),
      },
      axes: [
        { ...axis, space: 72, values: clock() },
        this.panel.stepped
          ? { ...axis, size: 56, splits: [0, 1], values: ["false", "true"] }
          : { ...axis, size: wide(font), space: small ? 20 : 34, values: (_, splits) => ticks(splits), label: this.panel.unit, labelSize: 18, labelFont: font },
      ],
      series: [
        {},
        ...curves.flatMap((c, n) => {
          const { stroke, dash } = this.ink(n);
          const show = !this.hidden.has(n);
          const edge = { show: show && banded, stroke: "transparent", width: 0, points: { show: false } };
          return [
            {
              show,
              stroke: () => (this.lit >= 0 && this.lit !== n ? faded(stroke, 0.25) : stroke),
              width: 1.5,
              dash: c.before ? [2, 4] : dash,
              ...(this.panel.stack ? { fill: faded(stroke, 0.3) } : {}),
              ...(this.panel.stepped ? { paths: globalThis.uPlot.paths.stepped({ align: 1 }) } : {}),
              points: { show: single(c) ? true : undefined, size: 4, fill: stroke },
            },
            edge,
            edge,
          ];
        }),
      ],
      bands: this.panel.stack ? this.between() : curves.map((_, n) => ({
        series: [3 * n + 2, 3 * n + 3],
        fill: faded(this.ink(n).stroke, 0.16),
      })),
      hooks: {
        drawClear: [(u) => this.drawGaps(u), (u) => drawBands(frameOf(u), this.marks(), this.page.mode)],
        draw: [(u) => this.drawBridges(u), (u) => drawLines(frameOf(u), this.marks(), this.page.mode)],
        setCursor: [(u) => this.follow(u)],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  // The areas of a stack, each down to the curve below it that is shown.
  between() {
    const shown = this.panel.curves.map((_, n) => n).filter((n) => !this.hidden.has(n));
    return shown.slice(1).map((n, i) => ({ series: [3 * n + 1, 3 * shown[i] + 1], fill: faded(this.ink(n).stroke, 0.3) }));
  }

  // Where all curves that are shown have a gap it is hatched, and so is a gap that is known though steps are too long to show it.
  drawGaps(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const colours = palette(this.page.mode);
    const shown = this.gaps.filter((_, n) => !this.hidden.has(n) && this.panel.curves[n].times.length > 0);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const begin = this.panel.range.from;
    const known = (this.panel.known ?? []).map((g) => ({ from: Math.max(g.began ?? g.from, begin), to: g.to }));
    for (const g of united([...common(shown), ...known])) {
      const left = u.valToPos(g.from / 1e3, "x", true);
      const right = u.valToPos(g.to / 1e3, "x", true);
      hatch(ctx, left, bbox.top, right - left, bbox.height, faded(colours.gap, 0.4), ratio);
    }
    // An arrow to the left says that a gap began before the range.
    if (this.panel.known?.some((g) => g.began < begin)) {
      const [x, y, size] = [bbox.left + 3 * ratio, bbox.top + bbox.height / 2, 6 * ratio];
      ctx.fillStyle = colours.gap;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.fill();
    }
    ctx.restore();
  }

  // A dotted line leads over each gap of a curve, and ends where an open one ends.
  drawBridges(u) {
    if (this.panel.stack) return;
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.setLineDash([1.5 * ratio, 3 * ratio]);
    ctx.lineWidth = 1.25 * ratio;
    this.panel.curves.forEach((c, n) => {
      if (this.hidden.has(n)) return;
      ctx.strokeStyle = faded(this.ink(n).stroke, this.lit >= 0 && this.lit !== n ? 0.2 : 0.75);
      for (const g of this.gaps[n]) {
        const before = c.avg[c.times.indexOf(g.from)];
        const behind = g.open ? before : c.avg[c.times.indexOf(g.to)];
        if (before === null || behind === null) continue;
        ctx.beginPath();
        ctx.moveTo(u.valToPos(g.from / 1e3, "x", true), u.valToPos(before, "y", true));
        ctx.lineTo(u.valToPos(g.to / 1e3, "x", true), u.valToPos(behind, "y", true));
        ctx.stroke();
      }
    });
    ctx.restore();
  }

  selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = Math.round(u.posToVal(left, "x") * 1e3);
    const to = Math.round(u.posToVal(left + width, "x") * 1e3);
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.page.zoom({ from, to: Math.max(to, from + 1000) });
  }

  // The values at the cursor, those nearest to it first.
  at(index, y) {
    return this.panel.curves
      .map((c, n) => {
        const t = this.data[0][index] * 1e3;
        const i = c.times.indexOf(t);
        return i < 0 || this.hidden.has(n) ? null : { n, name: c.name, value: c.avg[i], min: c.min[i], max: c.max[i] };
      })
      .filter((v) => v && v.value !== null)
      .sort((a, b) => (y === null ? a.n - b.n : Math.abs(a.value - y) - Math.abs(b.value - y)));
  }

  // The gaps that an instant lies in, with the numbers of their curves.
  gapsAt(t) {
    return this.gaps.flatMap((gs, n) => {
      const gap = this.hidden.has(n) ? null : gs.find((g) => t > g.from && t < g.to);
      return gap ? [{ n, gap }] : [];
    });
  }

  follow(u) {
    const { idx, left, top } = u.cursor;
    if (idx === null || idx === undefined || left < 0) {
      this.tip.hidden = true;
      return;
    }
    const y = top >= 0 ? u.posToVal(top, "y") : null;
    const t = this.data[0][idx] * 1e3;
    const values = this.at(idx, y);
    const gaps = this.gapsAt(t);
    // The cursor may lie in a gap that the step next to it does not lie in.
    const why = (gaps.length > 0 && this.page.gapAt?.(t)) || this.page.gapAt?.(u.posToVal(left, "x") * 1e3);
    const row = (v) =>
      h(
        "tr",
        {},
        h("td", {}, swatch(this.page.mode, this.panel.curves[v.n].ink ?? v.n)),
        h("td", {}, v.name),
        h(
          "td",
          {},
          number(v.value),
          v.min !== null && v.min !== v.max
            ? h("span", { class: "hint" }, `  ${number(v.min)} … ${number(v.max)}`)
            : null,
        ),
      );
    this.tip.replaceChildren(
      h("div", { class: "hint" }, instant(t, this.page.utc)),
      ...tipOf(atCursor(this.marks(), left, (x) => u.posToVal(x, "x") * 1e3)),
      h("table", {}, ...values.slice(0, mostTips).map(row), ...(why ? [] : gaps).slice(0, mostTips).map(({ n, gap }) =>
        h("tr", {}, h("td", {}, swatch(this.page.mode, this.panel.curves[n].ink ?? n)), h("td", {}, this.panel.curves[n].name), h("td", {}, gapSaid(gap))))),
      ...(why ? [h("div", {}, why)] : []),
      ...(values.length > mostTips ? [h("div", { class: "hint" }, `and ${values.length - mostTips} more`)] : []),
    );
    this.tip.hidden = false;
    const box = u.over;
    const at = box.offsetLeft + left;
    const width = this.tip.offsetWidth;
    const x = at + 14 + width > this.element.clientWidth ? Math.max(0, at - 14 - width) : at + 14;
    this.tip.style.transform = `translate(${x}px, ${box.offsetTop + 6}px)`;
    this.tip.style.left = this.tip.style.top = "0";
  }

  leave() {
    this.plot?.setCursor({ left: -10, top: -10 });
  }

  // Arrow keys walk along what is drawn, and what is there is said; + and - zoom around it.
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const u = this.plot;
    const end = this.data[0].length - 1;
    if (end < 0) return;
    const here = u.cursor.left >= 0 && u.cursor.idx !== null ? u.cursor.idx : null;
    const by = e.shiftKey ? 10 : 1;
    const to = {
      ArrowRight: here === null ? 0 : Math.min(end, here + by),
      ArrowLeft: here === null ? end : Math.max(0, here - by),
      Home: 0,
      End: end,
    }[e.key];
    if (to !== undefined) {
      u.setCursor({ left: u.valToPos(this.data[0][to], "x"), top: -1 });
      this.say(to);
    } else if (e.key === "+" || e.key === "=" || e.key === "-") {
      const { range } = this.panel;
      const around = here === null ? (range.from + range.to) / 2 : this.data[0][here] * 1e3;
      this.page.zoom(zoomed(range, around, e.key === "-" ? 2 : 0.5));
    } else if (e.key === "n" || e.key === "p") this.walk(e.key === "n");
    else if (e.key === "a" && this.page.annotate) this.page.annotate(this.instantAt() ?? this.page.now);
    else if (e.key === "Escape") this.leave();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  // The instant at the cursor, in ms: that of the annotation that it was sent to; null without a cursor.
  instantAt() {
    const u = this.plot;
    const { left } = u.cursor;
    if (left < 0) return null;
    if (this.mark && Math.abs(u.valToPos(this.mark.time / 1e3, "x") - left) < 2) return this.mark.time;
    return Math.round(u.posToVal(left, "x")) * 1e3;
  }

  // walk moves the cursor to the next annotation, or the one before, and says it.
  walk(forward) {
    const u = this.plot;
    const all = this.marks();
    const here = this.instantAt() ?? (forward ? -Infinity : Infinity);
    const next = neighbour(all, here, forward);
    if (!next) return this.page.say(besides(all, forward));
    const left = u.valToPos(next.time / 1e3, "x");
    u.setCursor({ left: Math.min(u.over.clientWidth, Math.max(0, left)), top: -1 });
    this.mark = next;
    this.page.say(spoken(next, this.page.utc));
  }

  say(index) {
    const values = this.at(index, null)
      .slice(0, 5)
      .map((v) => `${v.name} ${number(v.value)}`);
    const t = this.data[0][index] * 1e3;
    const gaps = this.gapsAt(t).slice(0, 5).map(({ n, gap }) => `${this.panel.curves[n].name} ${gapSaid(gap)}`);
    const why = gaps.length > 0 ? this.page.gapAt?.(t) : "";
    this.page.say(`${instant(t, this.page.utc)}: ${[...values, ...gaps, why].filter(Boolean).join(", ") || "gap"}`);
  }
}

/** swatch returns a piece of the line that a curve is drawn with. */
export function swatch(mode, n) {
  const { stroke, dash } = inkOf(mode, n);
  const e = h("span", { class: "swatch" + (dash.length === 0 ? "" : dash[0] > 2 ? " dashed" : " dotted") });
  e.style.borderTopColor = stroke;
  return e;
}

/** gapSaid returns what is said of a gap: how long it is. */
export function gapSaid({ from, to, open }) {
  return `gap of ${length(Math.round((to - from) / 1e3) * 1e3)}${open ? " until the end" : ""}`;
}

// valueScale returns the scale of values of a panel: logarithmic, with fixed ends, or around what is there.
function valueScale({ log, low = null, high = null, stack }) {
  const around = stack ? { min: { pad: 0, soft: 0, mode: 1 }, max: { pad: 0.1, soft: 0, mode: 1 } } : { min: { pad: 0.1, soft: 0, mode: 3 }, max: { pad: 0.1, soft: 0, mode: 3 } };
  const { rangeNum, rangeLog } = globalThis.uPlot;
  const fixed = low !== null || high !== null;
  if (!fixed && !log) return { range: around };
  const range = (u, least, most) => {
    const [from, to] = least === null ? [log ? 1 : 0, 10] : log ? rangeLog(least, most, 10, true) : rangeNum(least, most, around);
    return [low !== null && (!log || low > 0) ? low : from, high ?? to];
  };
  return log ? { distr: 3, range } : { range };
}

// wide returns the width of an axis: that of its longest label.
function wide(font) {
  return (u, labels) => {
    if (!labels) return 56;
    const { ctx } = u;
    ctx.save();
    ctx.font = font;
    const longest = Math.max(0, ...labels.map((l) => ctx.measureText(l).width));
    ctx.restore();
    return Math.max(56, Math.ceil(longest) + 16);
  };
}

function hatch(ctx, x, y, w, height, colour, ratio) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = ratio;
  ctx.beginPath();
  const apart = 7 * ratio;
  // From the same origin everywhere, so that neighbours meet.
  for (let at = Math.floor((x - height) / apart) * apart; at < x + w; at += apart) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  ctx.stroke();
  ctx.beginPath();
  ctx.setLineDash([]);
  ctx.moveTo(x, y);
  ctx.lineTo(x, y + height);
  ctx.moveTo(x + w, y);
  ctx.lineTo(x + w, y + height);
  ctx.stroke();
  ctx.restore();
}

// Times of an axis: 24 hours, dates as 11-22; what is larger stands in the second line, where it changes.
function clock() {
  const [year, day, hour, minute, second] = ["{YYYY}", "{MM}-{DD}", "{HH}:{mm}", "{HH}:{mm}", "{HH}:{mm}:{ss}"];
  const s = 1,
    m = 60,
    hr = 3600,
    d = 86400;
  return [
    [365 * d, year, null, null, null, null, null, null, 1],
    [28 * d, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
    [d, day, "\n" + year, null, null, null, null, null, 1],
    [hr, hour, "\n{YYYY}-" + day, null, "\n" + day, null, null, null, 1],
    [m, minute, "\n{YYYY}-" + day, null, "\n" + day, null, null, null, 1],
    [s, second, "\n{YYYY}-" + day, null, "\n" + day, null, null, null, 1],
    [0.001, second + ".{fff}", "\n{YYYY}-" + day, null, "\n" + day, null, null, null, 1],
  ];
}
