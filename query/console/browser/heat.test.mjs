// The page of the load as an operator meets it, over an answer that is made up: what it draws, and what one can do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, shoot, startBrowser, startDev } from "./dev.mjs";

let dev, browser;

before(async () => {
  dev = await startDev();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

// heatOf makes an answer for a request: a key that is hot, of so many partitions.
function heatOf(url, partitions) {
  const q = new URL(url).searchParams;
  const [from, to] = [Number(q.get("from")), Number(q.get("to"))];
  const columns = 80;
  const step = Math.max(60e3, Math.ceil((to - from) / columns / 60e3) * 60e3);
  const per = Math.max(1, Math.floor(Number(q.get("rows")) / partitions));
  const rows = [];
  for (let r = 0; r < partitions; r++)
    for (let i = 0; i < per; i++) {
      const at = (r + i / per) / partitions;
      const hot = r === 1 && i === 0 ? 500 : 1 + ((r * 7 + i * 13) % 11);
      const values = Array.from({ length: columns }, (_, c) => hot * (1 + Math.sin(c / 9) / 2));
      rows.push({ first: `t${r}~${i}`, last: `t${r}~${i}`, keys: 1, range: r, at, values });
    }
  const ranges = Array.from({ length: partitions }, (_, i) => ({ start: i / partitions, end: (i + 1) / partitions, sum: 1 }));
  const marks = [{ at: from + 20 * step, kind: "split", text: "4 physical partitions became 5" }];
  const findings = [`Partition 1 of ${partitions} takes 41 % of the RU.`, "The key t1~0 alone takes 22 %."];
  return { container: "chunks-2026-11", kind: q.get("kind"), from, step, columns, now: 70, ranges, rows, keys: rows.length,
    folded: 0, lostRUs: 0, marks, findings };
}

async function open(partitions, options, fragment = "") {
  const page = await openPage(browser, "about:blank", options);
  page.asked = [];
  await page.route("**/api/v1/heat?*", (route) => {
    page.asked.push(route.request().url());
    return route.fulfill({ json: heatOf(route.request().url(), partitions) });
  });
  await page.goto(`${dev.admin}/heat${fragment}`);
  await page.locator('#map[aria-busy="false"]').waitFor();
  return page;
}

const close = async (page) => {
  assert.deepEqual(page.faults.filter((f) => !f.startsWith("asks ")), []);
  await page.context().close();
};

for (const partitions of [5, 100])
  for (const colorScheme of ["light", "dark"])
    test(`${partitions} partitions, ${colorScheme}, wide and 390 px`, async () => {
      for (const width of [1280, 390]) {
        const page = await open(partitions, { colorScheme, viewport: { width, height: 800 } });
        assert.equal(await page.locator("#findings li").first().textContent(), `Partition 1 of ${partitions} takes 41 % of the RU.`);
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, "nothing lies beyond the edge");
        const seen = await page.evaluate(() => {
          const c = document.querySelector("#map canvas");
          const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
          const colours = new Set();
          for (let i = 0; i < data.length; i += 4) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
          return colours.size;
        });
        assert.ok(seen > 20, `${seen} colours`);
        await shoot(page, `heat-${partitions}-${colorScheme}-${width}`);
        await close(page);
      }
    });

test("a click pins what a cell is, with its key to copy; Escape lets go", async () => {
  const page = await open(5);
  const box = await page.locator("#map").boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  const tip = page.locator(".heat-tip.pinned");
  await tip.waitFor();
  assert.match(await tip.textContent(), /RU.*t2~\d+.*partition 2.*Copy key/s);
  await page.mouse.move(box.x + 100, box.y + 60);
  assert.ok(await tip.isVisible(), "a pinned one stays");
  await page.keyboard.press("Escape");
  await page.locator(".heat-tip").waitFor({ state: "hidden" });
  await close(page);
});

test("a brush zooms, the address bar has it, back and Show all undo it", async () => {
  const page = await open(5);
  const box = await page.locator("#map").boundingBox();
  await page.mouse.move(box.x + 300, box.y + 120);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 300, { steps: 4 });
  await page.mouse.up();
  await page.locator("#whole").waitFor();
  const q = new URLSearchParams(new URL(page.url()).hash.slice(1));
  assert.ok(Number(q.get("from")) < Number(q.get("to")) && Number(q.get("low")) < Number(q.get("high")));
  await page.locator('#map[aria-busy="false"]').waitFor();
  assert.match(page.asked.at(-1), new RegExp(`from=${Math.round(Number(q.get("from")))}`));
  await page.locator("#whole").click();
  await page.locator("#whole").waitFor({ state: "hidden" });
  await page.goBack();
  await page.locator("#whole").waitFor();
  await close(page);
});

test("the keyboard moves, pins, zooms and sets the brightness", async () => {
  const page = await open(5);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".heat-tip.pinned").waitFor();
  const asked = page.asked.length;
  await page.keyboard.press("]");
  assert.match(page.url(), /brightness=0\.55/);
  assert.equal(page.asked.length, asked, "brightness asks nobody");
  await page.keyboard.press("+");
  await page.locator("#whole").waitFor();
  assert.equal(page.asked.length, asked + 1);
  await close(page);
});

test("what is wrong is said", async () => {
  const page = await open(5);
  await page.unroute("**/api/v1/heat?*");
  await page.goto(`${dev.admin}/heat#container=none`);
  await page.locator("#answer.bad").waitFor();
  assert.match(await page.locator("#answer").textContent(), /read the physical partitions of none: no such container/);
  await page.context().close();
});
