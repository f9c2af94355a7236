// Completion of PromQL: what may stand at the caret. It asks nobody: names come from what the page knows already.

import { label as spelt, quoted } from "./promql.js";
import { aggregators, durations, functions, keywords } from "./functions.js";

const groupers = new Set(["by", "without", "on", "ignoring", "group_left", "group_right"]);

const parts = [
  String.raw`\s+|#[^\n]*`,
  String.raw`"(?:[^"\\\n]|\\[^])*("|$)`,
  String.raw`'(?:[^'\\\n]|\\[^])*('|$)`,
  "`[^`]*(`|$)",
  String.raw`[a-zA-Z_:][a-zA-Z0-9_:.]*|[0-9][0-9a-zA-Z.]*|=~|!~|!=|==|[^]`,
];

/** tokens returns what a text is made of: {kind, text, at, open}; open says that a string has no end. */
export function tokens(text) {
  const out = [];
  for (const m of text.matchAll(new RegExp(parts.join("|"), "g"))) {
    const [one, double, single, raw] = m;
    if (/^\s|^#/.test(one)) continue;
    if (/^["'`]/.test(one)) {
      out.push({ kind: "string", text: one, at: m.index, open: (double ?? single ?? raw) === "" });
    } else if (/^[a-zA-Z_:]/.test(one)) out.push({ kind: "word", text: one, at: m.index });
    else if (/^[0-9]/.test(one)) out.push({ kind: "number", text: one, at: m.index });
    else out.push({ kind: "sign", text: one, at: m.index });
  }
  return out;
}

/**
 * contextAt tells what stands at the caret: {kind, from, prefix, metric, label}. Kind is "expression", "label",
 * "value", "duration", or "none" where nothing can be offered; prefix is what is typed of it, from `from` on.
 */
export function contextAt(text, caret) {
  const before = tokens(text.slice(0, caret));
  const last = before[before.length - 1];
  if (inComment(text.slice(0, caret))) return { kind: "none" };
  const stack = [];
  before.forEach((t, i) => {
    if (t.kind !== "sign") return;
    if ("({[".includes(t.text)) stack.push({ sign: t.text, index: i });
    else if (")}]".includes(t.text)) stack.pop();
  });
  const typing = last && last.kind !== "sign" && last.at + last.text.length === caret ? last : null;
  const from = typing ? typing.at : caret;
  const prefix = typing ? typing.text : "";
  const inside = stack[stack.length - 1];
  const previous = before[before.length - (typing ? 2 : 1)];
  if (inside?.sign === "[") return typing?.kind === "word" ? { kind: "none" } : { kind: "duration", from, prefix };
  if (inside?.sign === "{") {
    const named = before[inside.index - 1];
    const metric = named?.kind === "word" ? named.text : quotedName(before, inside.index);
    if (previous && /^(=|!=|=~|!~)$/.test(previous.text)) {
      if (typing && (typing.kind !== "string" || !typing.open)) return { kind: "none" };
      const label = before[before.indexOf(previous) - 1];
      return { kind: "value", from, prefix: prefix.slice(1), metric, label: unquoted(label?.text ?? "") };
    }
    if (typing?.kind === "string" || typing?.kind === "number") return { kind: "none" };
    return previous && (previous.text === "{" || previous.text === ",")
      ? { kind: "label", from, prefix, metric }
      : { kind: "none" };
  }
  if (typing && typing.kind !== "word") return { kind: "none" };
  if (inside?.sign === "(" && groupers.has(before[inside.index - 1]?.text))
    return { kind: "label", from, prefix, metric: "" };
  return { kind: "expression", from, prefix };
}

function inComment(text) {
  const line = text.slice(text.lastIndexOf("\n") + 1).replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "");
  return line.includes("#");
}

// The name of a metric that stands in quotes among the matchers.
function quotedName(before, open) {
  const first = before[open + 1];
  const second = before[open + 2];
  return first?.kind === "string" && !first.open && (!second || second.text === "," || second.text === "}")
    ? unquoted(first.text)
    : "";
}

function unquoted(text) {
  return /^["'`]/.test(text) ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text;
}

const most = 50;

/**
 * complete returns what may stand at the caret: {from, to, items}, items of {text, kind, detail, insert, back}: insert
 * goes in the place of from to `to`, and the caret stands `back` characters before its end. `known` is {metrics,
 * labels(metric), values(label, metric)}.
 */
export function complete(text, caret, known) {
  const at = contextAt(text, caret);
  const none = { from: caret, to: caret, items: [] };
  if (at.kind === "none") return none;
  const items = ranked(offers(at, known), at.prefix).slice(0, most);
  let to = caret;
  if (at.kind === "value" && /^["'`]/.test(text.slice(caret))) to++; // the quote that is there already
  return { from: at.from, to, items };
}

function offers(at, known) {
  switch (at.kind) {
    case "duration":
      return durations.map((d) => ({ text: d, kind: "duration", detail: "", insert: d, back: 0 }));
    case "label":
      return known.labels(at.metric).map((l) => ({ text: l, kind: "label", detail: "", insert: spelt(l), back: 0 }));
    case "value":
      return known
        .values(at.label, at.metric)
        .map((v) => ({ text: v, kind: "value", detail: "", insert: quoted(v), back: 0 }));
  }
  const call =
    (kind) =>
    ([name, args, detail]) => ({
      text: name,
      kind,
      detail: `(${args}) ${detail}`,
      insert: name + "()",
      back: args === "" ? 0 : 1,
    });
  return [
    ...known.metrics.map((m) => ({ text: m.metric, kind: "metric", detail: m.detail, ...metricInsert(m.metric) })),
    ...aggregators.map(call("aggregation")),
    ...functions.map(call("function")),
    ...keywords.map((k) => ({ text: k, kind: "keyword", detail: "", insert: k, back: 0 })),
  ];
}

function metricInsert(name) {
  return /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name) ? { insert: name, back: 0 } : { insert: `{${quoted(name)}}`, back: 0 };
}

/** ranked returns what fits a prefix: what begins with it, then what has a part that does, then what contains it. */
export function ranked(items, prefix) {
  if (prefix === "") return items;
  const p = prefix.toLowerCase();
  const rank = (text) => {
    const t = text.toLowerCase();
    if (t.startsWith(p)) return 0;
    return t.split(/[_:.\- ]/).some((part) => part.startsWith(p)) ? 1 : t.includes(p) ? 2 : 3;
  };
  return items
    .map((item, i) => ({ item, i, r: rank(item.text) }))
    .filter(({ r }) => r < 3)
    .sort((a, b) => a.r - b.r || a.i - b.i)
    .map(({ item }) => item);
}
