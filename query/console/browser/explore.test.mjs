// What Explore has beside a chart: further queries, an earlier time, stacks and heat maps, prices, what was typed before.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, shoot, startBrowser, startDev } from "./dev.mjs";

const minute = 60e3;
const noon = Math.floor((Date.now() - 100 * minute) / (10 * minute)) * 10 * minute;
const range = `from=${noon}&to=${noon + 60 * minute}`;
let dev, browser;

// Twelve devices for an hour, a value a minute: that of the nth is n, and n + 10 in the second half.
before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const messages = [];
  for (let t = 0; t < 60; t++)
    for (let n = 1; n <= 12; n++)
      messages.push({ tenant: "acme", device: `m${n}`, ts: noon + t * minute, values: { load: n + (t >= 30 ? 10 : 0), spare: 2 * n } });
  await publish(dev, messages);
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

async function open(fragment, options) {
  const page = await openPage(browser, `${dev.url}/#tenant=acme&room=explore&${fragment}`, options);
  await page.locator('#view[aria-busy="false"]').waitFor();
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const address = (page) => page.evaluate(() => location.href);
const panels = (page) => page.locator("#view .panel");

// becomes waits until something is as it should be.
async function becomes(get, want) {
  for (const end = Date.now() + 10_000; ; await new Promise((done) => setTimeout(done, 20))) {
    try {
      assert.deepEqual(await get(), want);
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

test("a second query, and their quotient", async () => {
  const page = await open(`metric=load&by=all&${range}&step=1m`);
  await panels(page).first().waitFor();
  const add = async (letter, text) => {
    await page.getByRole("button", { name: `Add query ${letter}` }).click();
    await page.getByLabel(`Query ${letter}`, { exact: true }).fill(text);
    await page.keyboard.press("Enter");
  };
  await add("B", "avg(spare)");
  await becomes(() => panels(page).count(), 2);
  await add("C", "B / A");
  await becomes(() => panels(page).count(), 3);
  assert.deepEqual((await page.locator(".panel h3").allInnerTexts()).map((t) => t.split(/\s{2,}|\n/)[0].slice(0, 2)), ["A:", "B:", "C:"]);
  assert.match(await panels(page).nth(2).locator(".legend tbody tr").innerText(), /0\.7878\d+/, "13 of 16.5");
  assert.match(await address(page), /also=avg%28spare%29&also=B\+%2F\+A/);
  await shoot(page, "explore-queries-light");
  await page.getByLabel("Drop query C").click();
  await becomes(() => panels(page).count(), 2);
  await page.goBack();
  await becomes(() => panels(page).count(), 3);
  await close(page);
});

test("the top curves of many with what all add up to, searched and sorted", async () => {
  const page = await open(`q=load&${range}&step=1m`);
  const rows = page.locator(".legend tbody tr");
  await becomes(() => rows.count(), 12);
  await page.getByLabel("Find a curve").fill("m1");
  await becomes(() => rows.count(), 4);
  await page.getByLabel("Find a curve").fill("");
  await page.locator('.legend [data-column="last"]').click();
  assert.equal(await page.locator(".legend .series").first().getAttribute("aria-label"), "m12");
  await page.getByText("Display", { exact: false }).first().click();
  await page.locator("[data-name=top]").selectOption("5");
  await becomes(() => rows.count(), 5);
  assert.match(await page.locator(".panel h3").innerText(), /top 5 of 12 .* last values of all add up to 198/);
  assert.match(await address(page), /top=5/);
  await close(page);
});

test("stacked, logarithmic, with fixed ends, as a heat map, beside an earlier time", async () => {
  const page = await open(`q=load&${range}&step=1m`);
  await panels(page).first().waitFor();
  await page.locator(".display summary").click();
  const picture = () => page.locator(".plot canvas").first().evaluate((c) => c.toDataURL());
  const seen = new Set([await picture()]);
  const changes = async (what, part) => {
    await what();
    await page.locator('#view[aria-busy="false"]').waitFor();
    await page.waitForFunction((part) => location.hash.includes(part), part);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const now = await picture();
    assert.ok(!seen.has(now), part);
    seen.add(now);
  };
  await changes(() => page.getByLabel("Draw").selectOption("stack"), "draw=stack");
  await shoot(page, "explore-stack-light");
  await changes(() => page.getByLabel("Draw").selectOption("heat"), "draw=heat");
  await shoot(page, "explore-heat-light");
  assert.equal(await page.locator(".legend .swatch").count(), 0, "no colours of lines beside those of values");
  const inked = await page.locator(".plot canvas").evaluate((c) => {
    const { data } = c.getContext("2d").getImageData(0, 0, 140 * devicePixelRatio, 200);
    return data.filter((v, i) => i % 4 === 3 && v > 0).length / (data.length / 4);
  });
  assert.ok(inked > 0.005 && inked < 0.3, `names stand beside the rows, not cells: ${inked}`);
  await page.locator(".plot").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#said").innerText(), /^m2, 12/);
  await changes(() => page.getByLabel("Draw").selectOption("lines").then(() => page.getByLabel("logarithmic").check()), "log=1");
  await changes(async () => {
    await page.getByLabel("from", { exact: true }).fill("5");
    await page.getByLabel("to", { exact: true }).fill("1000");
    await page.keyboard.press("Tab");
  }, "high=1000");
  await changes(() => page.getByLabel("Compare").selectOption("1h"), "versus=1h");
  await close(page);
  const both = await open(`q=load&from=${noon + 30 * minute}&to=${noon + 60 * minute}&step=1m&versus=1h`);
  await becomes(() => both.locator(".legend tbody tr").count(), 24);
  assert.equal(await both.locator(".legend .series").last().getAttribute("aria-label"), "m12 (1h before)");
  await close(both);
});

test("the price stands beside a query before it runs, and Explain runs it when it is told to", async () => {
  const page = await open(`${range}`);
  await page.locator("#query").fill("sum(load)");
  await becomes(async () => /^(about|at least) [0-9.]+ RU$/.test(await page.locator(".price").innerText()), true);
  await page.keyboard.press("Enter");
  await panels(page).first().waitFor();
  await page.locator("#tab-explain").click();
  await page.getByRole("heading", { name: /It would cost (about|at least) [0-9.]+ RU/ }).waitFor();
  assert.match(await page.locator("#view").innerText(), /expected/);
  await page.getByRole("button", { name: "Run it, and say what it did" }).click();
  await page.getByText("charged", { exact: true }).waitFor();
  await page.locator("#tab-json").click();
  await page.getByText('"resultType": "matrix"').waitFor();
  assert.match(await address(page), /view=json/);
  await close(page);
});

test("what was typed is kept in this browser, and favourites of it", async () => {
  const page = await open(`${range}`);
  for (const q of ["sum(load)", "max(load)"]) {
    await page.locator("#query").fill(q);
    await page.keyboard.press("Enter");
    await page.waitForFunction((q) => new URLSearchParams(location.hash.slice(1)).get("q") === q, q);
  }
  const history = page.getByRole("button", { name: "Earlier queries and favourites" });
  await history.click();
  const listed = () => page.locator(".queries .mono").allInnerTexts();
  assert.deepEqual(await listed(), ["max(load)", "sum(load)"]);
  await page.locator(".queries li", { hasText: "sum(load)" }).locator(".star").click();
  assert.match(await page.locator(".queries").innerText(), /Favourites\s+★\s+sum\(load\)\s+Typed before/);
  await page.locator(".queries .mono", { hasText: "sum(load)" }).click();
  assert.match(await address(page), /q=sum%28load%29/);
  await page.reload();
  await history.click();
  assert.deepEqual(await listed(), ["sum(load)", "max(load)"]);
  await close(page);
});

test("a page that asks by itself keeps what is drawn, and the tip on it", async () => {
  const page = await open("q=load&range=3h&refresh=5");
  await page.locator(".plot canvas").waitFor();
  await page.evaluate(() => (document.querySelector(".plot canvas").marked = true));
  await page.locator(".plot").focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator(".tip:not([hidden])").waitFor();
  await page.waitForResponse((r) => r.url().includes("query_range"));
  await page.locator('#view[aria-busy="false"]').waitFor();
  assert.ok(await page.evaluate(() => document.querySelector(".plot canvas").marked), "the same canvas");
  assert.ok(await page.locator(".plot .tip").isVisible());
  await close(page);
});

for (const colorScheme of ["light", "dark"])
  test(`Explore at 390 px, ${colorScheme}`, async () => {
    for (const part of ["q=load&also=A%20%2F%202&draw=stack", "q=load&draw=heat", "q=load&view=explain", "q=load&view=json"]) {
      const page = await open(`${part}&${range}`, { colorScheme, viewport: { width: 390, height: 800 } });
      await panels(page).first().waitFor();
      await page.locator(".display summary").click();
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, part);
      await shoot(page, `explore-${part.slice(7, 15).replace(/\W/g, "")}-${colorScheme}-390`);
      await close(page);
    }
  });
