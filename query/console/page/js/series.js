// Answers to curves. A curve is {name, labels, times, avg, min, max, text}: times in ms, in order; numbers or null;
// min and max are null where there is no band; text tells that there are only texts, which no chart shows.

import { bandLabel } from "./promql.js";

/** toNumber returns a value of an answer as a number: bools are 0 and 1; NaN for texts. */
export function toNumber(v) {
  if (typeof v === "number") return v;
  if (typeof v === "boolean") return v ? 1 : 0;
  if (typeof v === "bigint") return Number(v);
  if (v === "+Inf") return Infinity;
  if (v === "-Inf") return -Infinity;
  return NaN;
}

// What a chart draws of a number.
function drawn(v) {
  const n = v === undefined ? NaN : toNumber(v);
  return Number.isFinite(n) ? n : null;
}

/** fromAggregates returns the curves of an answer of /api/v1/aggregates by metric, in the order that they are given. */
export function fromAggregates(list, metrics) {
  const by = new Map(metrics.map((m) => [m, new Map()]));
  for (const a of list) {
    const labels = { device: a.device, ...a.labels };
    const key = JSON.stringify(Object.entries(labels));
    if (!by.has(a.metric)) by.set(a.metric, new Map());
    const curves = by.get(a.metric);
    if (!curves.has(key)) curves.set(key, { labels, rows: new Map(), text: true });
    const curve = curves.get(key);
    if (a.type === "text") continue;
    curve.text = false;
    const { rows } = curve;
    rows.set(a.start, joined(rows.get(a.start), a));
  }
  return [...by].map(([metric, curves]) => ({ metric, curves: named([...curves.values()].map(curveOf), metric) }));
}

// A metric may have values of two types in one bucket.
function joined(before, a) {
  const one = { min: drawn(a.min), max: drawn(a.max), avg: drawn(a.avg), count: a.count };
  if (!before || before.avg === null) return one;
  if (one.avg === null) return before;
  const count = before.count + one.count;
  return {
    count,
    min: Math.min(before.min, one.min),
    max: Math.max(before.max, one.max),
    avg: (before.avg * before.count + one.avg * one.count) / count,
  };
}

function curveOf({ labels, rows, text }) {
  const sorted = [...rows].sort((a, b) => a[0] - b[0]);
  return {
    labels,
    text,
    times: sorted.map(([t]) => t),
    avg: sorted.map(([, r]) => r.avg),
    min: sorted.map(([, r]) => r.min),
    max: sorted.map(([, r]) => r.max),
  };
}

/**
 * fromMatrix returns the curves of an answer of query_range; those of a band become one. name is that of a curve
 * without labels.
 */
export function fromMatrix(result, name = "value") {
  const curves = new Map();
  for (const { metric, values } of result) {
    const { [bandLabel]: band = "avg", ...labels } = metric;
    const key = JSON.stringify(Object.entries(labels).sort());
    if (!curves.has(key)) curves.set(key, { labels });
    curves.get(key)[band] = new Map(values.map(([t, v]) => [Math.round(t * 1e3), drawn(numeral(v))]));
  }
  return named(
    [...curves.values()].map(({ labels, avg = new Map(), min, max }) => {
      const times = [...avg.keys()];
      const edge = (of) => times.map((t) => of?.get(t) ?? null);
      return { labels, text: false, times, avg: [...avg.values()], min: edge(min), max: edge(max) };
    }),
    name,
  );
}

/** numeral returns the number that PromQL writes as a string. */
export function numeral(text) {
  if (text === "+Inf") return Infinity;
  return text === "-Inf" ? -Infinity : Number(text);
}

/** named gives curves the shortest names that tell them apart: the values of those labels in which they differ. */
export function named(curves, metric = "") {
  const all = new Set(curves.flatMap((c) => Object.keys(c.labels)));
  const differing = [...all].filter((l) => new Set(curves.map((c) => c.labels[l])).size > 1);
  const device = differing.includes("device");
  // The tags of a device say no more than its name does, unless one name has several curves.
  const enough = device && new Set(curves.map((c) => c.labels.device)).size === curves.length ? ["device"] : differing;
  for (const c of curves) {
    const shown = enough.filter((l) => c.labels[l] !== undefined);
    c.name =
      shown.length === 0
        ? nameOf(c.labels) || metric || "value"
        : shown.map((l) => (l === "device" || l === "__name__" ? c.labels[l] : `${l}=${c.labels[l]}`)).join(" ");
  }
  const order = new Intl.Collator("en", { numeric: true });
  return curves.sort((a, b) => order.compare(a.name, b.name));
}

function nameOf({ __name__: name, ...labels }) {
  if (labels.device !== undefined) return labels.device;
  const rest = Object.entries(labels)
    .map(([l, v]) => `${l}=${v}`)
    .join(" ");
  return [name, rest].filter(Boolean).join(" ");
}

/** summary returns last, least, greatest and average of what a curve shows. */
export function summary({ avg, min, max }) {
  const shown = avg.filter((v) => v !== null);
  if (shown.length === 0) return { last: null, min: null, max: null, avg: null };
  const least = (a, b) => Math.min(a, b);
  const most = (a, b) => Math.max(a, b);
  // Where there is a band its edges count: an average may lie beyond them by a digit that floats do not have.
  const edge = (of) => avg.map((v, i) => of[i] ?? v).filter((v) => v !== null);
  return {
    last: shown[shown.length - 1],
    min: edge(min).reduce(least),
    max: edge(max).reduce(most),
    avg: shown.reduce((a, b) => a + b) / shown.length,
  };
}

/**
 * table returns curves as columns over one axis of time, in seconds: avg, max and min of each by turns. Where a curve
 * has no value it is undefined, which a line crosses; within its gaps it is null, where a line ends.
 */
export function table(curves, gaps) {
  const middle = (g) => Math.round((g.from + g.to) / 2);
  const axis = new Set(curves.flatMap((c) => c.times));
  for (const g of gaps.flat()) if (!g.open) axis.add(middle(g));
  const times = [...axis].sort((a, b) => a - b);
  const at = new Map(times.map((t, i) => [t, i]));
  const columns = curves.flatMap((c, n) =>
    ["avg", "max", "min"].map((of) => {
      const column = new Array(times.length).fill(undefined);
      c.times.forEach((t, i) => {
        column[at.get(t)] = c[of][i];
      });
      for (const g of gaps[n]) {
        if (!g.open) times.forEach((t, i) => t > g.from && t < g.to && (column[i] = null));
      }
      return column;
    }),
  );
  return [times.map((t) => t / 1e3), ...columns];
}

/** csv returns curves as a table: a line an instant and curve. */
export function csv(panels) {
  const cell = (v) =>
    v === null || v === undefined ? "" : /[",\n\r]/.test(v) ? `"${String(v).replace(/"/g, '""')}"` : String(v);
  const lines = ["time,panel,series,value,min,max"];
  for (const { title, curves } of panels) {
    for (const c of curves) {
      c.times.forEach((t, i) =>
        lines.push([new Date(t).toISOString(), title, c.name, c.avg[i], c.min[i], c.max[i]].map(cell).join(",")),
      );
    }
  }
  return lines.join("\n") + "\n";
}
