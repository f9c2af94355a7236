// Each room for those who see little, or use no mouse: names of controls, the focus, contrast, in both themes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, startBrowser, startDev } from "./dev.mjs";

const minute = 60e3;
let dev, browser;

// Three devices, of which one is silent, with a number, a text and a position; one reading is refused.
before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const now = Date.now();
  const messages = [];
  for (let n = 1; n <= 3; n++)
    for (let t = n === 3 ? 60 : 30; t > (n === 3 ? 30 : 0); t--)
      messages.push({ tenant: "acme", device: `m${n}`, ts: now - t * minute, tags: { site: "hall" }, values: { load: n + t, state: t % 20 ? "on" : "off", lat: 53, lon: 9 + n } });
  messages.push({ tenant: "acme", device: "m1", ts: now + 9 * 86400e3, values: { load: 1 } });
  await publish(dev, messages);
  const refused = async () =>
    (await (await fetch(`${dev.url}/api/v1/rejected`, { headers: { "X-Scope-OrgID": "acme" } })).json()).rejected;
  while ((await refused()).length === 0) await new Promise((done) => setTimeout(done, 50)); // it follows its topic
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

const rooms = [
  ["page", "/#tenant=acme"],
  ["page", "/#tenant=acme&room=device&device=m1&range=1h"],
  ["page", "/#tenant=acme&room=explore&metric=load&range=1h&by=device"],
  ["page", "/#tenant=acme&room=explore&q=load&draw=heat&range=1h"],
  ["page", "/#tenant=acme&room=explore&view=latest&metric=load&range=1h"],
  ...["partitions&partition=0", "tenants", "tenants&tenant=acme", "ingest", "rejected", "actions"].map((view) => ["operators", `/operators#view=${view}`]),
];

// What in a page has text that stands out too little: 4.5 to 1 is needed, 3 to 1 of large text (WCAG 2.2, 1.4.3).
function faint() {
  const part = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const dot = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    dot.clearRect(0, 0, 1, 1);
    dot.fillStyle = colour;
    dot.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = dot.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
  const out = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let read = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const e = texts.currentNode.parentElement;
    if (!text || !e.checkVisibility({ visibilityProperty: true }) || e.closest("noscript, option, [disabled], .unseen, .skip")) continue;
    read++;
    const style = getComputedStyle(e);
    const above = [];
    for (let q = e; q; q = q.parentElement) above.unshift(getComputedStyle(q));
    const ground = above.reduce((below, s) => over(rgba(s.backgroundColor), below), [255, 255, 255]);
    const ink = rgba(style.color);
    ink[3] *= above.reduce((n, s) => n * Number(s.opacity), 1);
    const [light, dark] = [luminance(over(ink, ground)), luminance(ground)].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < (large ? 3 : 4.5)) out.push(`${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  return { read, faint: out };
}

// Controls without a name.
function nameless() {
  return [...document.querySelectorAll("button, input, select, textarea, a[href], summary, [role=application]")]
    .filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim() || e.closest("label")))
    .map((e) => e.outerHTML);
}

// What can be pressed, and is not among what the keyboard reached.
function unreached(reached) {
  return [...document.querySelectorAll("#view button, #view summary, #view a[href], #view input, #view select, #view [role=application]")]
    .filter((e, i) => !reached.includes(i) && e.checkVisibility({ visibilityProperty: true }) && !e.disabled)
    .map((e) => e.outerHTML.slice(0, 120));
}

// What has the focus: its place among what can be pressed, and whether it shows it.
function focused() {
  const e = document.activeElement;
  const all = [...document.querySelectorAll("#view button, #view summary, #view a[href], #view input, #view select, #view [role=application]")];
  const style = getComputedStyle(e.closest(".row") ?? e.closest(".box:has(textarea:focus)") ?? e);
  return { body: e === document.body, at: all.indexOf(e), what: e.outerHTML.slice(0, 120), shows: style.outlineStyle !== "none" || style.boxShadow !== "none" };
}

for (const colorScheme of ["light", "dark"])
  test(`text stands out, ${colorScheme}`, async () => {
    for (const [of, path] of rooms) {
      const page = await openPage(browser, (of === "page" ? dev.url : new URL(dev.admin).origin) + path, { colorScheme });
      await page.locator('#view[aria-busy="false"] .panel').first().waitFor();
      const { read, faint: found } = await page.evaluate(faint);
      assert.ok(read > 10, path);
      assert.deepEqual(found, [], path);
      await page.context().close();
    }
  });

test("the keyboard reaches everything, which has a name and shows the focus", async () => {
  for (const [of, path] of rooms) {
    const page = await openPage(browser, (of === "page" ? dev.url : new URL(dev.admin).origin) + path);
    await page.locator('#view[aria-busy="false"] .panel').first().waitFor();
    assert.deepEqual(await page.evaluate(nameless), [], path);
    const reached = [];
    for (let i = 0; i < 250; i++) {
      await page.keyboard.press("Tab");
      const { body, at, what, shows } = await page.evaluate(focused);
      if (body) break;
      assert.ok(shows, `${path}: ${what}`);
      if (at >= 0) reached.push(at);
    }
    assert.ok(reached.length > 0 || !path.includes("tenant"), path);
    assert.deepEqual(await page.evaluate(unreached, reached), [], path);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
});
