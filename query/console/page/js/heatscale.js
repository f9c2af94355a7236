// The scale of heat: symmetric-logarithmic, so that most of its colours are near the ground and only what is hot shines.

// From cold to hot. The ground is the panel's.
const ramps = {
  light: ["#ffffff", "#eef3f8", "#d7e6f2", "#f6e3a1", "#f5b84b", "#e8762c", "#c42f20", "#7d0f1b"],
  dark: ["#14171c", "#1b2230", "#2a2f52", "#54367f", "#93377f", "#d6545f", "#f59a4a", "#fff3a8"],
};

const steps = 256;

/** position returns where a value stands on the scale, 0 to 1. A higher brightness, 0 to 1, lets less heat shine. */
export function position(value, most, brightness) {
  if (!(value > 0) || !(most > 0)) return 0;
  const linear = most * 10 ** (-4 * brightness); // below it the scale is linear
  return Math.min(1, Math.log1p(value / linear) / Math.log1p(most / linear));
}

/** valueAt returns the value at a position: the inverse of position. */
export function valueAt(at, most, brightness) {
  const linear = most * 10 ** (-4 * brightness);
  return linear * Math.expm1(at * Math.log1p(most / linear));
}

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** colours returns the 256 colours of a mode as [r, g, b]. */
export function colours(mode) {
  const ramp = (ramps[mode] ?? ramps.light).map(channels);
  return Array.from({ length: steps }, (_, i) => {
    const at = (i / (steps - 1)) * (ramp.length - 1);
    const low = Math.min(Math.floor(at), ramp.length - 2);
    return ramp[low].map((c, k) => Math.round(c + (ramp[low + 1][k] - c) * (at - low)));
  });
}

/** image returns the pixels of rows of values, RGBA, a pixel a value. */
export function image(rows, columns, { most, brightness, mode }) {
  const table = colours(mode);
  const pixels = new Uint8ClampedArray(rows.length * columns * 4);
  rows.forEach((values, y) => {
    for (let x = 0; x < columns; x++) {
      const [r, g, b] = table[Math.round(position(values[x] ?? 0, most, brightness) * (steps - 1))];
      pixels.set([r, g, b, 255], (y * columns + x) * 4);
    }
  });
  return pixels;
}
