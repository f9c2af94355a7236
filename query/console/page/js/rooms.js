// The rooms of the page, as links in its header.

import { fill, h } from "./dom.js";

const names = [
  ["fleet", "Fleet", "F"],
  ["device", "Device", "D"],
  ["explore", "Explore", "X"],
];

/** Rooms shows the rooms, and calls `change` when another one is chosen. */
export class Rooms {
  constructor(element, { change }) {
    this.element = element;
    this.links = names.map(([room, name, key]) => [
      room,
      h(
        "a",
        {
          title: `${name} (${key})`,
          on: {
            click: (e) => {
              if (e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
              e.preventDefault();
              change({ room });
            },
          },
        },
        name,
      ),
    ]);
    fill(
      element,
      this.links.map(([, a]) => a),
    );
  }

  /** show marks the room that one is in; address returns the link of a room. operators is the page of operators, or "". */
  show(current, address, operators) {
    document.body.dataset.room = current;
    for (const [room, a] of this.links) {
      a.href = address(room);
      if (room === current) a.setAttribute("aria-current", "page");
      else a.removeAttribute("aria-current");
    }
    this.element.querySelector(".operators")?.remove();
    if (operators) this.element.append(h("a", { class: "operators", href: `${operators}?page=${encodeURIComponent(location.origin)}` }, "Operators"));
  }
}
