// Holes in a curve: where values stay away for longer than they usually do.

/** usual returns the median distance of instants that are in order; 0 for less than two. */
export function usual(times) {
  if (times.length < 2) return 0;
  const distances = [];
  for (let i = 1; i < times.length; i++) distances.push(times[i] - times[i - 1]);
  distances.sort((a, b) => a - b);
  return distances[Math.floor((distances.length - 1) / 2)];
}

/**
 * gapsOf returns the holes of a curve as {from, to, open}, from its last value before to its first one behind, in ms.
 *
 * times are the instants of its values, in order, of which there is at most one in a step. A hole is a distance of
 * more than `factor` times the usual one, or the step where that is longer. `until` is where the range ends: behind the
 * last value there may be a hole that is still open. What lies before the first value is none: the device may have been
 * new.
 */
export function gapsOf(times, step, { factor = 2.5, until = null } = {}) {
  const most = factor * Math.max(step, usual(times));
  const out = [];
  for (let i = 1; i < times.length; i++) {
    if (times[i] - times[i - 1] > most) out.push({ from: times[i - 1], to: times[i], open: false });
  }
  const last = times[times.length - 1];
  if (until !== null && times.length > 1 && until - last > most) out.push({ from: last, to: until, open: true });
  return out;
}

/** united returns holes of several curves as ranges that do not overlap, in order. */
export function united(gaps) {
  const out = [];
  for (const g of [...gaps].sort((a, b) => a.from - b.from)) {
    const last = out[out.length - 1];
    if (last && g.from <= last.to) last.to = Math.max(last.to, g.to);
    else out.push({ from: g.from, to: g.to });
  }
  return out;
}

/** common returns the ranges in which all of several curves have holes. */
export function common(curves) {
  if (curves.length === 0) return [];
  return curves.map(united).reduce((a, b) => {
    const out = [];
    for (const x of a) {
      for (const y of b) {
        const from = Math.max(x.from, y.from);
        const to = Math.min(x.to, y.to);
        if (from < to) out.push({ from, to });
      }
    }
    return out;
  });
}
