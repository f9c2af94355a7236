// What the page shows, and its form in the fragment of the URL: a link shows the same again. Credentials are no part of
// it; the tenant's name is.

import { duration, refreshes } from "./time.js";

/** operators are those of matchers. */
export const operators = ["=", "!=", "=~", "!~"];

/** aggregations are how many devices become one curve. */
export const aggregations = ["avg", "sum", "min", "max", "count"];

const views = ["chart", "latest", "json", "explain"];

/** draws are how a chart shows its curves. */
export const draws = ["lines", "stack", "heat"];

/** tops are how many curves are kept of many, 0 for all. */
export const tops = [0, 5, 10, 20, 50];

/** orders are those of Fleet's strip: by name, by value, by silence. */
export const orders = ["device", "value", "silent"];

/** sortable are the columns that tables are sorted by: of Latest, and of legends. */
export const sortable = { sort: ["Device", "Metric", "Value", "Age", "Labels"], legend: ["Curve", "last", "min", "avg", "max"] };

// A link has so many hidden curves; with more they stay hidden as long as the page.
const mostHidden = 50;

/** shifts are how much earlier the time is that a chart is compared with; "" is none. */
export const shifts = ["", "1h", "1d", "7d", "30d"];

/** rooms are the parts of the page: what all devices do, what one does, and charts of what is asked. */
export const rooms = ["fleet", "device", "explore"];

// Reports of Fleet that read chunks, and so are made when they are asked for.
const looks = ["gaps", "late"];

/** initial returns the state of a page that nobody has touched. */
export function initial() {
  return {
    tenant: "",
    room: "fleet",
    look: "", // a report of Fleet: "gaps" or "late"
    metrics: [],
    devices: [], // picked one by one; none: all that match
    match: [], // {label, op, value}
    by: "", // "": by how many there are; "device", "all", or the name of a tag
    agg: "avg",
    also: [], // further PromQL queries, B and on, which may name those before
    draw: "lines",
    log: false,
    low: null, // fixed ends of the axis of values
    high: null,
    top: 0,
    versus: "", // how much earlier
    q: "", // PromQL that was typed; "" follows what is picked
    range: "15m",
    from: null, // both, or neither
    to: null,
    step: 0, // ms, 0 by itself
    refresh: 0, // s
    view: "chart",
    order: "device", // of Fleet's strip
    sort: "", // of Latest, a column, with - the greatest first
    legend: "", // of legends, the same
    hide: [], // curves that are hidden, each as its panel, a line end and its name
    utc: false,
  };
}

// implied returns the room of a link that names none: links of before there were rooms are charts.
function implied({ metrics, devices, match, by, q, view }) {
  const asked = metrics.length + devices.length + match.length > 0 || by !== "" || q !== "" || view !== "chart";
  return asked ? "explore" : "fleet";
}

/** parse reads the fragment of a URL, with or without #. What it does not understand is as if it were not there. */
export function parse(fragment) {
  const p = new URLSearchParams(fragment.replace(/^#/, ""));
  const s = initial();
  s.tenant = p.get("tenant") ?? "";
  s.metrics = [...new Set(p.getAll("metric").filter(Boolean))];
  s.devices = [...new Set(p.getAll("device").filter(Boolean))];
  s.match = p.getAll("match").map(matcherOf).filter(Boolean);
  s.by = p.get("by") ?? "";
  if (aggregations.includes(p.get("agg"))) s.agg = p.get("agg");
  s.q = p.get("q") ?? "";
  s.also = s.q === "" ? [] : p.getAll("also").slice(0, mostAlso);
  if (draws.includes(p.get("draw"))) s.draw = p.get("draw");
  s.log = p.get("log") === "1";
  s.low = numeric(p.get("low"));
  s.high = numeric(p.get("high"));
  if (s.low !== null && s.high !== null && s.low >= s.high) s.low = s.high = null;
  if (tops.includes(Number(p.get("top")))) s.top = Number(p.get("top"));
  if (shifts.includes(p.get("versus"))) s.versus = p.get("versus");
  if (duration(p.get("range") ?? "") > 0) s.range = p.get("range");
  const from = epoch(p.get("from"));
  const to = epoch(p.get("to"));
  if (from !== null && to !== null && from < to) Object.assign(s, { from, to });
  s.step = duration(p.get("step") ?? "") || 0;
  if (refreshes.includes(Number(p.get("refresh")))) s.refresh = Number(p.get("refresh"));
  if (views.includes(p.get("view"))) s.view = p.get("view");
  s.utc = p.get("utc") === "1";
  if (looks.includes(p.get("look"))) s.look = p.get("look");
  if (orders.includes(p.get("order"))) s.order = p.get("order");
  for (const table of ["sort", "legend"]) if (orderOf(p.get(table) ?? "", table)) s[table] = p.get(table);
  s.hide = p.getAll("hide").filter((h) => h.includes("\n")).slice(0, mostHidden);
  s.room = rooms.includes(p.get("room")) ? p.get("room") : implied(s);
  return s;
}

/** mostAlso is how many queries there are at most beside the first. */
export const mostAlso = 4;

function numeric(text) {
  return text === null || text.trim() === "" || !Number.isFinite(Number(text)) ? null : Number(text);
}

/** orderOf returns the order {column, down} of a table, spelled such as -Age; null if it has no such column. */
export function orderOf(text, table) {
  const down = text.startsWith("-");
  const column = down ? text.slice(1) : text;
  return sortable[table].includes(column) ? { column, down } : null;
}

/** epoch returns the milliseconds since 1970 of a number in seconds, milliseconds, microseconds or nanoseconds, which its
 * magnitude decides, as the API does; null if it is none. */
export function epoch(text) {
  if (text === null || !/^\d{1,19}$/.test(text)) return null;
  const n = Number(text);
  if (n < 1e11) return n * 1e3;
  if (n < 2.5e14) return n;
  return Math.floor(n / (n < 2.5e17 ? 1e3 : 1e6));
}

/** matcherOf reads a matcher such as fleet=~"East|West", without quotes; null if it is none. */
export function matcherOf(text) {
  const m = /^([^=!~]+)(=~|!~|!=|=)([^]*)$/.exec(text);
  return m && { label: m[1], op: m[2], value: m[3] };
}

/** fragment returns the fragment of a state, without #: what is as initially is left out. */
export function fragment(s, { length }) {
  const p = new URLSearchParams();
  const start = initial();
  const put = (name, value) => value !== start[name] && p.append(name, value);
  put("tenant", s.tenant);
  if (s.room !== implied(s)) p.append("room", s.room);
  put("look", s.look);
  for (const m of s.metrics) p.append("metric", m);
  for (const d of s.devices) p.append("device", d);
  for (const m of s.match) p.append("match", m.label + m.op + m.value);
  put("by", s.by);
  put("agg", s.agg);
  put("q", s.q);
  for (const q of s.q === "" ? [] : s.also) p.append("also", q);
  for (const name of ["draw", "low", "high", "top", "versus"]) put(name, s[name]);
  if (s.log) p.append("log", "1");
  if (s.from !== null) {
    p.append("from", s.from);
    p.append("to", s.to);
  } else put("range", s.range);
  if (s.step) p.append("step", length(s.step));
  put("refresh", s.refresh);
  put("view", s.view);
  for (const name of ["order", "sort", "legend"]) put(name, s[name]);
  for (const h of s.hide.length > mostHidden ? [] : s.hide) p.append("hide", h);
  if (s.utc) p.append("utc", "1");
  return p.toString();
}
