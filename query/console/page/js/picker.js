// The left side: which metrics, of which devices, and how many curves that makes.

import { fill, h, icon, middleCut } from "./dom.js";
import { count } from "./format.js";
import { expression, matches } from "./requests.js";
import { aggregations, operators } from "./state.js";

// A list shows so many; the filter finds the others.
const mostRows = 300;

/** Picker shows the catalog of a tenant, and calls `change` with what of the state becomes different. */
export class Picker {
  constructor(element, { change, reload }) {
    Object.assign(this, { element, change, reload, filters: { metrics: "", devices: "" } });
    this.catalog = { metrics: [], devices: [], truncated: false, loaded: false };
    this.metrics = h("div", { class: "list", role: "group", "aria-label": "Metrics" });
    this.devices = h("div", { class: "list short", role: "group", "aria-label": "Devices" });
    this.matchers = h("div", {});
    this.metricsHint = h("span", { class: "hint" });
    this.devicesHint = h("span", { class: "hint" });
    this.clearMetrics = this.clear("Clear metrics", () => this.change({ metrics: [] }));
    this.clearDevices = this.clear("Clear devices", () => this.change({ devices: [], match: [] }));
    this.by = h("select", { on: { change: (e) => this.change({ by: e.target.value }) } });
    this.agg = h(
      "select",
      { on: { change: (e) => this.change({ agg: e.target.value }) } },
      aggregations.map((a) => h("option", { value: a }, a)),
    );
    this.foldHint = h("span", { class: "hint" });
    this.fold = h(
      "button",
      { class: "fold", "aria-expanded": "false", "aria-controls": "picker", on: { click: () => this.toggle() } },
      icon("filter"),
      "Metrics and devices",
      this.foldHint,
    );
    fill(
      element,
      this.fold,
      h(
        "section",
        { class: "part" },
        h("h2", {}, "Metrics", this.metricsHint, this.clearMetrics),
        this.filter("metrics", "metric-filter", "Filter metrics", "metrics that contain…"),
        this.metrics,
      ),
      h(
        "section",
        { class: "part" },
        h("h2", {}, "Devices", this.devicesHint, this.clearDevices),
        this.matchers,
        this.filter(
          "devices",
          "device-filter",
          "Filter devices by name, a regular expression",
          "devices like truck-00.*",
        ),
        this.devices,
      ),
      h(
        "section",
        { class: "part" },
        h("h2", {}, "Curves"),
        h(
          "div",
          { class: "curves" },
          h("label", { class: "above" }, "Group by", this.by),
          h("label", { class: "above" }, "Aggregate", this.agg),
        ),
      ),
    );
  }

  clear(label, act) {
    return h("button", { class: "link", hidden: true, "aria-label": label, on: { click: act } }, "clear");
  }

  filter(which, id, label, placeholder) {
    const field = h("input", {
      class: "field",
      id,
      type: "search",
      placeholder,
      "aria-label": label,
      autocomplete: "off",
      spellcheck: false,
      on: {
        input: (e) => {
          this.filters[which] = e.target.value;
          this.lists();
        },
        keydown: (e) => this.enter(e, which),
      },
    });
    this[which + "Filter"] = field;
    return field;
  }

  // Enter picks: of metrics the only or first one that is shown; of devices all that match, as a matcher.
  enter(e, which) {
    if (e.key !== "Enter" || e.target.value === "") return;
    if (which === "metrics") {
      const first = this.metrics.querySelector("input:not(:checked)") ?? this.metrics.querySelector("input");
      first?.click();
    } else {
      const value = this.byPattern(e.target.value) ? e.target.value : `.*${e.target.value}.*`;
      this.change({ match: [...this.state.match, { label: "device", op: "=~", value }] });
    }
    e.target.value = this.filters[which] = "";
    this.lists();
  }

  toggle(open = !this.element.classList.contains("open")) {
    this.element.classList.toggle("open", open);
    this.fold.setAttribute("aria-expanded", String(open));
  }

  /** show shows a state and a catalog. */
  show(state, catalog, by) {
    Object.assign(this, { state, catalog, drawnBy: by });
    this.lists();
    this.rules();
    this.curves();
  }

  lists() {
    const { state, catalog } = this;
    if (!state) return;
    const wanted = this.filters.metrics.toLowerCase();
    const known = new Set(catalog.metrics.map((m) => m.metric));
    const gone = state.metrics.filter((m) => !known.has(m)).map((m) => ({ metric: m, types: [], devices: 0 }));
    const metrics = [...catalog.metrics, ...gone].filter((m) => m.metric.toLowerCase().includes(wanted));
    this.rows(
      this.metrics,
      metrics,
      (m) =>
        this.row(
          m.metric,
          state.metrics.includes(m.metric),
          m.devices === 0 ? "not known" : `${m.types.filter((t) => t !== "float").join(" ")} ${m.devices}`.trim(),
          count(m.devices, "device"),
          (on) => this.change({ metrics: toggled(state.metrics, m.metric, on) }),
        ),
      !catalog.loaded ? loading(catalog) : wanted ? "No metric matches." : "No metrics yet.",
    );
    this.metricsHint.textContent = catalog.loaded ? String(catalog.metrics.length) : "";
    this.clearMetrics.hidden = state.metrics.length === 0;

    const matching = catalog.devices.filter((d) => matches(d, { match: state.match, devices: [] }));
    const named =
      this.byPattern(this.filters.devices) ?? ((d) => d.toLowerCase().includes(this.filters.devices.toLowerCase()));
    const devices = matching.filter((d) => this.filters.devices === "" || named(d.device));
    this.rows(
      this.devices,
      devices,
      (d) =>
        this.row(
          d.device,
          state.devices.includes(d.device),
          "",
          Object.entries(d.tags)
            .map(([l, v]) => `${l}=${v}`)
            .join("  "),
          (on) => this.change({ devices: toggled(state.devices, d.device, on) }),
        ),
      !catalog.loaded ? loading(catalog) : "No device matches.",
    );
    const of = `${catalog.devices.length.toLocaleString("en")}${catalog.truncated ? "+" : ""}`;
    this.devicesHint.textContent = !catalog.loaded
      ? ""
      : matching.length < catalog.devices.length
        ? `${matching.length} of ${of}`
        : of;
    this.clearDevices.hidden = state.devices.length + state.match.length === 0;
    const picks = [...state.metrics, ...state.match.map((m) => m.label + m.op + m.value), ...state.devices];
    this.foldHint.textContent = picks.join(", ");
  }

  // A filter with signs of regular expressions is one, and matches whole names; any other is a part of a name.
  byPattern(text) {
    if (!/[.*+?|()[\]^$\\]/.test(text)) return null;
    const pattern = expression(text);
    this.devicesFilter.setAttribute("aria-invalid", String(pattern === null));
    return pattern === null ? null : (d) => pattern.test(d);
  }

  rows(list, items, make, none) {
    const held = list.contains(document.activeElement) ? document.activeElement.value : null;
    const top = list.scrollTop;
    fill(
      list,
      items.slice(0, mostRows).map(make),
      items.length === 0 ? h("p", { class: "none" }, none) : null,
      items.length > mostRows
        ? h("p", { class: "none" }, `and ${count(items.length - mostRows, "other")}: filter by name`)
        : null,
    );
    list.scrollTop = top;
    if (held !== null) [...list.querySelectorAll("input")].find((i) => i.value === held)?.focus();
  }

  row(name, checked, hint, title, change) {
    return h(
      "label",
      { class: "row", title: title || name },
      h("input", { type: "checkbox", value: name, "aria-label": name, checked, on: { change: (e) => change(e.target.checked) } }),
      h("span", { class: "name" }, middleCut(name)),
      hint ? h("span", { class: "hint" }, hint) : null,
    );
  }

  rules() {
    const { state } = this;
    const names = this.labels();
    const held = this.matchers.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    const put = (i, part) => this.change({ match: state.match.map((m, n) => (n === i ? { ...m, ...part } : m)) });
    fill(
      this.matchers,
      state.match.map((m, i) =>
        h(
          "div",
          { class: "matcher", role: "group", "aria-label": `Matcher ${i + 1}` },
          this.pick(`${i}.label`, "Tag", [...new Set([m.label, ...names])], m.label, (label) => put(i, { label })),
          this.pick(`${i}.op`, "Operator", operators, m.op, (op) => put(i, { op })),
          this.value(i, m, (value) => put(i, { value })),
          h(
            "button",
            {
              class: "square plain",
              "aria-label": `Remove matcher ${m.label}`,
              on: {
                click: () => this.change({ match: state.match.filter((_, n) => n !== i) }),
              },
            },
            icon("close"),
          ),
        ),
      ),
      h(
        "button",
        {
          class: "plain flush",
          disabled: names.length === 0,
          on: {
            click: () => {
              const label = names.find((n) => n !== "device" && !state.match.some((m) => m.label === n)) ?? names[0];
              this.change({ match: [...state.match, { label, op: "=", value: this.values(label)[0] ?? "" }] });
              this.matchers.querySelector(`[data-at="${state.match.length}.value"]`)?.focus();
            },
          },
        },
        icon("plus"),
        "By tag",
      ),
    );
    if (held) this.matchers.querySelector(`[data-at="${held}"]`)?.focus();
  }

  pick(at, label, options, value, change) {
    const e = h(
      "select",
      { "aria-label": label, on: { change: (ev) => change(ev.target.value) } },
      options.map((o) => h("option", { value: o, selected: o === value }, o)),
    );
    e.dataset.at = at;
    return e;
  }

  // The values that there are are offered; with a regular expression any text may stand.
  value(i, m, change) {
    const id = `values-${i}`;
    const bad = m.op.endsWith("~") && expression(m.value) === null;
    const field = h("input", {
      class: "field",
      value: m.value,
      list: id,
      "aria-label": `Value of ${m.label}`,
      "aria-invalid": String(bad),
      spellcheck: false,
      autocomplete: "off",
      on: { change: (e) => change(e.target.value) },
    });
    field.dataset.at = `${i}.value`;
    return h(
      "span",
      {},
      field,
      h(
        "datalist",
        { id },
        this.values(m.label).map((v) => h("option", { value: v })),
      ),
    );
  }

  curves() {
    const { state } = this;
    const tags = this.labels().filter((l) => l !== "device");
    const by = this.drawnBy;
    const auto = by === "device" ? "auto: each device" : by === "all" ? "auto: all together" : "auto";
    const options = [
      ["", state.by ? "auto" : auto],
      ["device", "each device"],
      ["all", "all together"],
      ...tags.map((t) => [t, `each ${t}`]),
    ];
    if (state.by && !options.some(([v]) => v === state.by)) options.push([state.by, `each ${state.by}`]);
    fill(
      this.by,
      options.map(([value, text]) => h("option", { value, selected: value === state.by }, text)),
    );
    this.agg.value = state.agg;
    this.agg.disabled = by === "device";
  }

  /** labels returns the names of what devices are told by. */
  labels() {
    return ["device", ...new Set(this.catalog.devices.flatMap((d) => Object.keys(d.tags)).sort())];
  }

  /** values returns the values of a tag. */
  values(label) {
    return [...new Set(this.catalog.devices.map((d) => (label === "device" ? d.device : (d.tags[label] ?? ""))))]
      .filter(Boolean)
      .sort()
      .slice(0, 200);
  }
}

function loading(catalog) {
  return catalog.failed ? "Not loaded." : "Loading…";
}

function toggled(list, item, on) {
  return on ? [...new Set([...list, item])] : list.filter((x) => x !== item);
}
