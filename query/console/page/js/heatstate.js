// The state of the heat page, as the address bar has it.

/** kinds are what can be shown, with the unit of a value. */
export const kinds = { rus: "RU", bytes: "B", throttled: "429s" };

/** spans are the lengths of time that have a button, in ms. */
export const spans = { "1h": 36e5, "6h": 216e5, "1d": 864e5, "7d": 6048e5, "30d": 2592e6 };

export function initial() {
  return { container: "", kind: "rus", span: "6h", from: 0, to: 0, low: 0, high: 1, brightness: 0.5 };
}

/** parse reads a fragment; what it does not know, or makes no sense, is left as it is at first. */
export function parse(hash) {
  const q = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial();
  const number = (name, min, max) => {
    const n = Number(q.get(name) ?? NaN);
    if (q.has(name) && n >= min && n <= max) state[name] = n;
  };
  state.container = (q.get("container") ?? "").slice(0, 255);
  if (Object.hasOwn(kinds, q.get("kind") ?? "")) state.kind = q.get("kind");
  if (Object.hasOwn(spans, q.get("span") ?? "")) state.span = q.get("span");
  number("from", 0, 1e14);
  number("to", 0, 1e14);
  number("low", 0, 1);
  number("high", 0, 1);
  number("brightness", 0, 1);
  if (!(state.from < state.to)) state.from = state.to = 0;
  if (!(state.low < state.high)) [state.low, state.high] = [0, 1];
  return state;
}

/** fragment returns the state without what is as at first. */
export function fragment(state) {
  const q = new URLSearchParams();
  const first = initial();
  for (const [name, value] of Object.entries(state)) if (value !== first[name]) q.set(name, String(value));
  return q.toString();
}

/** request returns the path that answers a state, for a map with so many rows. */
export function request(state, now, rows) {
  const q = new URLSearchParams({ kind: state.kind, rows: String(rows) });
  if (state.container) q.set("container", state.container);
  if (state.to > 0) {
    q.set("from", String(Math.round(state.from)));
    q.set("to", String(Math.round(state.to)));
  } else {
    // A sixth of the time is the forecast.
    q.set("from", String(now - spans[state.span]));
    q.set("to", String(now + Math.min(spans[state.span] / 5, 432e5)));
  }
  return "/api/v1/heat?" + q;
}
