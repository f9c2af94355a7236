// The page: its state, who asks, what is asked, and who shows the answer.

import { Annotations } from "./annotations.js";
import { ask, Problem, together } from "./api.js";
import { beside, lacking, topOf } from "./curves.js";
import { Display } from "./display.js";
import { connect, firstSteps, help, share } from "./dialogs.js";
import { $, fill, h, icon, reach } from "./dom.js";
import { Device } from "./device.js";
import { Editor } from "./editor.js";
import { Fleet } from "./fleet.js";
import { Further } from "./further.js";
import { length } from "./format.js";
import { History, noted } from "./history.js";
import { Picker } from "./picker.js";
import { drawJSON, drawReports, planned, priced, priceOf } from "./reports.js";
import { Rooms } from "./rooms.js";
import { charts, curl, earlier, latest, picked, readings, toRequest } from "./requests.js";
import { csv } from "./series.js";
import { fragment, initial, orderOf, parse } from "./state.js";
import { needed, remember, remembered } from "./session.js";
import { duration, rangeOf } from "./time.js";
import { live, Times } from "./times.js";
import { drawLatest, latestOf } from "./newest.js";
import { drawAnswer, drawCharts, marked, notes, panelsOf, problem, same, updateCharts } from "./views.js";

const mostLatest = 500;
const catalogAge = 30e3; // ms, after which asking again reads the catalog again

const now = () => Date.now();
const query = matchMedia("(prefers-color-scheme: dark)");
const mode = () => document.documentElement.dataset.theme ?? (query.matches ? "dark" : "light");

let state = initial();
let session = { tenant: "", token: "" };
let catalog = nothing();
let charted = []; // what is to be destroyed before the next answer
let about = null; // what the service says of the tenant: {tenant, known, limits, publish}
let shown = null; // the answer on the page: {plan, panels, requests}
let spent = 0; // RU
let running = null; // AbortController
let timer = 0;
let focusing = ""; // the panel that is to have the focus once it is drawn
let hidden = new Map(); // by panel, the names of the curves that are hidden, so that a refresh keeps them so

function nothing() {
  return { metrics: [], devices: [], truncated: false, loaded: false, at: 0 };
}

// What views ask for.
const page = {
  presets: ["1h", "1d", "7d", "30d"],
  utc: false,
  get mode() {
    return mode();
  },
  get now() {
    return now();
  },
  sync: "binnacle",
  get sorted() {
    return orderOf(state.sort, "sort") ?? { column: "Age", down: true };
  },
  get ordered() {
    return orderOf(state.legend, "legend") ?? { column: "Curve", down: false };
  },
  // Notes the order of a table, "sort" or "legend".
  sort: (table, { column, down }) => keep({ [table]: (down ? "-" : "") + column }),
  keep: (part) => keep(part),
  // A chart is as tall as the window has room for beside its legend; several share it.
  heightOf: (panels, curves) => {
    const legend = Math.min(232, 30 + 24 * Math.min(curves, 9));
    const room = innerHeight - $("view").getBoundingClientRect().top - scrollY - legend - 110;
    return Math.round(Math.min(900, Math.max(panels > 1 ? 200 : 300, panels > 1 ? room / 2 : room)));
  },
  hiddenOf(panel) {
    const key = panel.title || panel.promql;
    if (!hidden.has(key)) hidden.set(key, new Set());
    return hidden.get(key);
  },
  // Notes which curves are hidden, once that has changed.
  hid: () => keep({ hide: [...hidden].flatMap(([key, names]) => [...names].map((name) => `${key}\n${name}`)) }),
  zoom: ({ from, to }) => change({ from: Math.max(0, Math.round(from)), to: Math.round(to), refresh: 0 }),
  range: (range) => change({ range, from: null, to: null }),
  say: (text) => {
    $("said").textContent = text;
  },
  annotations: () => annotations.all,
  annotate: (ms) => annotations.begin(ms),
  latest: () => change({ view: "latest" }),
  device: (device) => change({ devices: [device], q: "" }),
  metric: (metric, device) =>
    change({ room: "explore", metrics: [metric], devices: device ? [device] : state.devices, q: "", view: "chart" }),
  change: (part) => change(part),
  // A device, in another range where one is given.
  open: (device, range = {}) => change({ room: "device", devices: [device], ...range }),
  // Why a device has gaps: its room, from its verdicts on.
  why: (device) => {
    focusing = "Gaps";
    change({ room: "device", devices: [device] });
  },
  // What charts of other rooms need, as it is now.
  drawing: () => ({ utc: page.utc, mode: mode(), now: now(), sync: page.sync, zoom: page.zoom, say: page.say,
    annotations: page.annotations, annotate: page.annotate }),
};

const others = { fleet: new Fleet(page), device: new Device(page) };
const rooms = new Rooms($("rooms"), { change: (part) => change(part) });

const picker = new Picker($("picker"), { change: (part) => change({ ...part, q: "" }) });
const editor = new Editor($("query-section"), {
  run: (q) => {
    if (q) noted(session.tenant, q);
    return q === state.q ? again() : change({ q, also: q ? state.also : [] });
  },
  typed: (q) => price(q),
  known: {
    get metrics() {
      return catalog.metrics.map((m) => ({ metric: m.metric, detail: `${m.types.join(", ")}, ${m.devices} devices` }));
    },
    labels: () => ["device", "__name__", ...labelsSeen()],
    values: (label) =>
      label === "__name__"
        ? catalog.metrics.map((m) => m.metric)
        : [
            ...new Set([
              ...picker.values(label),
              ...curves()
                .map((c) => c.labels[label])
                .filter(Boolean),
            ]),
          ],
  },
});
const further = new Further($("further"), { change: (part) => change(part) });
const display = new Display($("display"), { change: (part) => change(part) });
const annotations = new Annotations($("annotations"), {
  ask: (request) => ask(request, session, ways()).then(paid),
  changed: () => (shown?.plan || state.room === "device") && shown && drawShown(),
  range: () => rangeOf(state, now()),
  utc: () => state.utc,
  now,
});
const earlierQueries = new History($("query-section").querySelector(".buttons"), {
  tenant: () => session.tenant,
  run: (q) => change({ q, also: [] }),
});
const times = new Times($("when"), { change, back: () => history.back(), again: () => again(), now });

function curves() {
  return shown?.panels?.flatMap((p) => p.curves) ?? [];
}

// Tags of the catalog, and labels that answers had.
function labelsSeen() {
  const found = new Set([...picker.labels(), ...curves().flatMap((c) => Object.keys(c.labels))]);
  found.delete("device");
  return [...found].sort();
}

// change takes over a part of the state that someone has changed: it gets an entry in the browser's history.
function change(part) {
  const next = { ...state, ...part };
  const same = fragment(next, { length }) === fragment(state, { length });
  state = next;
  if (!same) history.pushState({ depth: depth() + 1 }, "", "#" + fragment(state, { length }));
  show();
  if (!same) run();
}

// keep notes a part of the state that needs no new answer, and no entry in the history.
function keep(part) {
  const drawn = shown?.of === state;
  state = { ...state, ...part };
  if (drawn) shown.of = state;
  history.replaceState({ depth: depth() }, "", "#" + fragment(state, { length }));
}

// hiddenOf returns the curves that a state hides, by panel.
function hiddenOf({ hide }) {
  const by = new Map();
  for (const entry of hide) {
    const [key, name] = [entry.slice(0, entry.lastIndexOf("\n")), entry.slice(entry.lastIndexOf("\n") + 1)];
    by.set(key, (by.get(key) ?? new Set()).add(name));
  }
  return by;
}

function depth() {
  return history.state?.depth ?? 0;
}

// follow takes the state from the URL, as when someone went back or pasted a link.
function follow() {
  const next = parse(location.hash);
  const other = next.tenant !== "" && next.tenant !== session.tenant;
  state = { ...next, tenant: next.tenant || session.tenant };
  hidden = hiddenOf(state);
  if (other) enter({ tenant: next.tenant, token: session.token });
  else {
    show();
    run();
  }
}

function show() {
  page.utc = state.utc;
  const subject = { fleet: "Fleet", device: state.devices[0] || "Device", explore: state.q || state.metrics.join(", ") };
  document.title = [subject[state.room], session.tenant, "Binnacle"].filter(Boolean).join(" · ");
  const { from, to } = rangeOf(state, now());
  const plan = charts(state, catalog, { from, to }, width());
  picker.show(state, catalog, plan.by);
  editor.show(state.q, picked(state, plan));
  further.show(state, picked(state, plan));
  display.show(state);
  annotations.show();
  times.show(state, depth() > 0);
  for (const [view, tab] of tabs) {
    tab.setAttribute("aria-selected", String(state.view === view));
    tab.tabIndex = state.view === view ? 0 : -1;
  }
  rooms.show(state.room, (room) => "#" + fragment({ ...state, room }, { length }), about?.operators ?? "");
  const name = session.tenant || about?.tenant || (session.token ? "token" : "no tenant");
  fill(who, icon("tenant"), h("span", {}, name));
}

// How many points a chart has room for.
function width() {
  return Math.floor($("view").clientWidth / 4);
}

// --- who asks

const who = h("button", { id: "tenant", title: "Another tenant", on: { click: () => login() } });
$("who").append(who);

// enter begins with another tenant or token. What was picked of the one before is left behind.
function enter(next) {
  const other = next.tenant !== session.tenant || next.token !== session.token;
  const first = session.tenant === "" && session.token === "";
  if (other) {
    catalog = nothing();
    about = null;
    others.fleet.forget();
    annotations.forget();
  }
  if (other && !first) shown = null;
  session = next;
  remember(session);
  const keep =
    first || state.tenant === next.tenant
      ? state
      : { ...initial(), range: state.range, view: state.view, utc: state.utc, room: state.room };
  state = { ...keep, tenant: next.tenant };
  hidden = hiddenOf(state);
  history.replaceState({ depth: depth() }, "", "#" + fragment(state, { length }));
  show();
  run();
}

// login asks for another tenant or token.
async function login(why = null) {
  const needs = await needed(ways());
  if (!document.querySelector("dialog")) connect({ needs, session, problem: why && problem(why, []), check, done: enter });
}

// check returns why a session may not read, as an element; null if it may.
async function check(session) {
  try {
    await ask(toRequest("/api/v1/tenant", []), session, ways());
    return null;
  } catch (e) {
    return problem(asProblem(e), []);
  }
}

// What ask() needs of the browser.
function ways(signal) {
  return { fetch: (...of) => fetch(...of), now, signal };
}

// --- asking

async function again() {
  if (now() - catalog.at > 1000) catalog.at = 0;
  annotations.stale();
  await run();
}

// run asks for what the state shows. Whatever was under way is given up.
async function run() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  if (!session.tenant && !session.token) {
    blank();
    return;
  }
  busy(true);
  const asked = (request) => ask(request, session, ways(mine.signal)).then(paid);
  try {
    if (now() - catalog.at > catalogAge) await load(asked);
    if (catalog.metrics.length === 0 && state.q === "") {
      clear();
      firstSteps($("view"), about, again);
    } else if (others[state.room]) await runRoom(asked);
    else if (state.view === "latest") await runLatest(asked);
    else await runCharts(asked);
  } catch (e) {
    if (mine.signal.aborted) return;
    failed(e);
  }
  if (mine !== running) return;
  busy(false);
  if (live(state)) timer = setTimeout(tick, state.refresh * 1e3);
}

// A page that nobody sees does not ask; it catches up when it is seen.
function tick() {
  if (document.hidden) document.addEventListener("visibilitychange", () => run(), { once: true });
  else run();
}

async function load(asked) {
  const [tenant, metrics, devices] = await Promise.all([
    asked(toRequest("/api/v1/tenant", [])),
    asked(toRequest("/api/v1/metrics", [["limit", 5000]])),
    asked(toRequest("/api/v1/devices", [["limit", 1000]])),
  ]);
  about = tenant.body;
  catalog = {
    metrics: metrics.body.metrics,
    devices: devices.body.devices,
    truncated: devices.body.truncated,
    loaded: true,
    at: now(),
  };
  show();
}

async function runRoom(asked) {
  const { room } = state;
  const time = now();
  const context = { state, catalog, about, range: rangeOf(state, time), now: time, width: width() };
  const [{ answers, draw }, noted] = await Promise.all([others[room].run(asked, context), room === "device" ? annotations.load(asked) : []]);
  if (room !== state.room) return;
  destroy();
  shown = { plan: null, panels: [], requests: [], said: together([...answers, ...noted]), room: draw };
  drawShown();
}

async function runCharts(asked) {
  const plan = charts(state, catalog, rangeOf(state, now()), width());
  const requests = [...new Set(plan.panels.map((p) => p.request).filter(Boolean))];
  if (plan.panels.length === 0) {
    clear();
    suggest();
    return;
  }
  if (state.view === "explain") {
    await runExplain(asked, plan, requests);
    return;
  }
  const [all, noted] = await Promise.all([Promise.all(requests.map(asked)), annotations.load(asked)]);
  const before = await runBefore(asked, plan, requests);
  const answers = new Map(requests.map((r, i) => [r, all[i]]));
  const panels = panelsOf(plan, answers, catalog).map((panel, i) => displayed(panel, before.panels[i]));
  const was = shown;
  shown = { plan, panels, requests, said: together([...all, ...before.answers, ...noted]), of: state };
  if (state.view === "json") shown.room = (element) => drawJSON(element, requests, all);
  // The same curves again, as a page that asks by itself gets them: what is drawn stays, with newer values.
  else if (live(state) && was?.of === state && same(was.panels, panels) && quiet(was) && quiet(shown)) {
    updateCharts(charted, panels);
    drawAnswer($("answer"), shown.said, spent);
    return;
  }
  drawShown();
}

// quiet reports whether nothing is said above the charts of an answer.
function quiet({ said, plan, room }) {
  return !room && notes(said, plan?.left ?? 0).length === 0 && $("view").querySelector(".bad") === null;
}

// runBefore asks the same of an earlier time, if the state compares with one.
async function runBefore(asked, plan, requests) {
  if (!state.versus || state.view === "json") return { panels: [], answers: [] };
  const ms = duration(state.versus);
  const all = await Promise.all(requests.map((r) => asked(earlier(r, ms))));
  return { panels: panelsOf(plan, new Map(requests.map((r, i) => [r, all[i]])), catalog), answers: all };
}

// displayed returns a panel as the state displays it.
function displayed(panel, before) {
  const { curves, total } = topOf(panel.curves, state.top);
  const kept = new Set(curves.map((c) => c.name));
  const others = (before?.curves ?? []).filter((c) => kept.has(c.name));
  const { log, low, high } = state;
  return {
    ...panel,
    curves: before ? beside(curves, others, { ms: duration(state.versus), name: state.versus }) : curves,
    total,
    unit: catalog.metrics.find((m) => m.metric === panel.title)?.units[0] ?? "",
    log,
    low,
    high,
    stack: state.draw === "stack",
    heat: state.draw === "heat",
  };
}

// runExplain says what the view would cost, and, once that is wanted, what it has done.
async function runExplain(asked, plan, requests, told = false) {
  const all = await Promise.all(requests.map((r) => asked(planned(r, told))));
  const reports = requests.map((r, i) => ({ title: plan.panels.find((p) => p.request === r).title || "Query", report: all[i].body }));
  const run = h("button", { class: "primary", on: { click: () => explainRun(plan, requests) } }, "Run it, and say what it did");
  shown = { plan: null, panels: [], requests, said: together(all), room: (element) => drawReports(element, reports, told ? null : run) };
  drawShown();
}

async function explainRun(plan, requests) {
  busy(true);
  const asked = (request) => ask(request, session, ways(running.signal)).then(paid);
  await runExplain(asked, plan, requests, true).catch(failed);
  busy(false);
}

// price says beside the box what a query that is being typed would cost, once nobody has typed for a moment.
let pricing = 0;
function price(q) {
  clearTimeout(pricing);
  editor.price("");
  if (q.trim() === "" || (!session.tenant && !session.token)) return;
  pricing = setTimeout(async () => {
    const plan = charts({ ...state, q, also: [] }, catalog, rangeOf(state, now()), width());
    try {
      const answer = paid(await ask(planned(plan.panels[0].request), session, ways()));
      editor.price(priced(priceOf([answer.body])));
    } catch {
      // it is not a query yet: what is wrong is said when it is run
    }
  }, 700);
}

// paid adds what an answer cost to what the page has spent.
function paid(a) {
  spent += a.cost?.request_units ?? 0;
  return a;
}

function drawShown() {
  destroy();
  const { panels, said, plan, rows, room } = shown;
  const wanted = focusing;
  focusing = "";
  const below = h("div", { class: "stack" });
  fill($("view"), notes(said, plan?.left ?? 0, plan && lacking(panels, Math.min(plan.range.to, now()))), below);
  if (room) room(below);
  else if (rows) drawLatest(below, rows, page);
  else charted = drawCharts(below, panels, page);
  drawAnswer($("answer"), said, spent);
  if (wanted && room) reach(wanted);
}

async function runLatest(asked) {
  const range = rangeOf(state, now());
  const request = latest(state, catalog, range, mostLatest);
  const answer = request ? await asked(request) : null;
  const said = together(answer ? [answer] : []);
  shown = {
    plan: null,
    panels: [],
    requests: request ? [request] : [],
    said,
    rows: answer ? latestOf(answer.body) : [],
  };
  drawShown();
}

function busy(on) {
  $("progress").hidden = !on;
  $("view").toggleAttribute("data-live", live(state));
  $("view").setAttribute("aria-busy", String(on));
}

function destroy() {
  for (const { chart } of charted) chart?.destroy();
  charted = [];
  for (const r of Object.values(others)) r.destroy();
}

function clear() {
  destroy();
  shown = null;
  fill($("answer"));
}

// failed shows an error in the place of the answer, or above it while the page asks again by itself.
function failed(e) {
  const p = asProblem(e);
  if (!catalog.loaded) {
    catalog.failed = true;
    show();
  }
  const kept = live(state) && shown !== null && !p.denied;
  if (!kept) clear();
  const retry = h("button", { on: { click: () => again() } }, "Try again");
  const other = h("button", { class: "primary", on: { click: () => login(p) } }, "Another tenant or token");
  const below = kept ? [...$("view").children].filter((c) => !c.matches(".bad")) : [];
  const wrong = p.status === 400 && state.q !== "" ? marked(state.q, p.detail) : null;
  fill($("view"), problem(p, wrong ? [] : p.denied ? [other, retry] : [retry], wrong), below);
}

function asProblem(e) {
  if (e instanceof Problem) return e;
  console.error(e);
  return new Problem({ status: 0, title: "Error in this page", detail: String(e) });
}

function blank() {
  clear();
  busy(false);
  fill(
    $("view"),
    h(
      "div",
      { class: "panel empty" },
      h("h3", {}, "Which tenant?"),
      h("p", {}, "Choose a tenant to see its readings."),
      h("button", { class: "primary", on: { click: () => login() } }, "Choose a tenant"),
    ),
  );
}

function suggest() {
  const most = [...catalog.metrics]
    .filter((m) => m.types.some((t) => t !== "text"))
    .sort((a, b) => b.devices - a.devices)
    .slice(0, 12);
  fill(
    $("view"),
    h(
      "div",
      { class: "panel empty" },
      h("h3", {}, "What would you like to see?"),
      h("p", {}, "Pick metrics and devices on the left, or type PromQL above."),
      h(
        "div",
        { class: "some" },
        most.map((m) => h("button", { on: { click: () => change({ metrics: [m.metric] }) } }, m.metric)),
      ),
    ),
  );
}

// --- the frame

const tabs = [
  ["chart", "Chart"],
  ["latest", "Latest"],
  ["json", "JSON"],
  ["explain", "Explain"],
].map(([view, name], i, all) => [
  view,
  h(
    "button",
    {
      role: "tab",
      id: "tab-" + view,
      "aria-controls": "view",
      title: `${name} (${i + 1})`,
      on: {
        click: () => change({ view }),
        keydown: (e) => {
          const by = { ArrowLeft: all.length - 1, ArrowRight: 1 }[e.key];
          if (!by) return;
          const [other] = all[(i + by) % all.length];
          change({ view: other });
          $("tab-" + other).focus();
        },
      },
    },
    name,
  ),
]);
fill(
  $("views"),
  tabs.map(([, tab]) => tab),
);

const tool = (id, name, key, drawing, act) =>
  h(
    "button",
    {
      id,
      class: "square plain",
      title: `${name} (${key})`,
      "aria-label": name,
      on: {
        click: act,
      },
    },
    icon(drawing),
  );
fill(
  $("tools"),
  tool("share", "Share and export", "e", "share", () => offer()),
  tool("theme", "Light or dark", "l", "theme", () => flip()),
  tool("help", "Keys", "?", "help", () => keys()),
);

function offer() {
  const range = rangeOf(state, now());
  const origin = location.origin;
  const plan = charts(state, catalog, range, width());
  const items = [{ title: "Link", hint: session.token ? "without the token" : "", text: location.href }];
  const promql = state.q || picked(state, plan);
  if (promql) items.push({ title: "PromQL", hint: "for Grafana, or promtool", text: promql });
  const requests = shown?.requests ?? [];
  if (requests.length > 0) {
    items.push({
      title: "curl",
      hint: "what this page has asked",
      text: requests.map((r) => curl(r, origin, session)).join("\n\n"),
    });
  }
  if (shown?.panels?.length > 0)
    items.push({
      title: "CSV of the curves",
      hint: "as drawn",
      save: { name: "binnacle.csv", make: () => csv(shown.panels) },
    });
  if (!state.q && state.metrics.length + state.devices.length > 0) {
    items.push({
      title: "CSV of the readings",
      hint: "all that was sent in this range",
      text: curl(readings(state, catalog, range), origin, session) + " \\\n  -o readings.csv",
    });
  }
  share(items);
}

// flip changes the colours. What the system has is not kept, so that the page follows it again.
function flip() {
  const next = mode() === "dark" ? "light" : "dark";
  const system = query.matches ? "dark" : "light";
  try {
    if (next === system) localStorage.removeItem("binnacle.theme");
    else localStorage.setItem("binnacle.theme", next);
  } catch {
    // it lasts as long as the page
  }
  if (next === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  if (shown) drawShown();
}

query.addEventListener("change", () => shown && drawShown());

const shortcuts = {
  "/": ["focus the query", () => focus("query")],
  m: ["focus the metrics", () => focus("metric-filter")],
  d: ["focus the devices", () => focus("device-filter")],
  t: ["range of time", () => times.toggle()],
  r: ["refresh", () => again()],
  b: ["back", () => depth() > 0 && history.back()],
  1: ["chart", () => change({ room: "explore", view: "chart" })],
  2: ["newest values", () => change({ room: "explore", view: "latest" })],
  3: ["the answer as JSON", () => change({ room: "explore", view: "json" })],
  4: ["what the query costs, before it runs", () => change({ room: "explore", view: "explain" })],
  h: ["earlier queries and favourites", () => earlierQueries.toggle()],
  F: ["the fleet", () => change({ room: "fleet" })],
  D: ["one device", () => change({ room: "device" })],
  X: ["explore: charts and PromQL", () => change({ room: "explore" })],
  e: ["share and export: link, PromQL, curl, CSV", () => offer()],
  l: ["light or dark", () => flip()],
  "?": ["all keys", () => keys()],
};

function keys() {
  help([
    { title: "Everywhere", keys: Object.entries(shortcuts).map(([k, [does]]) => [k, does]) },
    {
      title: "In the query",
      keys: [
        ["Enter", "run"],
        ["Shift+Enter", "another line"],
        ["Ctrl+Space", "what may stand here"],
        ["Tab", "take the first completion"],
        ["↑ ↓", "choose one"],
        ["Esc", "close the list, leave the box"],
      ],
    },
    {
      title: "On a chart",
      keys: [
        ["← →", "along the curves, with Shift by ten"],
        ["Home End", "to the ends"],
        ["+ −", "zoom in and out around the cursor"],
        ["n p", "to the next annotation, to the one before"],
        ["a", "annotate the time at the cursor"],
        ["Esc", "leave it"],
      ],
    },
    {
      title: "In lists",
      keys: [
        ["Enter", "in a filter: pick the first metric; make a matcher of devices"],
        ["Shift+click", "on a curve's name: show it alone"],
      ],
    },
  ]);
}

function focus(id) {
  if (state.room !== "explore") change({ room: "explore" });
  picker.toggle(id !== "query" || picker.element.classList.contains("open"));
  const e = $(id);
  e.focus();
  e.select?.();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || document.querySelector("dialog")) return;
  if (e.target.closest("input:not([type=checkbox]), textarea, select, .pop")) return;
  const shortcut = shortcuts[e.key];
  if (!shortcut) return;
  e.preventDefault();
  shortcut[1]();
});

$("skip").addEventListener("click", (e) => {
  e.preventDefault(); // the fragment is the page's state
  focus("query");
});
window.addEventListener("popstate", follow);

let columns = 0;
new ResizeObserver(() => {
  // A step fits the width that a chart had: another one is asked for when it has become much narrower or wider.
  if (columns && (width() > columns * 1.6 || width() < columns / 1.6) && shown?.panels?.length) run();
  columns = columns && Math.abs(width() - columns) < columns * 0.6 ? columns : width();
}).observe($("view"));

state = parse(location.hash);
hidden = hiddenOf(state);
session = { tenant: state.tenant || remembered("tenant"), token: remembered("token") };
state.tenant = session.tenant;
remember(session);
history.replaceState({ depth: 0 }, "", "#" + fragment(state, { length }));
show();
run();
if (!session.tenant && !session.token) login();
