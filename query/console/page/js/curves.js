// What is done to curves before they are drawn: those of an earlier time beside them, the top ones of many, sums for a stack.

import { usual } from "./gaps.js";
import { summary } from "./series.js";

/**
 * beside returns curves with those of an earlier time, moved to now and named after how much earlier that is. They have
 * the colours of the curves of the same names.
 */
export function beside(curves, before, { ms, name }) {
  const at = new Map(curves.map((c, n) => [c.name, n]));
  const moved = before.map((c) => ({ ...c, ink: at.get(c.name), name: `${c.name} (${name} before)`, times: c.times.map((t) => t + ms), before: true }));
  return [...curves, ...moved];
}

/** topOf returns the curves with the highest averages, at most so many, and of all of them their number and the sum of last values. */
export function topOf(curves, most) {
  const lasts = curves.map((c) => summary(c).last).filter((v) => v !== null);
  const total = { curves: curves.length, last: lasts.reduce((a, b) => a + b, 0) };
  if (most === 0 || curves.length <= most) return { curves, total: null };
  const ranked = curves.map((c) => [summary(c).avg ?? -Infinity, c]).sort((a, b) => b[0] - a[0]);
  const kept = new Set(ranked.slice(0, most).map(([, c]) => c));
  return { curves: curves.filter((c) => kept.has(c)), total };
}

/**
 * stacked returns columns as table() has them, of which each curve's values stand on those of the curves below it. A
 * curve that is hidden counts as nothing; where one has no value it adds none.
 */
export function stacked([times, ...columns], hidden) {
  const sums = times.map(() => 0);
  const out = columns.map((column, i) => {
    if (i % 3 !== 0) return times.map(() => null); // bands of a stack would say nothing
    if (hidden.has(i / 3)) return column;
    return column.map((v, t) => (v === null || v === undefined ? v : (sums[t] += v)));
  });
  return [times, ...out];
}

/**
 * lacking returns how many curves of panels end before an instant by more than they usually do, of how many, and by how
 * much at most: {late, all, ms}; null if none does.
 */
export function lacking(panels, until) {
  const ends = panels.flatMap(({ curves, step }) => curves.filter((c) => !c.before && c.times.length > 0)
    .map((c) => ({ before: until - c.times[c.times.length - 1], most: 2.5 * Math.max(step, usual(c.times)) })));
  const late = ends.filter(({ before, most }) => before > most);
  return late.length === 0 ? null : { late: late.length, all: ends.length, ms: Math.max(...late.map((c) => c.before)) };
}
