// The page of operators: partitions, tenants, ingest, refused readings, actions, as the admin listener knows them.

import { ask } from "./admin.js";
import { help } from "./dialogs.js";
import { $, fill, h, icon, reach } from "./dom.js";
import { ago, charge, count, length, number } from "./format.js";
import { containersLike, fragment, heldBy, isLocal, lags, lagsOf, parse, refusedBy, requests, spans, tenantsHeld, views } from "./operatorstate.js";
import { meaning } from "./reasons.js";
import { shell } from "./requests.js";
import { sampleList } from "./samples.js";
import { bar, bytes, panel, percent, table, when, whole } from "./tables.js";
import { TenantsRoom } from "./tenants.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const mode = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
const now = () => Date.now();

let state = parse(location.hash);
let running = null; // AbortController
let timer = 0;
let spent = 0; // RU
let shown = null; // the room that is on the page, and its answers: {view, got, faults}

// --- the frame

const links = Object.entries(views).map(([view, name], i) => {
  const a = h("a", { title: `${name} (${i + 1})`, on: { click: (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    change({ view });
  } } }, name);
  return [view, a];
});
const heat = h("a", {}, "Heat map");
// The page of tenants, if one came from there: an address of the same machine, and nothing else.
const page = URL.parse?.(new URLSearchParams(location.search).get("page") ?? "");
const back = page && /^https?:$/.test(page.protocol) && page.hostname === location.hostname ? h("a", { href: page.origin + "/" }, "Fleet") : null;
fill($("rooms"), back, links.map(([, a]) => a), heat);

/** timed are the rooms that show a span of time to choose: Ingest shows now, and Actions a month. */
const timed = ["partitions", "tenants", "rejected"];
const sinceButtons = h("div", { class: "joined", role: "group", "aria-label": "Time" },
  spans.map((s) => h("button", { "data-name": s, title: `The last ${s}`, on: { click: () => change({ since: s }) } }, s === "168h" ? "7d" : s)));
const every = h("select", { id: "every", "aria-label": "Refresh interval", on: { change: (e) => change({ refresh: Number(e.target.value) }) } },
  [[0, "off"], [10, "10s"], [60, "1m"]].map(([v, t]) => h("option", { value: v }, t)));
const again = h("button", { class: "square", id: "again", title: "Refresh (r)", "aria-label": "Refresh", on: { click: () => run() } }, icon("refresh"));
const theme = h("button", { class: "square plain", id: "theme", "aria-label": "Light or dark", title: "Light or dark (l)", on: { click: () => flip() } }, icon("theme"));
const keys = h("button", { class: "square plain", id: "help", "aria-label": "Keys", title: "Keys (?)", on: { click: () => tell() } }, icon("help"));
fill($("tools"), sinceButtons, h("div", { class: "joined" }, again, every), theme, keys);

function tell() {
  help([{ title: "Everywhere", keys: [...Object.values(views).map((name, i) => [String(i + 1), name]), ["/", "search tenants"], ["r", "refresh"], ["l", "light or dark"], ["?", "all keys"]] }]);
}

function flip() {
  const next = mode() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("binnacle.theme", next);
  } catch {
    // it lasts as long as the page
  }
}

function change(part) {
  const before = fragment(state);
  state = { ...state, ...part };
  if (fragment(state) !== before) history.pushState(null, "", "#" + fragment(state));
  show();
  if (!isLocal(part) || shown?.view !== state.view) {
    run();
    return;
  }
  draw();
  if (state.partition) reach(`Partition ${state.partition}`);
}

// narrow notes a part of the state that needs no new answers.
function narrow(part) {
  state = { ...state, ...part };
  history.replaceState(null, "", "#" + fragment(state));
  show();
}

function show() {
  document.title = `${views[state.view]} · Operators · Binnacle`;
  for (const [view, a] of links) {
    a.href = "#" + fragment({ ...state, view });
    if (view === state.view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  heat.href = "/heat" + (state.container ? "#container=" + encodeURIComponent(state.container) : "");
  for (const b of sinceButtons.children) b.setAttribute("aria-pressed", String(b.dataset.name === state.since));
  sinceButtons.hidden = !timed.includes(state.view);
  every.value = String(state.refresh);
}

addEventListener("popstate", () => {
  state = parse(location.hash);
  show();
  run();
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea") || document.querySelector("dialog")) return;
  const view = Object.keys(views)[Number(e.key) - 1];
  if (view) change({ view });
  else if (e.key === "/" && $("find")) {
    e.preventDefault();
    $("find").focus();
  } else if (e.key === "r") run();
  else if (e.key === "?") tell();
  else if (e.key === "l") flip();
});

// --- asking

async function run() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  const began = now();
  $("progress").hidden = false;
  $("view").setAttribute("aria-busy", "true");
  const wanted = Object.entries(requests(state, began));
  const answers = await Promise.all(wanted.map(async ([name, path]) => [name, await ask(path, { signal: mine.signal })]));
  if (mine !== running) return;
  const got = Object.fromEntries(answers);
  const rus = answers.reduce((n, [, a]) => n + a.rus, 0);
  spent += rus;
  fill($("answer"), h("b", {}, charge(rus)), h("span", { class: "optional" }, `${now() - began} ms`),
    h("span", { class: "optional" }, `this page so far ${charge(spent)}`));
  const faults = answers.filter(([, a]) => a.fault && !a.absent);
  shown = { view: state.view, got, faults };
  draw();
  $("progress").hidden = true;
  $("view").setAttribute("aria-busy", "false");
  if (state.refresh > 0) timer = setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", run, { once: true }) : run()), state.refresh * 1e3);
}

// draw shows the answers that are there.
function draw() {
  const { got, faults } = shown;
  const focused = document.activeElement.id;
  fill($("view"), faults.map(([name, a]) => h("div", { class: "box-note bad", role: "alert" }, h("h3", {}, name), h("p", {}, a.fault))),
    chips(), rooms[state.view](got));
  if (focused && focused !== document.activeElement.id) $(focused)?.focus();
}

// --- parts of rooms

// What the room is narrowed to, and a way back.
function chips() {
  const narrowed = (state.view === "rejected" ? ["reason", "tenant"] : ["partitions", "tenants"].includes(state.view) ? [] : state.view === "ingest" ? ["process", "tenant"] : ["tenant"]).filter((n) => state[n]);
  return narrowed.length === 0 ? null : h("div", { class: "filters" }, narrowed.map((n) =>
    h("button", { class: "chip", title: "Drop this condition", on: { click: () => change({ [n]: "" }) } }, `${n}=${state[n]}`, h("span", { "aria-hidden": "true" }, " ×"))));
}

function link(text, part, title) {
  return h("button", { class: "link", title, on: { click: () => change(part) } }, text);
}

function elsewhere(what, role, command) {
  return h("div", { class: "panel empty" }, h("h3", {}, `This process knows nothing of ${what}`),
    h("p", {}, `Open this page at the admin listener of ${role}, or run`), h("pre", { tabIndex: 0 }, command));
}

// --- partitions

function partitions({ heat: { body: report, absent }, placement }) {
  if (!report) return absent ? elsewhere("partitions", "a querier", "binnacle partitions") : null;
  // Where nothing was charged yet there are no keys and no tenants.
  const body = { ...report, tenants: report.tenants ?? [], partitions: report.partitions.map((p) => ({ ...p, keys: p.keys ?? [] })) };
  const looked = body.partitions.find((p) => String(p.partition) === state.partition);
  const most = Math.max(1e-9, ...body.partitions.map((p) => p.rus));
  return [
    h("div", { class: "box-note" }, h("h3", {}, body.diagnosis.charAt(0).toUpperCase() + body.diagnosis.slice(1)),
      h("p", {}, `${body.container}, ${when(body.from)} to ${when(body.to)}; ${whole(body.bought_rus)} RU/s may be used${body.autoscale ? " at most" : ""}, ${whole(Math.round(body.partition_rus))} for each partition.`)),
    h("div", { class: "filters" }, containerField(body.container)),
    panel("Physical partitions", "of the load; a click says what makes one hot", table(
      ["Partition", "Share of the load", ["RU/s", "n"], ["busiest RU/s", "n"], ["of what it may use", "n"], ["429s", "n"], ["stored", "n"], "Hottest key"],
      body.partitions.map((p) => [
        link(String(p.partition), { partition: String(p.partition) }, "What makes it hot"),
        h("span", { class: "share" }, h("meter", { min: 0, max: most, value: p.rus, "aria-label": `share of partition ${p.partition}` }), ` ${percent(p.share)}`),
        number(Number(p.rus.toPrecision(3))), number(Number(p.busiest_rus.toPrecision(3))),
        p.busiest_used > 0.8 ? h("span", { class: "dot warn" }, percent(p.busiest_used)) : percent(p.busiest_used),
        p.throttled > 0 ? h("span", { class: "dot warn" }, whole(p.throttled)) : "0", bytes(p.bytes),
        p.keys[0] ? `${keyName(p.keys[0])} ${percent(p.keys[0].share)}` : ""]))),
    looked ? onePartition(looked, body) : null,
    shares("Tenants", body.tenants, (s) => link(s.tenant, { view: "tenants", tenant: s.tenant })),
    body.devices?.length > 0 ? shares("Devices", body.devices, (s) => `${s.tenant} ${s.device}`) : null,
    decisions(placement.body, (d) => d.container === body.container),
  ];
}

function containerField(now) {
  const show = (container) => change({ container, partition: "" });
  const field = h("input", { class: "field", id: "container", value: state.container, placeholder: now, list: "containers", "aria-label": "Container", spellcheck: false });
  return [h("form", { class: "filters", on: { submit: (e) => { e.preventDefault(); show(field.value.trim()); } } }, field,
    h("datalist", { id: "containers" }, containersLike(now).map((c) => h("option", { value: c }))), h("button", {}, "Show")),
  containersLike(now).filter((c) => c !== now).map((c) => h("button", { class: "chip", title: `The partitions of ${c}`, on: { click: () => show(c) } }, c)),
  h("a", { class: "beside", href: "/heat" + (state.container ? "#container=" + encodeURIComponent(state.container) : "") }, "Heat map by key and time")];
}

const keyName = (k) => k.key || "keys without a name";

function onePartition(p, body) {
  const named = p.keys.reduce((n, k) => n + k.share, 0);
  const worst = p.keys[0];
  const why = !worst ? "None of its keys was used." : worst.share >= 0.5 * p.share
    ? `The key ${keyName(worst)} alone takes ${percent(worst.share / Math.max(1e-9, p.share))} of this partition${worst.tenant ? `: it is of the tenant ${worst.tenant}` : ""}.`
    : `No key takes half of it: its ${p.keys.length} hottest take ${percent(named / Math.max(1e-9, p.share))}.`;
  const mean = 1 / Math.max(1, body.partitions.length);
  const hot = p.share > 1.2 * mean ? `It takes ${number(Number((p.share / mean).toPrecision(2)))} times its even share.` : "It takes no more than 1.2 times its even share.";
  const cut = (key) => (key.length > 8 ? key.slice(0, 8) + "…" : key || "0");
  return panel(`Partition ${p.partition}`, h("span", { title: `${p.min || "0"} to ${p.max}` }, `effective partition keys ${cut(p.min)} to ${cut(p.max)}`), [
    h("p", { class: "pad" }, `${hot} ${why}${p.throttled > 0 ? ` ${count(p.throttled, "request")} of it got a 429.` : " None of its requests got a 429."}`),
    table(["Key", "Tenant", "Share of the container", ["RU/s", "n"], ["429s", "n"]], p.keys.map((k) => [h("code", {}, keyName(k)),
      k.tenant ? link(k.tenant, { view: "tenants", tenant: k.tenant }) : "", bar(k.share, keyName(k)), number(Number(k.rus.toPrecision(3))), whole(k.throttled ?? 0)])),
    p.expected_rus.some((x) => x > 0) && h("p", { class: "hint pad" }, `Expected of open bins, RU/s by hour from now: ${p.expected_rus.map((x) => number(Number(x.toPrecision(2)))).join(", ")}`)]);
}

// A column that no row has something in is left out.
function shares(title, list, name) {
  const some = (of) => list.some((s) => (of(s) ?? "") !== "");
  const columns = [[title.slice(0, -1), name], ["Key", (s) => (s.key ? h("code", {}, s.key) : "")], ["Share", (s) => bar(s.share, s.tenant)],
    [["RU/s", "n"], (s) => number(Number(s.rus.toPrecision(3)))], [["429s", "n"], (s) => whole(s.throttled ?? 0)], [["keys tomorrow", "n"], (s) => s.slots_tomorrow ?? ""]]
    .filter(([, of]) => some(of));
  if (list.length === 0) return panel(title, "", "Nothing was charged in this time.");
  return panel(title, "the hottest first", table(columns.map(([column]) => column), list.slice(0, 20).map((s) => columns.map(([, of]) => of(s)))));
}

function decisions(placement, wanted) {
  if (!placement) return null;
  const list = placement.decisions.filter(wanted).sort((a, b) => b.created - a.created).slice(0, 20);
  if (list.length === 0) return panel("Decisions of the balancer", "", "None in the last 60 days.");
  const day = (n) => new Date(n * 86400e3).toISOString().slice(0, 10);
  const ratio = (x) => number(Number(x.toPrecision(3)));
  return panel("Decisions of the balancer", "hottest partition over the mean, as forecast", table(
    ["Decided", "For the day", "Container", ["before", "n"], ["after", "n"], "Changes"],
    list.map((d) => [ago(d.created, now()), day(d.day), d.container, ratio(d.hottestBefore), ratio(d.hottestAfter),
      h("span", { class: "wrap" }, (d.advice ? "advice: " : "") + ((d.changes ?? []).map((c) => `${c.tenant}: ${c.keysBefore} to ${c.keysAfter} keys, ${c.reason}`).join("; ") || "none"))]), { stacked: true }));
}

// --- tenants

const tenantsRoom = new TenantsRoom({ change, narrow, again: run });

function tenants(got) {
  if (got.tenants.absent) return elsewhere("tenants", "a querier", "binnacle tenant list");
  return tenantsRoom.show(state, got, () => oneTenant(state.tenant, got));
}

function oneTenant(name, { placement, bins, limits }) {
  const known = placement.body?.tenants.find((t) => t.tenant === name);
  const mine = (limits.body?.passed ?? []).filter((x) => x.tenant === name);
  const day = (n) => (n === 0 ? "the first" : new Date(n * 86400e3).toISOString().slice(0, 10));
  return [
    known ? panel("Where it writes to", "", table(["From the day", ["keys", "n"], "slots"], known.epochs.map((e) => [day(e.from), String(e.slots.length),
      h("span", { class: "wrap" }, e.slots.slice(0, 64).join(", "))]))) : null,
    mine.length > 0 ? limitsOf(mine) : null,
    bins.body ? binsOf("Its largest devices in memory", bins.body.devices ?? []) : null,
    decisions(placement.body, (d) => (d.changes ?? []).some((c) => c.tenant === name)),
  ];
}

function limitsOf(list) {
  return panel("Over their limits", "since the partitions came here", table(["Tenant", "Limit", ["delayed", "n"], ["refused", "n"], "Last", "Devices"],
    list.map((x) => [x.tenant, x.limit, whole(x.delayed_readings), whole(x.refused_readings), ago(Date.parse(x.last), now()),
      h("span", { class: "wrap" }, (x.culprits ?? []).slice(0, 5).map((c) => `${c.device} ${whole(c.readings)}`).join(", "))])));
}

function binsOf(title, list) {
  return panel(title, "", list.length === 0 ? "None." : table(["Device", "Tenant", ["bins", "n"], ["readings", "n"], ["memory", "n"], "Oldest reading", ["records behind", "n"]],
    list.map((b) => [b.device ?? "", b.tenant, whole(b.bins), whole(b.readings), bytes(b.bytes), h("span", { title: when(b.from) }, ago(Date.parse(b.from), now())), whole(b.records_behind)])));
}

// --- ingest

function ingest({ ingesters, bins, limits }) {
  const all = ingesters.body?.ingesters ?? // an ingester alone knows its own bins
    (bins.body ? [{ process: "this process", bins: bins.body }] : null);
  if (!all) return bins.absent && ingesters.absent ? elsewhere("open bins", "a querier or an ingester", "binnacle bins --admin HOST:7071") : null;
  const shown = all.filter((p) => p.bins && (!state.process || p.process === state.process));
  const reports = shown.map((p) => p.bins);
  const partitions = shown.flatMap(({ process, bins }) => bins.partitions.map((p) => ({ ...p, process })));
  const twice = heldBy(all);
  return [
    ingesters.body?.error || all.some((p) => p.error) ? h("div", { class: "box-note warn" }, h("h3", {}, "Not all ingesters answer"), h("p", {}, "Sums lack what they hold."),
      h("p", {}, ingesters.body?.error ?? "")) : null,
    twice.length > 0 ? h("div", { class: "box-note warn" }, h("h3", {}, "Partitions that two processes hold"), h("p", {}, "One of them was just assigned the partition, or has lost it without knowing yet."),
      twice.slice(0, 20).map(([name, names]) => h("p", {}, `${name}: ${names.join(", ")}`))) : null,
    tilesOf(lagsOf(partitions), reports),
    all.length !== 1 || all[0].error || state.process ? processes(all) : null,
    panel("Kafka partitions", all.length > 1 ? "as of the last time each was to commit" : "read by this process", partitions.length === 0 ? "None is assigned." : table(
      ["Topic", "Partition", ...(shown.length > 1 ? ["Process"] : []), "State", ["end", "n"], ["not read", "n"], ["not journalled", "n"], ["not in chunks", "n"], ["floor", "n"], ["journal floor", "n"], ["bins", "n"], ["a restart takes", "n"]],
      partitions.map((p) => {
        const l = lags(p);
        return [p.topic, String(p.partition), ...(shown.length > 1 ? [p.process] : []), p.loading > 0 ? `${whole(p.loading)} to load` : p.caught_up ? h("span", { class: "dot" }, "caught up") : h("span", { class: "dot warn" }, "catching up"),
          whole(p.log_end), whole(l.unread), whole(l.unjournaled), whole(l.unstored), whole(p.floor), whole(p.journal_floor), whole(p.bins),
          p.replay.seconds ? length(Math.max(1000, Math.round(p.replay.seconds) * 1e3)) : "?"];
      }))),
    limits.body?.waiting.length > 0 ? panel("Waiting for limits", "", table(["Tenant", "Device", "Limit", "Topic", ["from offset", "n"], "Since"],
      limits.body.waiting.map((x) => [x.tenant, x.device || "all", x.limit, `${x.topic}/${x.partition}`, whole(x.offset), ago(Date.parse(x.since), now())]))) : null,
    !limits.body ? null : limits.body.passed.length > 0 ? limitsOf(limits.body.passed) : panel("Over their limits", "in this process", "No tenant was over a limit."),
    panel("Tenants in memory", "", table(["Tenant", ["devices", "n"], ["bins", "n"], ["readings", "n"], ["memory", "n"], "Oldest reading", ["records behind", "n"]],
      tenantsHeld(reports).map((t) => [link(t.tenant, { view: "tenants", tenant: t.tenant }), whole(t.devices), whole(t.bins), whole(t.readings), bytes(t.bytes), ago(Date.parse(t.from), now()), whole(t.records_behind)]))),
    binsOf("Oldest devices in memory", reports.flatMap((b) => b.devices ?? []).sort((a, b) => Date.parse(a.from) - Date.parse(b.from)).slice(0, 20)),
  ];
}

function tilesOf(total, reports) {
  const tile = (n, what, title) => h("div", { class: "tile", title }, h("b", {}, n), h("span", {}, what));
  const sum = (name) => reports.reduce((n, b) => n + b.memory[name], 0);
  return h("div", { class: "tiles", role: "group", "aria-label": "Lags" },
    tile(whole(total.unread), "records not read", "the end of the log less what was read"),
    tile(whole(total.unjournaled), "not in the journal", "a crash without a journal reads them again"),
    tile(whole(total.unstored), "not in chunks", "they are in open bins"),
    tile(bytes(sum("held")), `of ${bytes(sum("bound"))} memory`),
    tile(length(Math.max(0, ...reports.map((b) => b.hold_seconds * 1e3))), "longest hold"));
}

function processes(all) {
  return panel("Processes", "the ingesters that this querier asks for heads; a click shows one", all.length === 0 ? "None was found." : table(
    ["Process", "State", ["partitions", "n"], ["not read", "n"], ["not journalled", "n"], ["not in chunks", "n"], ["bins", "n"], ["memory", "n"], ["on disk", "n"], ["longest restart", "n"], "Topics"],
    all.map(({ process, bins: b, error }) => {
      const name = link(process, { process: state.process === process ? "" : process }, state.process === process ? "Show all processes" : "Show this process");
      if (!b) return [name, h("span", { class: "dot warn wrap" }, error), ...Array(9).fill("")];
      const l = lagsOf(b.partitions);
      const late = b.partitions.filter((p) => !p.caught_up || p.loading > 0).length;
      const takes = Math.max(0, ...b.partitions.map((p) => p.replay.seconds ?? 0));
      return [name, late > 0 ? h("span", { class: "dot warn" }, `${count(late, "partition")} catching up`) : h("span", { class: "dot" }, b.partitions.length > 0 ? "caught up" : "nothing assigned"),
        whole(b.partitions.length), whole(l.unread), whole(l.unjournaled), whole(l.unstored), whole(b.partitions.reduce((n, p) => n + p.bins, 0)),
        `${bytes(b.memory.held)} of ${bytes(b.memory.bound)}`, bytes(b.memory.spilled), takes > 0 ? length(Math.max(1000, Math.round(takes) * 1e3)) : "?", b.topics];
    })));
}

// --- refused readings

const spoken = (since) => `the last ${since === "168h" ? "7 days" : since}`;

// What is said where the span has none: others may be older.
function noneRefused() {
  const most = spans[spans.length - 1];
  return h("p", { class: "none pad" }, `No reading was refused in ${spoken(state.since)}. `,
    state.since === most ? null : link("Look back 7 days", { since: most }));
}

function rejected({ rejected: { body, absent } }) {
  if (!body) return absent ? elsewhere("refused readings", "a querier", "binnacle replay --from-dlq --dry-run") : null;
  const list = body.rejected;
  const samples = list.flatMap((r) => (r.samples ?? []).map((s) => ({ ...s, reason: r.reason }))).filter((s) => !state.tenant || s.tenant === state.tenant)
    .sort((a, b) => b.at - a.at);
  return [
    body.complete ? null : h("div", { class: "box-note warn" }, h("h3", {}, "Not all is known"), (body.incomplete ?? []).map((t) => h("p", {}, t))),
    panel("By reason", list.length === 0 ? "" : spoken(state.since), list.length === 0 ? noneRefused() : table(["Reason", "Meaning", ["readings", "n"], "First", "Last", "Publish them again"],
      list.map((r) => [link(r.reason, { reason: r.reason }), h("span", { class: "wrap" }, meaning(r.reason)), whole(r.count), ago(r.first, now()), ago(r.last, now()),
        h("code", {}, `binnacle replay --from-dlq --reason ${shell(r.reason)} --dry-run`)]), { stacked: true })),
    list.length === 0 ? null : panel("By tenant", "of the newest samples of each reason", table(["Tenant", ["samples", "n"]],
      refusedBy(list).map(([tenant, n]) => [tenant ? link(tenant, { tenant }) : "none that is known", whole(n)]))),
    samples.length === 0 ? null : panel("Samples", "the newest first; a click shows the payload", sampleList(samples.slice(0, 100), { few: 20,
      said: (s) => `${s.tenant ?? "no tenant"}${s.device ? " " + s.device : ""}, ${ago(s.at, now())}` })),
  ];
}

// --- actions

function actions({ actions: { body, absent }, placement }) {
  if (!body) return absent ? elsewhere("actions", "a querier", "binnacle actions") : null;
  const list = body.actions.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, 300);
  return [
    panel("Actions", "what was done to the account in the last 30 days", list.length === 0 ? "None." : table(["At", "Who", "What", "Object", "Tenant", "Detail", "Outcome"],
      list.map((a) => [when(a.at), a.who, a.verb, a.object ?? "", a.tenant ? link(a.tenant, { tenant: a.tenant }) : "",
        h("span", { class: "wrap" }, Object.entries(a.detail ?? {}).map(([k, v]) => `${k}=${v}`).join(" ")),
        a.outcome === "done" ? "done" : h("span", { class: "dot warn" }, a.outcome)]), { stacked: true })),
    decisions(placement.body, () => true),
    panel("Audit", "reads all chunks, and the log where it still has them", h("pre", { class: "payload", tabIndex: 0 },
      `binnacle audit --from ${new Date(now() - 2 * 86400e3).toISOString().slice(0, 10)} --to ${new Date(now()).toISOString().slice(0, 10)} --log`)),
  ];
}

const rooms = { partitions, tenants, ingest, rejected, actions };

show();
run();
