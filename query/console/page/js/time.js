// Ranges of time: what is offered, what a state means at an instant, steps that fit a chart.

import { length } from "./format.js";

const unit = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

/** presets are the ranges that end now. */
export const presets = ["5m", "15m", "1h", "3h", "6h", "12h", "1d", "2d", "7d", "30d"];

/** refreshes lists the intervals of automatic refresh, in seconds; 0 is off. */
export const refreshes = [0, 5, 10, 30, 60, 300];

// Steps that people can count in.
const steps = [
  1e3,
  2e3,
  5e3,
  10e3,
  15e3,
  30e3,
  60e3,
  120e3,
  300e3,
  600e3,
  900e3,
  1800e3,
  3600e3,
  2 * 3600e3,
  3 * 3600e3,
  6 * 3600e3,
  12 * 3600e3,
  86400e3,
  7 * 86400e3,
];

/** duration returns the milliseconds of a length such as 90s or 1h30m; NaN if it is none. */
export function duration(text) {
  if (!/^(\d+(ms|s|m|h|d))+$/.test(text)) return NaN;
  let sum = 0;
  for (const [, n, u] of text.matchAll(/(\d+)(ms|s|m|h|d)/g)) sum += Number(n) * unit[u];
  return sum;
}

/** rangeOf returns from and to, in milliseconds, of a state at an instant. */
export function rangeOf(state, now) {
  if (state.from !== null && state.to !== null) return { from: state.from, to: state.to, absolute: true };
  return { from: now - duration(state.range), to: now, absolute: false };
}

/** stepFor returns the shortest step that is offered of which at most so many fit into a range. */
export function stepFor(span, most) {
  return steps.find((s) => span / s <= most) ?? Math.ceil(span / most / 86400e3) * 86400e3;
}

/** ticksOf returns the round instants of a range, of this place or of UTC, so many or fewer: {t, text}. Midnight is a date. */
export function ticksOf({ from, to }, most, utc) {
  const every = stepFor(to - from, Math.max(1, most));
  const shift = utc ? 0 : -new Date(from).getTimezoneOffset() * 60e3;
  const out = [];
  for (let t = Math.ceil((from + shift) / every) * every - shift; t < to; t += every) {
    const iso = new Date(t + shift).toISOString();
    const midnight = (t + shift) % 86400e3 === 0;
    out.push({ t, text: midnight ? iso.slice(5, 10) : iso.slice(11, every >= 60e3 ? 16 : 19) });
  }
  return out;
}

/** aligned widens a range to whole steps, so that one that moves on asks for the same buckets again. */
export function aligned({ from, to }, step) {
  return { from: Math.floor(from / step) * step, to: Math.ceil(to / step) * step };
}

/** zoomed returns the range around an instant that is so many times as long; never shorter than ten seconds. */
export function zoomed({ from, to }, around, factor) {
  const span = Math.max(10e3, (to - from) * factor);
  const share = to > from ? (around - from) / (to - from) : 0.5;
  const start = Math.round(around - span * share);
  return { from: Math.max(0, start), to: Math.max(0, start) + Math.round(span) };
}

/** named returns what a range is called. */
export function named(state, instant) {
  if (state.from !== null && state.to !== null) return `${instant(state.from)} to ${instant(state.to)}`;
  return `Last ${spoken(state.range)}`;
}

/** spoken returns a length as one says it: "15 minutes". */
export function spoken(text) {
  const ms = duration(text);
  for (const [size, name] of [
    [86400e3, "day"],
    [3600e3, "hour"],
    [60e3, "minute"],
    [1e3, "second"],
  ]) {
    if (ms >= size && ms % size === 0) return ms === size ? `1 ${name}` : `${ms / size} ${name}s`;
  }
  return length(ms);
}

/** typed returns the instant that a field of date and time holds, of this place or of UTC; NaN if it is none. */
export function typed(text, utc) {
  return text === "" ? NaN : Date.parse(utc ? text + "Z" : text);
}

/** fieldOf returns an instant as a field of date and time holds it. */
export function fieldOf(ms, utc) {
  const t = new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60e3);
  return t.toISOString().slice(0, 19);
}
