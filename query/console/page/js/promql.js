// PromQL of what is picked.

import { length } from "./format.js";

const plainName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const plainLabel = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const words = new Set([
  "and",
  "or",
  "unless",
  "by",
  "without",
  "on",
  "ignoring",
  "group_left",
  "group_right",
  "offset",
  "bool",
  "sum",
  "avg",
  "min",
  "max",
  "count",
  "group",
  "stddev",
  "stdvar",
  "topk",
  "bottomk",
  "quantile",
  "count_values",
  "start",
  "end",
  "inf",
  "nan",
  "limitk",
  "limit_ratio",
  "atan2",
]);

/** quoted returns a string of PromQL. */
export function quoted(text) {
  const escaped = text.replace(
    /[\\"\n\r\t]/g,
    (c) => ({ "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t" })[c],
  );
  return `"${escaped}"`;
}

/** literal returns a regular expression that matches just this text. */
export function literal(text) {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}

/** oneOf returns a regular expression for a list of texts. */
export function oneOf(texts) {
  return texts.map(literal).join("|");
}

/**
 * faultAt returns where a query is wrong, of a message such as "1:5: parse error: …": {line, from, to}, line as a text and
 * the part of it that is meant; null where the message has no place.
 */
export function faultAt(query, message) {
  const m = /(?:^|\s)(\d+):(\d+): parse error/.exec(message);
  if (!m) return null;
  const line = query.split("\n")[Number(m[1]) - 1];
  if (line === undefined) return null;
  const from = Math.min(Number(m[2]) - 1, line.length);
  const word = /^(?:\w+|"[^"]*"?|'[^']*'?|[^\s])/.exec(line.slice(from));
  return { line, from, to: from + (word ? word[0].length : 0) };
}

/** matchers returns the matchers of what is picked of devices: those of labels, then the devices one by one. */
export function matchers({ match, devices }) {
  const out = match.filter((m) => m.label !== "");
  if (devices.length === 1) return [...out, { label: "device", op: "=", value: devices[0] }];
  if (devices.length > 1) return [...out, { label: "device", op: "=~", value: oneOf(devices) }];
  return out;
}

/** selector returns the selector of metrics under matchers. */
export function selector(metrics, matching) {
  const inside = matching.map((m) => label(m.label) + m.op + quoted(m.value));
  let name = "";
  if (metrics.length === 1) {
    if (plainName.test(metrics[0]) && !words.has(metrics[0].toLowerCase())) name = metrics[0];
    else inside.unshift(quoted(metrics[0]));
  } else if (metrics.length > 1) inside.unshift(`__name__=~${quoted(oneOf(metrics))}`);
  return inside.length || !name ? `${name}{${inside.join(", ")}}` : name;
}

/** label returns a label's name as PromQL spells it. */
export function label(name) {
  return plainLabel.test(name) ? name : quoted(name);
}

// One curve of several series: by a label, or over all of them if that is "all".
function grouped(agg, by, inner) {
  return by === "all" ? `${agg}(${inner})` : `${agg} by (${label(by)}) (${inner})`;
}

/** over returns the values of a selector in a window that ends at each step; with none the newest value. */
export function over(how, selected, window) {
  return window ? `${how}_over_time(${selected}[${length(window)}])` : selected;
}

/** bandLabel tells the three curves of a band apart. */
export const bandLabel = "__band";

/**
 * banded returns what a panel over many devices asks for: their aggregate, and the least and the greatest value of any
 * of them, told apart by the label bandLabel. With a window each is of all values in it. A sum and a count have no
 * band: it would be of another scale.
 */
export function banded(agg, by, selected, window) {
  if (agg !== "avg") return line(agg, by, selected, window);
  return ["avg", "min", "max"].map((how) => mark(line(how, by, selected, window), how)).join("\nor ");
}

/** line returns one curve of many devices: of the values of one device in a window it takes the average first. */
export function line(agg, by, selected, window) {
  return grouped(agg, by, over(agg === "min" || agg === "max" ? agg : "avg", selected, window));
}

function mark(query, name) {
  return `label_replace(${query}, "${bandLabel}", "${name}", "", "")`;
}

/** letterOf returns the name of the nth query: A, B and on. */
export function letterOf(n) {
  return String.fromCharCode(65 + n);
}

/**
 * expanded returns queries, each with those before it in the place of their letters: of avg(x), 2 and A / B the last is
 * (avg(x)) / (2). A letter in quotes, in braces, or as a part of a name is none.
 */
export function expanded(queries) {
  const out = [];
  for (const query of queries) {
    const token = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|#[^\n]*|\{(?:"(?:[^"\\]|\\.)*"|[^}"])*\}|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|[A-Za-z_:][\w:]*/g;
    out.push(
      query.replace(token, (word) => {
        const n = /^[A-Z]$/.test(word) ? word.charCodeAt(0) - 65 : -1;
        return n >= 0 && n < out.length ? `(${out[n]})` : word;
      }),
    );
  }
  return out;
}
