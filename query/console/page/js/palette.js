// Colours of what is drawn on canvases, in both modes. The page's own stand in style.css; test/palette.test.mjs holds
// both to contrast, and the curves' apart from each other for eyes that lack a kind of cone.

const modes = {
  light: {
    ground: "#ffffff",
    axis: "#5b6470",
    grid: "#e9ebee",
    gap: "#8a5a00",
    cursor: "#5b6470",
    mark: "#17703a",
    series: ["#1f6fc4", "#a24e10", "#4f3797", "#a08f12", "#dd6991", "#88194a"],
  },
  dark: {
    ground: "#14171c",
    axis: "#9aa4b1",
    grid: "#23282f",
    gap: "#e0b050",
    cursor: "#9aa4b1",
    mark: "#63c98a",
    series: ["#5aa9f5", "#efd62f", "#b9649f", "#4deef6", "#fc9192", "#a97e2c"],
  },
};

/** palette returns the colours of a mode, "light" or "dark". */
export function palette(mode) {
  return modes[mode] ?? modes.light;
}

// Curves beyond the first six have the same colours again, dashed.
const dashes = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

/** inkOf returns colour and dash of the nth curve. */
export function inkOf(mode, n) {
  const { series } = palette(mode);
  return { stroke: series[n % series.length], dash: dashes[Math.floor(n / series.length) % dashes.length] };
}

/** faded returns a colour #rrggbb with an opacity. */
export function faded(hex, opacity) {
  return (
    hex +
    Math.round(255 * opacity)
      .toString(16)
      .padStart(2, "0")
  );
}
