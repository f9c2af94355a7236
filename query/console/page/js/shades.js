// Colours of values in a strip of devices: a ramp of one hue from least to greatest, or a colour for each state.

import { palette } from "./palette.js";

const ramps = {
  light: ["#dcebf7", "#9cc4e4", "#4e92c9", "#1c5fa5", "#08305f"],
  dark: ["#1d3553", "#285f96", "#3f8fd0", "#7fbdf0", "#dcefff"],
};

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** ramp returns the colour of a mode at a share from 0 to 1. */
export function ramp(mode, share) {
  const colours = ramps[mode] ?? ramps.light;
  const at = Math.min(1, Math.max(0, share)) * (colours.length - 1);
  const low = Math.min(Math.floor(at), colours.length - 2);
  const [a, b] = [channels(colours[low]), channels(colours[low + 1])];
  const hex = a.map((c, i) => Math.round(c + (b[i] - c) * (at - low)).toString(16).padStart(2, "0"));
  return "#" + hex.join("");
}

/**
 * shading returns how values are coloured: {numeric, low, high, states, of(mode, value)}. Of many numbers the lowest and
 * the highest hundredth share the colours at the ends, so that one that is far off does not hide the others. Texts and
 * bools have a colour each, the most frequent first.
 */
export function shading(values) {
  const numbers = values.filter((v) => typeof v === "number" || typeof v === "bigint").map(Number);
  if (numbers.length > 0) {
    numbers.sort((a, b) => a - b);
    const at = (share) => numbers[Math.round((numbers.length - 1) * share)];
    const edge = numbers.length >= 100 ? 0.01 : 0;
    const [low, high] = [at(edge), at(1 - edge)];
    const share = (v) => (high > low ? (Number(v) - low) / (high - low) : 0.5);
    const of = (mode, v) => (typeof v === "number" || typeof v === "bigint" ? ramp(mode, share(v)) : null);
    return { numeric: true, low, high, cut: edge > 0, states: [], of };
  }
  const seen = new Map();
  for (const v of values) if (v !== undefined && v !== null) seen.set(String(v), (seen.get(String(v)) ?? 0) + 1);
  const states = [...seen].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([state]) => state);
  return { numeric: false, states, of: (mode, v) => stateColour(mode, states, v) };
}

/** stateColour returns the colour of a state; beyond six they share that of the axes. Nothing has none. */
export function stateColour(mode, states, value) {
  if (value === undefined || value === null) return null;
  const { series, axis } = palette(mode);
  return series[states.indexOf(String(value))] ?? axis;
}

// The relative luminance of a colour #rrggbb, as WCAG 2 defines it.
function luminance(hex) {
  const [r, g, b] = channels(hex).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** textOn returns the colour of text on a colour: black or white, whichever is easier to read. */
export function textOn(hex) {
  const l = luminance(hex);
  return (l + 0.05) / 0.05 > 1.05 / (l + 0.05) ? "#000000" : "#ffffff";
}
