// Queries that were typed, and favourites among them, kept in this browser by tenant. Nothing of an answer is.

import { fill, h, icon } from "./dom.js";

const most = 50; // queries of a tenant

/** remembered returns what is kept as {history, favourites}, lists of queries, the newest first. */
export function remembered(tenant) {
  try {
    const all = JSON.parse(localStorage.getItem("binnacle.queries") ?? "{}");
    const { history = [], favourites = [] } = Object.hasOwn(all, tenant) ? all[tenant] : {};
    return { history: history.filter((q) => typeof q === "string"), favourites: favourites.filter((q) => typeof q === "string") };
  } catch {
    return { history: [], favourites: [] };
  }
}

function keep(tenant, kept) {
  try {
    const all = JSON.parse(localStorage.getItem("binnacle.queries") ?? "{}");
    localStorage.setItem("binnacle.queries", JSON.stringify({ ...all, [tenant]: kept }));
  } catch {
    // storage is shut off: nothing is kept
  }
}

/** noted puts a query that was run at the head of a tenant's history. */
export function noted(tenant, query) {
  const { history, favourites } = remembered(tenant);
  keep(tenant, { history: [query, ...history.filter((q) => q !== query)].slice(0, most), favourites });
}

/** starred makes a query a favourite, or no longer one. */
export function starred(tenant, query) {
  const { history, favourites } = remembered(tenant);
  const next = favourites.includes(query) ? favourites.filter((q) => q !== query) : [query, ...favourites].slice(0, most);
  keep(tenant, { history, favourites: next });
}

/** History is a button that shows what was typed before; run takes a query of it. */
export class History {
  constructor(element, { tenant, run }) {
    Object.assign(this, { tenant, run });
    this.pop = h("div", { class: "pop queries", role: "dialog", "aria-label": "Earlier queries", hidden: true,
      on: { keydown: (e) => e.key === "Escape" && this.toggle(false) } });
    this.button = h("button", { class: "plain square", title: "Earlier queries and favourites (h)", "aria-label": "Earlier queries and favourites", "aria-expanded": "false",
      on: { click: () => this.toggle() } }, icon("clock"));
    element.append(this.button, this.pop);
    document.addEventListener("pointerdown", (e) => {
      if (!this.pop.hidden && !this.pop.contains(e.target) && !this.button.contains(e.target)) this.toggle(false);
    });
  }

  toggle(open = this.pop.hidden) {
    if (open === !this.pop.hidden) return;
    this.pop.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) {
      this.draw();
      this.pop.querySelector("button")?.focus();
    } else this.button.focus();
  }

  draw() {
    const { history, favourites } = remembered(this.tenant());
    const row = (q) => {
      const star = favourites.includes(q);
      return h("li", {},
        h("button", { class: "plain square star", "aria-pressed": String(star), "aria-label": star ? "No longer a favourite" : "Make it a favourite",
          on: { click: () => { starred(this.tenant(), q); this.draw(); } } }, star ? "★" : "☆"),
        h("button", { class: "plain mono", on: { click: () => { this.toggle(false); this.run(q); } } }, q));
    };
    const list = (title, all) => (all.length === 0 ? null : [h("h3", {}, title), h("ul", {}, all.map(row))]);
    const others = history.filter((q) => !favourites.includes(q));
    fill(this.pop, list("Favourites", favourites), list("Typed before", others),
      favourites.length + others.length === 0 ? h("p", { class: "hint" }, "Queries that you type are kept here, in this browser alone.") : null);
  }
}
