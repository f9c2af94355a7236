// The heat page: its state, what it asks for, and who shows it.

import { ask } from "./admin.js";
import { $, fill, h, icon } from "./dom.js";
import { count } from "./format.js";
import { Heatmap, svg } from "./heatmap.js";
import { colours, valueAt } from "./heatscale.js";
import { fragment, initial, kinds, parse, request, spans } from "./heatstate.js";
import { brushed, nameOf, rowsIn } from "./heatwindow.js";
import { views } from "./operatorstate.js";
import { palette } from "./palette.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const mode = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");

let state = parse(location.hash);
let map = null;
let rows = [];
let cursor = null; // the cell that the arrow keys move
let pinned = false;
let running = null; // AbortController

const tip = h("div", { class: "heat-tip", hidden: true });
const picture = new Heatmap($("map"), {
  hover: (cell) => !pinned && point(cell),
  pin: (cell) => {
    pinned = !(pinned && cursor && cursor.x === cell.x && cursor.y === cell.y);
    point(cell);
  },
  brush: (b) => change({ ...brushed(map, rows, b) }),
});
$("map").append(tip);

// --- controls

const container = h("input", { type: "text", id: "container", placeholder: "today's", spellcheck: false,
  on: { change: () => change({ container: container.value.trim(), low: 0, high: 1 }) } });
const brightness = h("input", { type: "range", min: "0", max: "1", step: "0.05", id: "brightness",
  on: { input: () => change({ brightness: Number(brightness.value) }, true) } });
const group = (label, names, pick) =>
  h("span", { class: "group", role: "group", "aria-label": label },
    names.map(([name, text]) => h("button", { "data-name": name, on: { click: () => pick(name) } }, text)));
const kindButtons = group("What", [["rus", "RU"], ["bytes", "bytes"], ["throttled", "429s"]], (kind) => change({ kind }));
const spanButtons = group("Time", Object.keys(spans).map((s) => [s, s]), (span) => change({ span, from: 0, to: 0 }));
const whole = h("button", { id: "whole", on: { click: () => reset() } }, "Show all");
const theme = h("button", { id: "theme", "aria-label": "Light or dark", title: "Light or dark", on: { click: () => toggle() } }, icon("theme"));
fill($("controls"), h("label", {}, "Container", container), kindButtons, spanButtons,
  h("label", {}, "Brightness", brightness), whole, theme);

const rooms = Object.entries(views).map(([view, name]) => [view, h("a", {}, name)]);
fill($("rooms"), rooms.map(([, a]) => a), h("a", { href: "#", "aria-current": "page", on: { click: (e) => e.preventDefault() } }, "Heat map"));

function toggle() {
  const next = mode() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("binnacle.theme", next);
  } catch {
    // it holds as long as the page
  }
  draw();
}

function press(buttons, name) {
  for (const b of buttons.children) b.setAttribute("aria-pressed", String(b.dataset.name === name));
}

function show() {
  for (const [view, a] of rooms)
    a.href = "/operators#" + new URLSearchParams({ view, ...(view === "partitions" && state.container ? { container: state.container } : {}) });
  container.value = state.container;
  brightness.value = String(state.brightness);
  press(kindButtons, state.kind);
  press(spanButtons, state.to > 0 ? "" : state.span);
  whole.hidden = state.to === 0 && state.low === 0 && state.high === 1;
}

function reset() {
  change({ from: 0, to: 0, low: 0, high: 1 });
}

// change takes over a part of the state. Only what the answer does not depend on is drawn anew without asking.
function change(part, local = false) {
  const before = fragment(state);
  state = { ...state, ...part };
  const after = "#" + fragment(state);
  if (after !== "#" + before) {
    if (local) history.replaceState(null, "", after);
    else history.pushState(null, "", after);
  }
  show();
  if (local) draw();
  else run();
}

addEventListener("popstate", () => {
  state = parse(location.hash);
  show();
  run();
});

// --- asking

async function run() {
  running?.abort();
  const mine = (running = new AbortController());
  const most = Math.min(1000, Math.max(60, Math.round($("map").clientHeight / 2)));
  // Rows are compacted for the whole key space: a part of it needs more of them.
  const wanted = Math.min(1000, Math.round(most / Math.max(0.05, state.high - state.low)));
  say("Asking …");
  $("map").setAttribute("aria-busy", "true");
  try {
    const { body, fault } = await ask(request(state, Date.now(), wanted), { signal: mine.signal });
    if (fault) throw new Error(fault);
    map = body;
    pinned = false;
    cursor = null;
    draw();
    const last = new Date(map.from + map.step * map.columns);
    say(
      `${map.container}: ${count(map.keys, "key")} in ${count(map.ranges.length, "physical partition")}, ${clock(new Date(map.from))} to ` +
        `${clock(last)}, a column is ${length(map.step)}.`,
    );
  } catch (e) {
    if (mine.signal.aborted) return;
    map = null;
    fill($("findings"));
    picture.draw({ from: 0, step: 1, columns: 0, now: 0, marks: [], rows: [] }, [], scale(), ink());
    point(null);
    say(e.message, true);
  }
  $("map").setAttribute("aria-busy", "false");
}

function say(text, bad = false) {
  $("answer").textContent = text;
  $("answer").classList.toggle("bad", bad);
}

// clock returns a time of this place.
function clock(date) {
  const two = (n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

function length(ms) {
  if (ms % 864e5 === 0) return `${ms / 864e5} d`;
  if (ms % 36e5 === 0) return `${ms / 36e5} h`;
  return `${ms / 6e4} min`;
}

// --- drawing

function scale() {
  let most = 0;
  for (const r of rows) for (const v of r.values) most = Math.max(most, v);
  return { most, brightness: state.brightness, mode: mode() };
}

function ink() {
  const p = palette(mode());
  return { bar: p.series[0], expected: p.axis };
}

function draw() {
  if (!map) return;
  rows = rowsIn(map, state);
  picture.draw(map, rows, scale(), ink());
  fill($("findings"), map.findings.map((f) => h("li", {}, f)));
  legend();
  point(cursor && cursor.y < rows.length ? cursor : null);
}

function legend() {
  const { most } = scale();
  const table = colours(mode());
  const wide = 240;
  const bars = table.filter((_, i) => i % 4 === 0).map(([r, g, b], i) =>
    svg("rect", { x: (i * wide) / 64 + 8, y: 0, width: wide / 64 + 0.5, height: 10, fill: `rgb(${r},${g},${b})` }));
  const labels = [0, 0.25, 0.5, 0.75, 1].map((at) =>
    svg("text", { x: 8 + at * wide, y: 22, "text-anchor": "middle" }, amount(valueAt(at, most, state.brightness))));
  fill($("legend"), h("span", {}, `${kinds[state.kind]} in ${length(map.step)}, by row`),
    svg("svg", { viewBox: "0 0 260 26", "aria-hidden": "true" }, ...bars, ...labels));
}

function amount(v) {
  if (v >= 1e9) return `${(v / 1e9).toPrecision(3)} G`;
  if (v >= 1e6) return `${(v / 1e6).toPrecision(3)} M`;
  if (v >= 1e4) return `${(v / 1e3).toPrecision(3)} k`;
  return v === 0 ? "0" : String(Number(v.toPrecision(3)));
}

// point shows what a cell is.
function point(cell) {
  cursor = cell;
  picture.mark(cell);
  tip.hidden = !cell || !map;
  tip.classList.toggle("pinned", pinned && !tip.hidden);
  if (tip.hidden) {
    pinned = false;
    return;
  }
  const row = rows[cell.y];
  const from = new Date(map.from + cell.x * map.step);
  const to = new Date(map.from + (cell.x + 1) * map.step);
  const keys = row.last && row.last !== row.first ? `${row.first}\n${row.last}` : (row.first ?? "");
  const copy = h("button", { on: { click: async () => {
    await navigator.clipboard?.writeText(keys);
    copy.textContent = "Copied";
  } } }, row.keys > 1 ? "Copy first and last key" : "Copy key");
  fill(tip, h("div", {}, h("b", {}, `${amount(row.values[cell.x] ?? 0)} ${kinds[map.kind]}`), cell.x >= map.now ? " expected" : ""),
    h("div", { class: "mono" }, nameOf(row)),
    h("div", {}, `partition ${row.range}`),
    h("div", {}, `${clock(from)} to ${clock(to)}`),
    pinned && keys ? copy : null);
  const at = picture.placeOf(cell);
  const box = $("map").getBoundingClientRect();
  tip.style.left = `${Math.max(4, at.x + 14 + tip.offsetWidth > box.width ? at.x - tip.offsetWidth - 14 : at.x + 14)}px`;
  tip.style.top = `${Math.min(Math.max(4, at.y + 10), Math.max(4, box.height - tip.offsetHeight - 4))}px`;
}

// --- keyboard

addEventListener("keydown", (e) => {
  if (e.target instanceof HTMLInputElement || e.ctrlKey || e.metaKey || e.altKey || !map || rows.length === 0) return;
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
  const far = e.shiftKey ? 10 : 1;
  if (move) {
    const now = cursor ?? { x: Math.min(map.now, map.columns) - 1, y: 0 };
    const clamp = (n, most) => Math.min(Math.max(n, 0), most - 1);
    pinned = false;
    point(cursor ? { x: clamp(now.x + far * move[0], map.columns), y: clamp(now.y + far * move[1], rows.length) } : now);
  } else if (e.key === "Enter" && cursor && !(e.target instanceof HTMLButtonElement)) {
    pinned = !pinned;
    point(cursor);
  } else if (e.key === "Escape") {
    if (pinned || cursor) {
      pinned = false;
      point(null);
    } else if (!whole.hidden) reset();
  } else if (e.key === "+" && cursor) {
    const [w, high] = [Math.max(1, Math.round(map.columns / 6)), Math.max(1, Math.round(rows.length / 6))];
    const part = { x0: Math.max(0, cursor.x - w), x1: Math.min(map.columns - 1, cursor.x + w),
      y0: Math.max(0, cursor.y - high), y1: Math.min(rows.length - 1, cursor.y + high) };
    change(brushed(map, rows, part));
  } else if (e.key === "[" || e.key === "]") {
    const next = state.brightness + (e.key === "]" ? 0.05 : -0.05);
    change({ brightness: Math.min(1, Math.max(0, Math.round(next * 20) / 20)) }, true);
  } else return;
  e.preventDefault();
});

system.addEventListener("change", draw);
new ResizeObserver(() => draw()).observe($("map"));
if (fragment(state) === fragment(initial())) history.replaceState(null, "", location.pathname);
show();
run();
