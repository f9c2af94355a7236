// Colours: enough contrast in both modes, and curves that those can tell apart who lack a kind of cone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { faded, inkOf, palette } from "../page/js/palette.js";

const style = readFileSync(new URL("../page/style.css", import.meta.url), "utf8");
const variables = new Map(
  [...style.matchAll(/--([a-z-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [
    name,
    { light, dark },
  ]),
);

const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const rgb = (hex) => [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

// WCAG 2.2, contrast ratio.
function contrast(a, b) {
  const [x, y] = [luminance(rgb(a)), luminance(rgb(b))].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

// Machado, Oliveira and Fernandes 2009, severity 1.
const eyes = {
  all: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  "without long": [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  "without middle": [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
};

// Oklab, Ottosson 2020.
function oklab([r, g, b]) {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

const seen = (hex, eye) =>
  oklab(
    eye.map((row) =>
      Math.min(
        1,
        Math.max(
          0,
          row.reduce((sum, f, i) => sum + f * rgb(hex)[i], 0),
        ),
      ),
    ),
  );
const distance = (a, b) => Math.hypot(...a.map((v, i) => v - b[i]));

for (const mode of ["light", "dark"]) {
  test(`texts of the ${mode} page have a contrast of 4.5`, () => {
    assert.ok(variables.size > 12, "variables are found");
    for (const ground of ["ground", "panel", "raised", "sunk"]) {
      for (const ink of ["text", "muted", "accent", "good", "warn", "bad"]) {
        const ratio = contrast(variables.get(ink)[mode], variables.get(ground)[mode]);
        assert.ok(ratio >= 4.5, `${ink} on ${ground}: ${ratio.toFixed(2)}`);
      }
    }
    for (const [ink, ground] of [
      ["on-accent", "accent"],
      ["bad", "bad-ground"],
      ["warn", "warn-ground"],
      ["text", "warn-ground"],
    ]) {
      const ratio = contrast(variables.get(ink)[mode], variables.get(ground)[mode]);
      assert.ok(ratio >= 4.5, `${ink} on ${ground}: ${ratio.toFixed(2)}`);
    }
  });

  test(`edges of the ${mode} page's fields, and its curves, have a contrast of 3`, () => {
    const { ground, axis, gap, mark, series } = palette(mode);
    assert.equal(ground, variables.get("panel")[mode], "charts stand on panels");
    for (const ink of [variables.get("edge")[mode], axis, gap, mark, ...series]) assert.ok(contrast(ink, ground) >= 3, ink);
    assert.ok(contrast(axis, ground) >= 4.5, "numbers of axes are text");
  });

  test(`curves of the ${mode} page are told apart by all eyes`, () => {
    const { series } = palette(mode);
    for (const [name, eye] of Object.entries(eyes)) {
      for (const [i, a] of series.entries()) {
        for (const b of series.slice(0, i)) {
          const apart = distance(seen(a, eye), seen(b, eye));
          assert.ok(apart >= 0.1, `${a} and ${b}, ${name}: ${apart.toFixed(3)}`);
        }
      }
    }
  });
}

test("more curves than colours differ by their dashes", () => {
  const inks = Array.from({ length: 24 }, (_, n) => JSON.stringify(inkOf("light", n)));
  assert.equal(new Set(inks).size, 24);
  assert.equal(faded("#102030", 0.5), "#10203080");
  assert.equal(palette("no such mode"), palette("light"));
});
