// Which requests answer what the page shows. A request is {path, parameters, post}: parameters are pairs of a name and
// a value, in order.

import { length } from "./format.js";
import { banded, bandLabel, expanded, label, letterOf, line, matchers, over, selector } from "./promql.js";
import { aligned, stepFor } from "./time.js";

const range = "/prometheus/api/v1/query_range";

// How many devices have a curve each before they are put together, unless the state says how; and at most.
const fewDevices = 8;
const mostDevices = 50;

// What one chart has at most.
const mostSeries = 100;

// Of how many curves the top ones are chosen at most.
const mostRanked = 1000;

// A URL beyond this length goes as a form.
const longURL = 2000;

/** matches reports whether a device of the catalog has what the matchers and the list of devices ask for. */
export function matches(device, { match, devices }) {
  if (devices.length > 0 && !devices.includes(device.device)) return false;
  return match.every((m) => {
    const value = m.label === "device" ? device.device : (device.tags[m.label] ?? "");
    if (m.op === "=") return value === m.value;
    if (m.op === "!=") return value !== m.value;
    const pattern = expression(m.value);
    return pattern === null || pattern.test(value) === (m.op === "=~");
  });
}

/** expression returns a regular expression that matches whole texts, as PromQL's do; null if it is none. */
export function expression(text) {
  try {
    return new RegExp(`^(?:${text})$`, "su");
  } catch {
    return null;
  }
}

/**
 * charts returns what to ask for the charts of a state: {panels, step, range, by, all, left}. A panel is {title,
 * promql, request}; panels that share a request have the same one. `catalog` is {devices, truncated}, `width` the
 * number of points that a chart has room for.
 */
export function charts(state, catalog, { from, to }, width) {
  const step = state.step || stepFor(to - from, Math.max(60, Math.min(600, width)));
  const span = aligned({ from, to }, step);
  const asked = { from: span.from, to }; // no step lies in the future
  if (state.q.trim() !== "") {
    const typed = [state.q, ...state.also].filter((q) => q.trim() !== "");
    const panels = expanded(typed).map((promql, n) => {
      const title = typed.length > 1 ? `${letterOf(n)}: ${typed[n]}` : "";
      return { title, promql, request: ranged(promql, asked, step, state.top > 0 ? mostRanked : mostSeries) };
    });
    return { panels, step, range: span, by: "", all: "value", left: 0 };
  }
  const found = catalog.devices.filter((d) => matches(d, state) && state.metrics.some((m) => d.metrics.includes(m)));
  const by = state.by || (found.length <= fewDevices && !catalog.truncated ? "device" : "all");
  if (by === "device") return each(state, found, catalog, span, step);
  const window = step >= 60e3 ? step : 0;
  const panels = state.metrics.map((metric) => {
    const selected = selector([metric], matchers(state));
    const query = banded(state.agg, by, selected, window);
    const most = state.top > 0 ? mostRanked : mostSeries;
    return { title: metric, promql: line(state.agg, by, selected, window), request: ranged(query, asked, step, most) };
  });
  return { panels, step, range: span, by, all: `${state.agg} of all devices`, left: 0 };
}

// A curve for each device: one request for all metrics, with the least and the greatest value of each step.
function each(state, found, catalog, span, step) {
  const narrowed = state.match.length + state.devices.length > 0;
  // Keys that are named cost less than all there are, where only some devices have the metrics.
  const some = found.length > 0 && found.length < catalog.devices.length;
  const named = some || found.length > mostDevices || narrowed || catalog.truncated;
  const shown = found.slice(0, state.top > 0 ? mostRanked : mostDevices);
  const parameters = [
    ...(named ? shown.map((d) => ["device", d.device]) : []),
    ...state.metrics.map((m) => ["metric", m]),
    ["from", span.from],
    ["to", span.to],
    ["step", length(step)],
    ["limit", Math.max(10_000, shown.length * state.metrics.length * Math.ceil((span.to - span.from) / step) * 2)],
  ];
  const request = shown.length > 0 || !narrowed ? toRequest("/api/v1/aggregates", parameters) : null;
  const window = step >= 60e3 ? step : 0;
  const panels = state.metrics.map((metric) => ({
    title: metric,
    request,
    promql: over("avg", selector([metric], matchers(state)), window),
  }));
  return { panels, step, range: span, by: "device", left: found.length - shown.length };
}

function ranged(query, { from, to }, step, most) {
  return toRequest(range, [
    ["query", query],
    ["start", from / 1e3],
    ["end", to / 1e3],
    ["step", step / 1e3],
    ["limit", most * (query.includes(bandLabel) ? 3 : 1)],
  ]);
}

/** latest returns what to ask for the table of newest values of a state. */
export function latest(state, catalog, { from, to }, limit) {
  if (state.q.trim() !== "") {
    return toRequest("/prometheus/api/v1/query", [
      ["query", state.q],
      ["time", to / 1e3],
      ["limit", limit],
    ]);
  }
  const narrowed = state.match.length + state.devices.length > 0;
  const found = catalog.devices.filter((d) => matches(d, state)).slice(0, 1000);
  if (narrowed && found.length === 0) return null;
  return toRequest("/api/v1/latest", [
    ...(narrowed ? found.map((d) => ["device", d.device]) : []),
    ...state.metrics.map((m) => ["metric", m]),
    ["from", from],
    ["to", to],
    ["limit", limit],
  ]);
}

/** readings returns the request for what was sent, as CSV, of what a state has picked. */
export function readings(state, catalog, { from, to }) {
  const narrowed = state.match.length + state.devices.length > 0;
  const found = narrowed ? catalog.devices.filter((d) => matches(d, state)).slice(0, 1000) : [];
  return toRequest("/api/v1/readings", [
    ...found.map((d) => ["device", d.device]),
    ...state.metrics.map((m) => ["metric", m]),
    ["from", from],
    ["to", to],
    ["format", "csv"],
  ]);
}

/**
 * picked returns one PromQL query for what is picked, as the box shows it; "" if nothing is. Several metrics are told
 * apart by their names, which values over a window would lose: they are the newest ones at each step.
 */
export function picked(state, { panels, by }) {
  if (state.metrics.length < 2) return panels[0]?.promql ?? "";
  const selected = selector(state.metrics, matchers(state));
  if (by === "device") return selected;
  return `${state.agg} by (${["__name__", ...(by === "all" ? [] : [label(by)])].join(", ")}) (${selected})`;
}

/** earlier returns a request for a range that lies so many ms before. */
export function earlier(request, ms) {
  const by = { from: ms, to: ms, start: ms / 1e3, end: ms / 1e3 };
  return { ...request, parameters: request.parameters.map(([n, v]) => [n, n in by ? v - by[n] : v]) };
}

/** toRequest returns a request, which is a POST if its URL were long. */
export function toRequest(path, parameters) {
  const devices = parameters.filter(([name]) => name === "device").length;
  return { path, parameters, post: devices > 100 || path.length + encoded(parameters).length > longURL };
}

/** encoded returns parameters as a query string or a form. */
export function encoded(parameters) {
  return new URLSearchParams(parameters.map(([n, v]) => [n, String(v)])).toString();
}

/** curl returns a request as a command. A token is named, not written. */
export function curl(request, origin, { tenant, token }) {
  const first = ["curl --compressed", ...(request.post ? [] : ["-G"])];
  if (token) first.push(`-H "Authorization: Bearer $BINNACLE_TOKEN"`);
  if (tenant) first.push(`-H ${shell("X-Scope-OrgID: " + tenant)}`);
  const parts = [first.join(" "), shell(origin + request.path)];
  for (const [name, value] of request.parameters) parts.push(`--data-urlencode ${shell(`${name}=${value}`)}`);
  return parts.join(" \\\n  ");
}

/** shell returns a text as one word of a POSIX shell. */
export function shell(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}
