// The state of the page of operators, as the address bar has it.

/** views are its rooms. */
export const views = { partitions: "Partitions", tenants: "Tenants", ingest: "Ingest", rejected: "Rejected", actions: "Actions" };

/** spans are how far back a room looks. */
export const spans = ["1h", "6h", "24h", "168h"];

/** sorts are the orders of the list of tenants, each by the property of a row; numbers come with the greatest first. */
export const sorts = ["load", "tenant", "state", "cost", "rus", "throttled", "memory", "over", "refused", "registered"];

/** initial returns the state of a page that nobody has touched. partition is "" where none is looked at. */
export function initial() {
  return { view: "partitions", since: "1h", container: "", partition: "", tenant: "", find: "", sort: "load", process: "", reason: "", bill: false, refresh: 0 };
}

/** parse reads a fragment; what it does not know is left as it is at first. */
export function parse(hash) {
  const q = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial();
  if (Object.hasOwn(views, q.get("view") ?? "")) state.view = q.get("view");
  if (spans.includes(q.get("since"))) state.since = q.get("since");
  if (/^\d{1,4}$/.test(q.get("partition") ?? "")) state.partition = q.get("partition");
  for (const name of ["container", "tenant", "find", "process", "reason"]) state[name] = (q.get(name) ?? "").slice(0, 255);
  if (sorts.includes(q.get("sort"))) state.sort = q.get("sort");
  state.bill = q.get("bill") === "true";
  if (["10", "60"].includes(q.get("refresh"))) state.refresh = Number(q.get("refresh"));
  return state;
}

/** fragment returns the state without what is as at first. */
export function fragment(state) {
  const first = initial();
  return new URLSearchParams(
    Object.entries(state)
      .filter(([name, value]) => value !== first[name])
      .map(([name, value]) => [name, String(value)]),
  ).toString();
}

const day = 86400e3;
const hours = { "1h": 3600e3, "6h": 6 * 3600e3, "24h": day, "168h": 7 * day };

/** requests returns what a room asks for, by name: paths of the admin listener. */
export function requests(state, now) {
  const path = (name, parameters) => {
    const q = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== "")).toString();
    return `/api/v1/${name}${q ? "?" + q : ""}`;
  };
  const { since, container, tenant, reason } = state;
  const heat = path("partitions", { since, container });
  const rejected = path("rejected", { from: now - hours[since], reason, samples: 50 });
  return {
    partitions: { heat, placement: path("placement", {}) },
    tenants: { ...(tenant && { tokens: tenantPath(tenant) + "/tokens", actions: path("actions", { since: "720h", tenant }), ...(state.bill && { bill: tenantPath(tenant) + "/cost" }) }),
      heat, costs: path("costs", {}), rejected: path("rejected", { from: now - hours[since], samples: 100 }), tenants: tenantPath(tenant), placement: path("placement", { tenant }), bins: path("bins", { tenant, devices: tenant ? 20 : "" }),
      limits: path("limits", { tenant }) },
    ingest: { ingesters: path("ingesters", { tenant, devices: 20, by: "age" }), bins: path("bins", { tenant, devices: 20, by: "age" }), limits: path("limits", { tenant }) },
    rejected: { rejected },
    actions: { actions: path("actions", { since: "720h", tenant }), placement: path("placement", { tenant }) },
  }[state.view];
}

/** containersLike returns the containers whose partitions can be looked at beside one: of its month, and the catalog. */
export function containersLike(container) {
  const month = /^(?:chunks|rollups)-(\d{4}-\d\d)/.exec(container)?.[1];
  const others = month ? [`chunks-${month}`, `rollups-${month}`] : [];
  return [...new Set([container, ...others, "catalog"])].filter(Boolean);
}

/** isLocal reports whether a change of the state needs no new answers: the partition that is looked at. */
export function isLocal(part) {
  return Object.keys(part).every((name) => name === "partition");
}

/** tenantPath returns the path of a tenant, or that of all with an empty name. */
export function tenantPath(tenant) {
  return "/api/v1/tenants" + (tenant && "/" + encodeURIComponent(tenant));
}

/** ordered returns the rows of tenants in which all words of find stand, by an order of sorts. */
export function ordered(rows, find, sort) {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (r) => [r.tenant, r.named, r.contact, r.placement, r.tags, r.suspended ? "suspended " + r.suspended.reason : "active"].join(" ").toLowerCase();
  const name = (a, b) => (a.tenant < b.tenant ? -1 : 1);
  const by = {
    tenant: () => 0,
    state: (a, b) => Boolean(b.suspended) - Boolean(a.suspended),
    registered: (a, b) => (a.registered < b.registered ? -1 : a.registered > b.registered ? 1 : 0),
  }[sort] ?? ((a, b) => (b[sort] ?? 0) - (a[sort] ?? 0));
  return rows.filter((r) => words.every((w) => text(r).includes(w))).sort((a, b) => by(a, b) || name(a, b));
}

/** lags returns how many records of a Kafka partition are not read, not in the journal, and not in chunks. */
export function lags({ log_end: end, position, journal_floor: journal, floor }) {
  return { unread: Math.max(0, end - position), unjournaled: Math.max(0, position - journal), unstored: Math.max(0, position - floor) };
}

/** lagsOf returns the sums of lags of Kafka partitions. */
export function lagsOf(partitions) {
  return partitions.map(lags).reduce((a, l) => ({ unread: a.unread + l.unread, unjournaled: a.unjournaled + l.unjournaled, unstored: a.unstored + l.unstored }),
    { unread: 0, unjournaled: 0, unstored: 0 });
}

/** heldBy returns which processes say that they hold a Kafka partition, for those that more than one holds. */
export function heldBy(processes) {
  const by = new Map();
  for (const { process, bins } of processes)
    for (const { topic, partition } of bins?.partitions ?? []) by.set(`${topic}/${partition}`, [...(by.get(`${topic}/${partition}`) ?? []), process]);
  return [...by].filter(([, names]) => names.length > 1);
}

/** tenantsHeld returns what processes hold of each tenant together, the oldest reading first. */
export function tenantsHeld(reports) {
  const by = new Map();
  for (const t of reports.flatMap((b) => b.tenants ?? [])) {
    const sum = by.get(t.tenant) ?? { tenant: t.tenant, devices: 0, bins: 0, readings: 0, bytes: 0, from: t.from, records_behind: 0 };
    for (const name of ["devices", "bins", "readings", "bytes", "records_behind"]) sum[name] += t[name] ?? 0;
    if (Date.parse(t.from) < Date.parse(sum.from)) sum.from = t.from;
    by.set(t.tenant, sum);
  }
  return [...by.values()].sort((a, b) => Date.parse(a.from) - Date.parse(b.from));
}

/** refusedBy returns how many of the samples of refused readings name each tenant, the most first. */
export function refusedBy(rejected) {
  const by = new Map();
  for (const { samples } of rejected) for (const { tenant = "" } of samples ?? []) by.set(tenant, (by.get(tenant) ?? 0) + 1);
  return [...by].sort((a, b) => b[1] - a[1]);
}
