// How numbers, instants, lengths of time and charges are written. It knows nothing of the page.

/** number returns a value as a person reads it: six significant digits at most; integers below 1e17 and bigints whole. */
export function number(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v === "bigint") return v.toString();
  if (typeof v !== "number") return String(v);
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "+Inf" : "−Inf";
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e17) return minus(String(v));
  if (size !== 0 && (size >= 1e15 || size < 1e-4)) return minus(v.toExponential(5).replace(/\.?0*e\+?/, "e"));
  if (size >= 1e8) return minus(String(Math.round(v)));
  return minus(String(Number(v.toPrecision(size >= 1e6 ? 9 : 6))));
}

function minus(text) {
  return text.replace(/^-/, "−");
}

const multiples = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/**
 * ticks returns the labels of an axis: with k, M, G and T from 10,000 on where that keeps neighbours apart, else with all
 * their digits. A split that is null has no label.
 */
export function ticks(splits) {
  const values = splits.filter((v) => v !== null);
  const most = Math.max(0, ...values.map(Math.abs));
  const [unit, sign] = most < 1e4 || most >= 1e15 ? [1, ""] : multiples.find(([u]) => most >= u);
  for (const scaled of [(v) => number(Number((v / unit).toPrecision(6))) + (v === 0 ? "" : sign), number, String]) {
    const labels = values.map(scaled);
    if (new Set(labels).size === new Set(values).size) return splits.map((v) => (v === null ? "" : scaled(v)));
  }
  return splits.map((v) => (v === null ? "" : String(v)));
}

/** parts returns a name in two: what may be cut, and the end that is always shown. */
export function parts(name) {
  const end = Math.min(12, Math.floor(name.length / 2));
  return name.length <= 24 ? [name, ""] : [name.slice(0, -end), name.slice(-end)];
}

const lengths = [
  [86400e3, "d"],
  [3600e3, "h"],
  [60e3, "m"],
  [1e3, "s"],
];

/** length returns a length of time as PromQL and the API spell it: 90000 is "1m30s". */
export function length(ms) {
  let out = "";
  let rest = Math.round(ms);
  for (const [unit, sign] of lengths) {
    const n = Math.floor(rest / unit);
    if (n > 0) out += n + sign;
    rest -= n * unit;
  }
  return out + (rest > 0 || out === "" ? `${rest}ms` : "");
}

/** roughly returns a length of time in its largest unit, hours and days with what is left over: "3 min", "1 h 27 min". */
export function roughly(ms) {
  const units = [
    [86400e3, "day", "days"],
    [3600e3, "h"],
    [60e3, "min"],
    [1e3, "s"],
  ];
  const at = units.findIndex(([unit]) => ms >= unit);
  if (at < 0) return `${Math.max(0, Math.round(ms))} ms`;
  const said = (n, [, one, many = one]) => `${n} ${n === 1 ? one : many}`;
  const n = Math.floor(ms / units[at][0]);
  const left = at < 2 && n < 10 ? Math.floor((ms - n * units[at][0]) / units[at + 1][0]) : 0;
  return said(n, units[at]) + (left > 0 ? " " + said(left, units[at + 1]) : "");
}

/** usually returns the length of a usual interval, which is an average, without digits that say nothing: "30s". */
export function usually(ms) {
  const digit = ms < 1e3 ? 1 : ms < 1e4 ? 100 : 1e3;
  return length(Math.round(ms / digit) * digit);
}

/** ago returns how long before now an instant was. */
export function ago(ms, now) {
  return ms > now ? `in ${roughly(ms - now)}` : now - ms < 1000 ? "now" : `${roughly(now - ms)} ago`;
}

/** instant returns a time as 2026-11-22 10:00:00, of this place or of UTC, with milliseconds if it has some. */
export function instant(ms, utc) {
  const t = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  const [y, mo, d, h, mi, s, f] = utc
    ? [
        t.getUTCFullYear(),
        t.getUTCMonth(),
        t.getUTCDate(),
        t.getUTCHours(),
        t.getUTCMinutes(),
        t.getUTCSeconds(),
        t.getUTCMilliseconds(),
      ]
    : [t.getFullYear(), t.getMonth(), t.getDate(), t.getHours(), t.getMinutes(), t.getSeconds(), t.getMilliseconds()];
  const rest = f ? "." + String(f).padStart(3, "0") : "";
  return `${y}-${two(mo + 1)}-${two(d)} ${two(h)}:${two(mi)}:${two(s)}${rest}`;
}

/** charge returns request units: "2.9 RU". */
export function charge(rus) {
  const text = rus >= 100 ? Math.round(rus).toLocaleString("en") : String(Number(rus.toFixed(rus < 10 ? 2 : 1)));
  return `${text} RU`;
}

/** count returns how many of a thing there are: "1 document", "1,200 documents". */
export function count(n, one, many = one + "s") {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** incomplete says what an answer may lack, of the reasons that the service gives, without the names of partitions. */
export function incomplete(why) {
  const of = (pattern) => why.filter((w) => pattern.test(w)).length;
  const said = [];
  const silent = of(/^no ingester answers for partition/);
  const behind = of(/^partition \S+ is (being replayed|behind)/);
  const missing = "Readings that are not stored yet may be missing";
  const answer = why.map((w) => w.match(/^not all ingesters answer: (\d+ of \d+)$/)?.[1]).find(Boolean);
  if (silent > 0) said.push(`${missing}: no ingester answers for ${count(silent, "partition")}${answer ? `, ${answer} answer` : ""}.`);
  if (behind > 0) said.push(`The newest readings of ${count(behind, "partition")} follow: an ingester is catching up.`);
  const known = /^(no ingester answers for partition|partition \S+ is (being replayed|behind)|not all ingesters answer)/;
  const rest = why.filter((w) => !known.test(w)).map((w) => w.replace(/^partition \S+: /, ""));
  if (said.length + rest.length === 0) said.push(`${missing}: ${answer ? `${answer} ingesters` : "not all ingesters"} answer.`);
  return [...said, ...new Set(rest)];
}
