// The annotations of a tenant, such as deploys: what charts draw of them, a list, a form that adds one.

import { Problem } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { charge, count, instant } from "./format.js";
import { within } from "./marks.js";
import { toRequest } from "./requests.js";
import { fieldOf, typed } from "./time.js";

const path = "/api/v1/annotations";
const age = 300e3; // ms, after which they are read again
const mostListed = 50;

/** noteOf returns the annotation that fields of a form hold, as the API takes it. */
export function noteOf({ text, tags, from, to }, utc) {
  const note = { text: text.trim(), tags: tags.split(",").map((t) => t.trim()).filter(Boolean) };
  const [time, timeEnd] = [typed(from, utc), typed(to, utc)];
  if (!Number.isNaN(time)) note.time = time;
  if (!Number.isNaN(timeEnd)) note.timeEnd = timeEnd;
  return note;
}

/** Annotations reads them with load, and keeps them for five minutes: `all` are by time. */
export class Annotations {
  /** page is {ask(request), changed(), range(), utc(), now()}: changed is called when there are others than before. */
  constructor(element, page) {
    Object.assign(this, { element, page });
    const field = (label, properties) => {
      const input = h("input", { class: "field", autocomplete: "off", ...properties });
      return [input, h("label", { class: "above" }, label, input)];
    };
    let labels;
    [this.text, labels] = field("Text", { required: true, maxLength: 500, placeholder: "firmware 7.2" });
    const fields = [labels];
    for (const [name, label, properties] of [
      ["tags", "Tags, by commas", { placeholder: "deploy" }],
      ["from", "At, if not now", { type: "datetime-local", step: "1" }],
      ["to", "Until, if it takes time", { type: "datetime-local", step: "1" }],
    ]) {
      [this[name], labels] = field(label, properties);
      fields.push(labels);
    }
    this.form = h("form", { class: "note-form", on: { submit: (e) => { e.preventDefault(); this.add(); } } },
      fields, h("button", { class: "primary", type: "submit" }, "Annotate"));
    this.said = h("p", { class: "hint", role: "status" });
    this.note = h("p", { class: "hint" });
    this.list = h("ul", { class: "notes", "aria-label": "Annotations in this range" });
    this.summary = h("span", { class: "hint" });
    this.details = h("details", { class: "annotated" }, h("summary", {}, "Annotations", " ", this.summary), this.form, this.note, this.said, this.list);
    fill(element, this.details);
    this.forget();
  }

  /** forget leaves behind what was read, as of another tenant. */
  forget() {
    Object.assign(this, { all: [], mayWrite: false, at: -Infinity, isRead: false, fault: "" });
    this.say("");
    this.show();
  }

  /** stale has the next load read them again. */
  stale() {
    this.at = -Infinity;
  }

  /** load reads them where that was long ago, with asked, and returns the answers that this took. */
  async load(asked) {
    const now = this.page.now();
    if (now - this.at < age) return [];
    try {
      const answer = await asked(toRequest(path, []));
      Object.assign(this, { all: answer.body.annotations, mayWrite: answer.body.may_write, at: now, isRead: true, fault: "" });
      return [answer];
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      Object.assign(this, { at: now, fault: e.detail }); // the charts do not need them
      return [];
    } finally {
      this.show();
    }
  }

  /** begin opens the form for an instant. */
  begin(ms) {
    this.details.open = true;
    this.from.value = fieldOf(ms, this.page.utc());
    this.to.value = "";
    (this.mayWrite ? this.text : this.details.querySelector("summary")).focus();
  }

  show() {
    const shown = within(this.all, this.page.range());
    this.summary.textContent = this.fault ? "can't be read" : this.all.length === 0 ? "" : `${shown.length} of ${this.all.length} in this range`;
    this.form.hidden = !this.mayWrite;
    const readers = "This credential may only read annotations. One with the scope write adds them, here or by POST /api/v1/annotations.";
    this.note.textContent = this.fault || (this.isRead && !this.mayWrite ? readers : "");
    const drawn = JSON.stringify([shown, this.mayWrite, this.page.utc()]);
    if (drawn === this.drawn) return; // what has the focus keeps it
    this.drawn = drawn;
    fill(this.list, shown.toReversed().slice(0, mostListed).map((a) => this.row(a)),
      shown.length > mostListed ? h("li", { class: "hint" }, `and ${count(shown.length - mostListed, "other")} before`) : null);
  }

  row(a) {
    const utc = this.page.utc();
    return h("li", {},
      h("span", { class: "hint" }, instant(a.time, utc), a.timeEnd ? ` to ${instant(a.timeEnd, utc)}` : ""),
      h("b", { title: `added by ${a.by}` }, a.text),
      a.tags.map((t) => h("span", { class: "chip" }, t)),
      this.mayWrite
        ? h("button", { class: "plain square", title: "Delete it", "aria-label": `Delete annotation ${a.text}`, on: { click: () => this.remove(a) } }, icon("close"))
        : null);
  }

  async add() {
    const { text, tags, from, to } = this;
    const note = noteOf({ text: text.value, tags: tags.value, from: from.value, to: to.value }, this.page.utc());
    await this.change({ path, parameters: [], json: note }, "Added", ({ body }) => {
      for (const field of [text, tags, from, to]) field.value = "";
      return [...this.all, body];
    });
    text.focus();
  }

  async remove(a) {
    await this.change({ path, parameters: [["id", a.id]], method: "DELETE" }, "Deleted", () => this.all.filter((x) => x.id !== a.id));
    (this.list.querySelector("button") ?? this.details.querySelector("summary")).focus();
  }

  async change(request, did, then) {
    try {
      const answer = await this.page.ask(request);
      this.all = then(answer);
      this.say(`${did}${answer.cost ? ` for ${charge(answer.cost.request_units)}` : ""}.`);
      this.show();
      this.page.changed();
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      this.say(e.detail);
    }
  }

  say(text) {
    this.said.textContent = text;
  }
}
