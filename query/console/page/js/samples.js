// Readings that were refused, each with what was wrong with it, and, where it is opened, its payload.

import { h } from "./dom.js";

/**
 * sampleList returns samples as a list of which the first few are shown until the others are asked for. said(sample) is
 * what stands beside its reason, such as when it was.
 */
export function sampleList(samples, { few, said }) {
  const one = (s) => h("details", { class: "more" },
    h("summary", {}, h("b", {}, s.reason), ` ${said(s)}: `, h("span", { class: "wrap" }, s.detail)),
    h("pre", { class: "payload", tabIndex: 0 }, s.payload + (s.cut ? " …" : "")),
    h("p", { class: "hint" }, `${s.topic}/${s.partition} offset ${s.offset}`));
  const list = h("div", {}, samples.slice(0, few).map(one));
  const more = h("button", { class: "link more-rows", on: { click: () => {
    list.append(...samples.slice(few).map(one));
    list.children[few].querySelector("summary").focus();
    more.remove();
  } } }, `and ${samples.length - few} more`);
  return h("div", {}, list, samples.length > few ? more : null);
}
