// The operators' room of tenants: all of them, and one with its settings, tokens and actions, and how to change them.

import { ask } from "./admin.js";
import { costPanel, money } from "./cost.js";
import { open } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { ago, number } from "./format.js";
import { refusedBy, ordered, tenantPath } from "./operatorstate.js";
import { bar, bytes, panel, table, when, whole } from "./tables.js";

const soon = 14 * 86400e3; // a token that expires within is marked

// What a dialog says of a setting beside its value now.
const hints = {
  "display-name": "A name for people; empty removes it.",
  contact: "Who to ask; empty removes it.",
  lookback: "A duration such as 25m, or default.",
  retention: "A duration such as 400d, forever or default; for devices apart default=400d,meter-*=30d.",
  pin: "keep, free, or a number of keys.",
  "ingest-over": "delay, refuse or default.",
  "ingest-burst": "A duration such as 2m, or default.",
  "ingest-past": "A duration such as 400d, none or default.",
  "ingest-future": "A duration such as 1h, none or default.",
};

/**
 * TenantsRoom shows tenants. change goes to another state, narrow keeps the room and notes what of the state is
 * different, again asks anew.
 */
export class TenantsRoom {
  constructor({ change, narrow, again }) {
    Object.assign(this, { change, narrow, again, said: null, list: h("div", {}) });
    this.field = h("input", { class: "field", id: "find", type: "search", placeholder: "Name, tag, contact or placement", "aria-label": "Search tenants",
      autocomplete: "off", spellcheck: false, on: { input: () => this.search() } });
  }

  /** show returns the elements of a state and its answers; more returns further panels of one tenant. */
  show(state, got, more) {
    this.state = state;
    if (this.said?.tenant !== state.tenant) this.said = null;
    if (state.tenant) return got.tenants.body ? this.one(got, more) : this.back();
    if (this.field.value.trim() !== state.find) this.field.value = state.find;
    this.rows = joined(got);
    this.bill = got.costs.body;
    this.draw();
    return [h("div", { class: "filters" }, this.field), this.list];
  }

  search() {
    this.state = { ...this.state, find: this.field.value.trim() };
    this.narrow({ find: this.state.find });
    this.draw();
  }

  sort(key) {
    this.state = { ...this.state, sort: key };
    this.narrow({ sort: key });
    this.draw();
    this.list.querySelector("th[aria-sort] button").focus();
  }

  draw() {
    const { find, sort, since } = this.state;
    const rows = ordered(this.rows, find, sort);
    const column = (key, name, numeric) => [h("button", { title: `Sort by ${name}`, on: { click: () => this.sort(key) } },
      name, sort === key ? h("span", { "aria-hidden": "true" }, numeric ? " ▾" : " ▴") : null), numeric ? "n" : null, sort === key ? (numeric ? "descending" : "ascending") : null];
    const of = rows.length === this.rows.length ? "" : ` of ${whole(this.rows.length)}`;
    const { bill } = this;
    const costs = bill ? `; ${bill.month} costs ${money(bill.dollars)} so far, at list prices, ${money(bill.nobody.dollars.total)} of it nobody's` : "";
    // A column that no tenant has something in is left out.
    const columns = [
      [column("tenant", "Tenant"), (r) => h("span", {}, link(r.tenant, () => this.change({ tenant: r.tenant, bill: false })), r.named ? h("span", { class: "hint" }, ` ${r.named}`) : null)],
      [column("state", "State"), standing],
      [column("cost", "Cost", true), (r) => (r.cost === null ? "" : money(r.cost))],
      [column("load", "Share", true), (r) => (r.load === null ? "" : bar(r.load, r.tenant))],
      [column("rus", "RU/s", true), (r) => (r.rus === null ? "" : number(Number(r.rus.toPrecision(3))))],
      [column("throttled", "429s", true), (r) => warned(r.throttled)],
      ["Retention", (r) => r.retention],
      ["Limits that are set", (r) => r.limits.map(([k, v]) => `${k} ${v}`).join(", ")],
      ["Placement", (r) => r.placement && h("span", { class: "wrap" }, r.placement)],
      [column("memory", "Memory", true), (r) => (r.memory ? bytes(r.memory) : "")],
      [column("over", "Over limits", true), (r) => warned(r.over)],
      [column("refused", "Refused samples", true), (r) => whole(r.refused)],
      ["Tags", (r) => r.tags],
      ["Contact", (r) => r.contact],
      [column("registered", "Registered"), (r) => (r.registered ? h("span", { title: when(r.registered) }, ago(Date.parse(r.registered), Date.now())) : "")],
    ].filter(([, of]) => rows.some((r) => of(r) !== ""));
    fill(this.list, panel("Tenants", `${whole(rows.length)}${of}; load of the shared container in the last ${since}${costs}`, rows.length === 0 ? "None fits." :
      table(columns.map(([c]) => c), rows.map((r) => columns.map(([, cell]) => cell(r))))));
  }

  back() {
    return h("div", { class: "filters" }, h("button", { on: { click: () => this.change({ tenant: "", bill: false }) } }, "All tenants"));
  }

  one(got, more) {
    const t = got.tenants.body;
    const path = tenantPath(t.tenant);
    const suspended = t.suspended;
    const r = joined({ ...got, tenants: { body: { tenants: [t] } } }).find((x) => x.tenant === t.tenant);
    const suspend = suspended
      ? h("button", { on: { click: () => this.confirm({ title: `Resume ${t.tenant}?`, text: "Its queries are answered again.", button: `Resume ${t.tenant}`, path: path + "/resume", said: `${t.tenant} is resumed.` }) } }, "Resume…")
      : h("button", { on: { click: () => this.confirm({ title: `Suspend ${t.tenant}?`, text: "Its queries are refused until it is resumed; its readings are stored on. Its users see the reason.", label: "Reason", value: "", required: true,
        button: `Suspend ${t.tenant}`, path: path + "/suspend", body: (reason) => ({ reason }), said: `${t.tenant} is suspended.` }) } }, "Suspend…");
    const facts = [["state", h("span", {}, standing(t), suspended ? ` since ${when(suspended.since)}: ${suspended.reason}` : "")], ["registered", when(t.registered)],
      [`load, the last ${this.state.since}`, r?.rus == null ? "none that the shared container's partitions show" : h("span", {}, bar(r.load, t.tenant), ` of the container, ${number(Number(r.rus.toPrecision(3)))} RU/s, 429s: `, warned(r.throttled))],
      ["refused", r?.refused ? link(`${whole(r.refused)} samples`, () => this.change({ view: "rejected" })) : "no samples"],
      ["placement", t.placement], ["tags", tagged(t.tags) || "none"]];
    return [
      h("div", { class: "filters" }, h("button", { on: { click: () => this.change({ tenant: "", bill: false }) } }, "All tenants"), suspend),
      this.said && h("div", { class: "box-note", role: "status" }, h("h3", {}, this.said.text), (this.said.hides ?? []).map((s) => h("p", {}, s))),
      panel(t.tenant, t.settings["display-name"], table(["Property", "Value"], facts.map(([k, v]) => [k, h("span", { class: "wrap" }, v)]))),
      this.cost(t.tenant, got.costs.body, got.bill?.body),
      this.settings(t, got),
      this.tokens(t, got.tokens.body?.tokens),
      recent(got.actions.body?.actions),
      more(),
    ];
  }

  // What a month costs the tenant, what part of all that is, and, where it was asked for, what it is made of.
  cost(tenant, bill, whole) {
    if (!bill) return null;
    const of = bill.tenants?.find((t) => t.tenant === tenant);
    if (!of) return panel("Cost", bill.month, "Nothing was counted for it yet: usage is stored every few minutes.");
    const more = whole ? null : h("button", { class: "link more-rows", title: "Reads a sample of its chunks, and what each query cost", on: { click: () => this.change({ bill: true }) } },
      "Its dearest devices, metrics, callers and queries");
    return costPanel({ ...of, ...whole, month: bill.month, hours: bill.hours }, { wide: true, share: of.dollars.total / Math.max(1e-9, bill.dollars), more });
  }

  settings(t, { limits, bins }) {
    const exceeded = new Map((limits.body?.passed ?? []).map((x) => [x.limit.startsWith("ingest-") ? x.limit : "ingest-" + x.limit, x]));
    const isDefault = ([, value]) => /^default(?!=)/.test(value); // a retention that is set begins with default=, too
    const rows = Object.entries(t.settings).sort((a, b) => isDefault(a) - isDefault(b)).map(([name, value]) => { // what is set first
      const over = exceeded.get(name);
      return [h("code", { title: hints[name] }, name), h("span", { class: isDefault([name, value]) ? "hint" : null }, value || "none"),
        ...(exceeded.size === 0 ? [] : over ? [warned(over.delayed_readings), warned(over.refused_readings), ago(Date.parse(over.last), Date.now())] : ["", "", ""]),
        h("button", { class: "link", "aria-label": `Change ${name}`, on: { click: () => this.set(t, name, value) } }, "Change…")];
    });
    const held = bins.body?.tenants?.[0];
    const use = held ? `; this process holds ${whole(held.devices ?? 0)} devices and ${bytes(held.bytes)} of it` : "";
    const said = !limits.body ? "an ingester's page shows readings above them" : exceeded.size > 0 ? "with readings above them since the partitions came to this process" : "no readings were above them in this process";
    return panel("Settings and limits", said + use,
      table(["Setting", "Value", ...(exceeded.size > 0 ? [["delayed", "n"], ["refused", "n"], "Last"] : []), ""], rows));
  }

  set(t, name, value) {
    const now = name === "retention" ? value.replace(/^default=(?=[^,]*$)/, "") : value;
    this.confirm({
      title: `Change ${name} of ${t.tenant}`, text: `It is ${value || "none"} now. ${hints[name] ?? "A number above 0, none, or default: what the roles are set to."}`,
      label: name, value: now, named: (v) => `Set ${name} to ${v || "nothing"}`, agree: name === "retention" ? "What a shorter retention hides can't be had back." : "",
      path: tenantPath(t.tenant), method: "PATCH", body: (v) => ({ settings: { [name]: v } }), said: (v) => `${name} is ${v || "none"}.`,
    });
  }

  tokens(t, list) {
    if (!list) return null;
    const now = Date.now();
    return panel("Tokens", "a new one: binnacle tenant token add", list.length === 0 ? "It has none." : table(["Token", "Note", "Scopes", "State", "Expires", "Created", ""],
      list.toSorted((a, b) => (Date.parse(a.expires) || Infinity) - (Date.parse(b.expires) || Infinity)).map((k) => [h("code", {}, k.id), h("span", { class: "wrap" }, k.note ?? ""), k.scopes.join(", "),
        h("span", { class: k.state === "good" ? "dot" : "dot warn" }, k.state),
        !k.expires ? "never" : h("span", { title: when(k.expires), class: k.state === "good" && Date.parse(k.expires) < now + soon ? "dot warn" : null }, ago(Date.parse(k.expires), now)),
        when(k.created), k.state !== "good" ? "" : h("button", { class: "link", "aria-label": `Revoke ${k.id}`, on: { click: () => this.confirm({ title: `Revoke ${k.id}?`,
          text: `Whoever uses the token${k.note ? ` (${k.note})` : ""} is refused from then on. A revoked token can't be had back.`, button: `Revoke ${k.id}`,
          path: `${tenantPath(t.tenant)}/tokens/${encodeURIComponent(k.id)}/revoke`, said: `Token ${k.id} is revoked.` }) } }, "Revoke…")])));
  }

  // confirm asks before a change, sends it, and leaves the dialog open with the words of the API where it fails.
  confirm({ title, text, label, value, required = false, named, button, agree, path, method = "POST", body, said }) {
    const tenant = this.state.tenant;
    const field = label ? h("input", { class: "field", name: "value", value, required, "aria-label": label, autocomplete: "off", spellcheck: false, on: { input: () => name() } }) : null;
    const typed = () => field?.value.trim() ?? "";
    const submit = h("button", { class: "primary", type: "submit" });
    const name = () => {
      submit.textContent = named ? named(typed()) : button;
      submit.disabled = Boolean(named) && typed() === value;
    };
    const refusal = h("div", { role: "alert" });
    const form = h("form", { class: "ask", on: { submit: async (e) => {
      e.preventDefault();
      submit.disabled = true;
      const answer = await ask(path, { method, body: body?.(typed()) });
      if (!answer.fault) {
        this.said = { tenant, text: typeof said === "function" ? said(typed()) : said, hides: answer.body?.hides };
        dialog.close();
        this.again();
        return;
      }
      submit.disabled = false;
      fill(refusal, h("div", { class: "box-note bad" }, h("p", {}, answer.fault)));
    } } }, h("p", {}, text), field ? h("label", {}, label, field) : null,
    agree ? h("label", { class: "agree" }, h("input", { type: "checkbox", required: true }), agree) : null, refusal,
    h("div", { class: "foot" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), submit));
    name();
    const dialog = open(title, false, form);
    (field ?? submit).focus();
    field?.select();
  }
}

function joined({ tenants, costs, heat, placement, bins, limits, rejected }) {
  const known = new Map((tenants.body?.tenants ?? []).map((t) => [t.tenant, t]));
  const cost = new Map((costs?.body?.tenants ?? []).map((t) => [t.tenant, t.dollars.total]));
  const load = new Map((heat.body?.tenants ?? []).map((s) => [s.tenant, s]));
  const held = new Map((bins.body?.tenants ?? []).map((b) => [b.tenant, b]));
  const refused = new Map(refusedBy(rejected.body?.rejected ?? []));
  const exceeded = limits.body?.passed ?? [];
  const names = new Set([...known.keys(), ...load.keys(), ...(placement.body?.tenants ?? []).map((t) => t.tenant)]);
  return [...names].map((name) => {
    const t = known.get(name);
    const settings = t?.settings ?? {};
    return {
      tenant: name, named: settings["display-name"] ?? "", suspended: t?.suspended, registered: t?.registered ?? "", retention: (settings.retention ?? "").replace(/^default=(?=[^,]*$)/, ""),
      limits: Object.entries(settings).filter(([k, v]) => /^(query|ingest)-/.test(k) && v !== "default"), placement: t?.placement ?? "", tags: tagged(t?.tags ?? {}), contact: settings.contact ?? "",
      cost: cost.get(name) ?? null, load: load.get(name)?.share ?? null, rus: load.get(name)?.rus ?? null, throttled: load.get(name)?.throttled ?? 0, memory: held.get(name)?.bytes ?? 0,
      over: exceeded.filter((x) => x.tenant === name).reduce((sum, x) => sum + x.delayed_readings + x.refused_readings, 0), refused: refused.get(name) ?? 0,
    };
  });
}

const tagged = (tags) => Object.entries(tags).map(([k, v]) => `${k}=${v}`).join(" ");
const warned = (n) => (n > 0 ? h("span", { class: "dot warn" }, whole(n)) : "0");
const standing = ({ suspended }) => (suspended ? h("span", { class: "dot warn", title: suspended.reason }, "suspended") : h("span", { class: "dot" }, "active"));
const link = (text, click) => h("button", { class: "link", on: { click } }, text);

function recent(all) {
  if (!all) return null;
  const list = all.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, 50);
  return panel("Its actions", "the last 30 days", list.length === 0 ? "None." : table(["At", "Who", "What", "Object", "Detail", "Outcome"],
    list.map((a) => [when(a.at), a.who, a.verb, a.object ?? "", h("span", { class: "wrap" }, Object.entries(a.detail ?? {}).map(([k, v]) => `${k}=${v}`).join(" ")),
      a.outcome === "done" ? "done" : h("span", { class: "dot warn" }, a.outcome)]), { stacked: true }));
}
