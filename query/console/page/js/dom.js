// Elements, made without markup in strings.

import { parts } from "./format.js";

const drawings = {
  refresh: "M13.5 8a5.5 5.5 0 1 1-1.6-3.9M13.5 2.5v3h-3",
  back: "M7 3.5 2.5 8 7 12.5M2.5 8H10a3.5 3.5 0 0 1 0 7",
  clock: "M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  theme: "M8 2a6 6 0 1 0 0 12V2Zm0 0a6 6 0 0 1 0 12",
  share: "M6 3H3v10h10v-3M9 2.5h4.5V7M13 3 7.5 8.5",
  help: "M6 6.2a2 2 0 1 1 2.9 1.8c-.6.3-.9.7-.9 1.3m0 2.2v.1M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  tenant: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm-5 5.5c.5-2.4 2.4-3.7 5-3.7s4.5 1.3 5 3.7",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
};

/** icon returns a drawing that screen readers pass over. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", drawings[name]);
  svg.append(path);
  return svg;
}

/**
 * h returns an element. Of its properties `on` has listeners, `class` and whatever has a dash are attributes, and
 * what is null, undefined or false is left out of these.
 */
export function h(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) e.addEventListener(event, listener);
    } else if (name === "class" || name === "for" || name === "role" || name === "list" || name.includes("-")) {
      if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value);
    } else if (value !== undefined) e[name] = value;
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

/**
 * middleCut returns a name that is cut in its middle where there is no room, so that names that differ at the end differ.
 * Whatever has it as its name needs an aria-label: the halves are read apart.
 */
export function middleCut(name) {
  const [head, tail] = parts(name);
  return tail === "" ? name : h("span", { class: "name-cut", title: name }, h("span", {}, head), h("span", {}, tail));
}

/** fill puts children in the place of those that an element has. */
export function fill(e, ...children) {
  e.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

/** $ returns the element with an id. */
export function $(id) {
  return document.getElementById(id);
}

/** reach brings the panel of a name into view, and gives it the focus. */
export function reach(name) {
  const panel = document.querySelector(`#view section[aria-label="${CSS.escape(name)}"]`);
  if (!panel) return;
  panel.tabIndex = -1;
  panel.scrollIntoView({ block: "start" });
  panel.focus({ preventScroll: true });
}
