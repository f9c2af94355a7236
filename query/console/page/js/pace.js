// How often devices report, and which of them are silent by their own measure. It knows nothing of the page.

/** A device is silent after so many of its usual intervals, and after so long a time at least. */
export const patience = { intervals: 3, least: 30e3 };

/** window is how far back readings are counted to learn an interval, in ms. */
export const window = 86400e3;

// How many metrics of a device are counted: one alone may be reported less often than the others.
const each = 3;

/**
 * cover returns metrics of which nearly every device has three, or all that it has, at most so many. Those of the most
 * devices come first; those in `last`, such as positions, are taken only where there are no others. Texts do not count:
 * PromQL, which counts readings, has none.
 */
export function cover(devices, metrics, { most = 8, last = [] } = {}) {
  const numeric = metrics.filter((m) => m.types.some((t) => t !== "text")).sort((a, b) => b.devices - a.devices);
  const ranked = [...numeric.filter((m) => !last.includes(m.metric)), ...numeric.filter((m) => last.includes(m.metric))];
  const lacking = new Map(devices.map((d) => [d, each]));
  const out = [];
  for (const { metric } of ranked) {
    if (lacking.size === 0 || out.length === most) break;
    const having = [...lacking.keys()].filter((d) => d.metrics.includes(metric));
    if (having.length === 0) continue;
    out.push(metric);
    for (const d of having) {
      if (lacking.get(d) === 1) lacking.delete(d);
      else lacking.set(d, lacking.get(d) - 1);
    }
  }
  return out;
}

/**
 * paces returns the usual interval of each device that has one, in ms, by its name. counts has how many readings a
 * metric of a device had from `from` until `to`; with several metrics the most. The time until its last reading counts,
 * so that a silence does not make its interval longer.
 */
export function paces(devices, counts, { from, to }) {
  const out = new Map();
  for (const { device, first, last } of devices) {
    const n = counts.get(device) ?? 0;
    const span = Math.min(last, to) - Math.max(first, from);
    if (n >= 3 && span > 0) out.set(device, span / (n - 1));
  }
  return out;
}

/**
 * silences returns of each device {device, last, silent, pace, times, state}: for how long it has been silent at an
 * instant, its interval, 0 if it is not known, how many times that interval the silence is, and "reports", "silent" or
 * "unknown". Without an interval a device counts as silent after a day.
 */
export function silences(devices, pace, now) {
  return devices.map((d) => {
    const silent = Math.max(0, now - d.last);
    const usual = pace.get(d.device) ?? 0;
    const state =
      usual > 0
        ? silent > Math.max(patience.least, patience.intervals * usual)
          ? "silent"
          : "reports"
        : silent > window
          ? "silent"
          : "unknown";
    return { ...d, silent, pace: usual, times: usual > 0 ? silent / usual : 0, state };
  });
}

/** byTag returns how many devices of each value of a tag there are, report and are silent; the most silent first. */
export function byTag(rows, tag) {
  const found = new Map();
  for (const r of rows) {
    const value = r.tags[tag] ?? "";
    if (!found.has(value)) found.set(value, { value, devices: 0, reports: 0, silent: 0, unknown: 0 });
    const one = found.get(value);
    one.devices++;
    one[r.state]++;
  }
  return [...found.values()].sort((a, b) => b.silent - a.silent || b.devices - a.devices);
}

/** tagOf returns the tag that divides devices best: of those that most devices have the one with the fewest values. */
export function tagOf(rows) {
  const found = new Map();
  for (const { tags } of rows) {
    for (const [tag, value] of Object.entries(tags)) {
      if (!found.has(tag)) found.set(tag, { tag, devices: 0, values: new Set() });
      found.get(tag).devices++;
      found.get(tag).values.add(value);
    }
  }
  const most = Math.max(0, ...[...found.values()].map((t) => t.devices));
  const wide = [...found.values()].filter((t) => t.devices >= most * 0.9);
  const rank = (t) => (t.values.size < 2 ? Infinity : t.values.size);
  return wide.sort((a, b) => rank(a) - rank(b) || (a.tag < b.tag ? -1 : 1))[0]?.tag ?? "";
}
