// The rooms of the page as a person meets them, over `binnacle dev`: all devices, one device.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, shoot, startBrowser, startDev } from "./dev.mjs";

const minute = 60e3;
const now = Date.now();
const start = now - 120 * minute;
let dev, browser;

// Twelve pumps, a value each minute for two hours. pump-3 fell silent an hour ago; pump-5 was, for twenty minutes;
// two readings of pump-7 lie in the future, and are refused.
before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const messages = [];
  for (let i = 0; i < 12; i++) {
    const send = (ts, values) =>
      messages.push({ tenant: "acme", device: `pump-${i}`, ts, tags: { site: i % 2 ? "yard" : "hall" }, values });
    for (let n = 0; n < 120; n++) {
      if (i === 3 && n >= 60) continue;
      if (i === 5 && n >= 40 && n < 60) continue;
      send(start + n * minute, { pressure: i + n / 60, running: n % 30 < 20, state: n < 80 ? "pumping" : "fault",
        latitude: 53 + i / 10, longitude: 10 - i / 10 });
    }
    if (i === 7) for (const n of [1, 2]) send(now + 9 * 86400e3 + n, { pressure: 1 });
  }
  await publish(dev, messages);
  const refused = async () =>
    (await (await fetch(`${dev.url}/api/v1/rejected`, { headers: { "X-Scope-OrgID": "acme" } })).json()).rejected;
  while ((await refused()).length === 0) await new Promise((done) => setTimeout(done, 50)); // it follows its topic
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

async function open(fragment, options) {
  const page = await openPage(browser, `${dev.url}/#${fragment}`, options);
  await page.locator('#view[aria-busy="false"]').waitFor();
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const panel = (page, name) => page.locator(`section[aria-label="${name}"]`);
const address = (page) => page.evaluate(() => location.href);

// hover points at a chart until its tip says something: a chart may be laid out anew meanwhile. share is the place of its width.
async function hover(page, chart, share, hasText) {
  for (let i = 0; ; i++) {
    const over = chart.locator(".u-over").first();
    const { width, height } = await over.boundingBox();
    await over.hover({ position: { x: width * share(), y: height / 2 } });
    try {
      return await chart.locator(".tip", { hasText }).waitFor({ timeout: 3000 });
    } catch (error) {
      if (i === 5) throw error;
      await page.mouse.move(0, 0);
    }
  }
}

// colours counts the colours of a panel's canvas.
const colours = (page, name) =>
  panel(page, name)
    .locator("canvas")
    .first()
    .evaluate((c) => {
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
      return seen.size;
    });

test("a tenant begins with its fleet, and the silent device is found", async () => {
  const page = await open("tenant=acme");
  await panel(page, "Silent devices").locator("tbody tr").first().waitFor();
  const tiles = (await page.locator(".tile").allInnerTexts()).map((t) => t.replace(/\s+/g, " "));
  assert.deepEqual(tiles.slice(0, 4), ["12 devices", "11 report", "1 silent", "2 refused in a day"]);
  assert.match(tiles[4], /^\$[\d.]+ cost of \d{4}-\d\d$/);
  assert.match(await panel(page, "Silent devices").innerText(), /pump-3\s+1 h( \d min)?\s+6\d\s+1m\s/);
  assert.match(await page.locator("#answer").innerText(), /complete\s+[0-9.]+ RU/);
  assert.ok((await colours(page, "Newest values")) >= 10, "a colour for each value");
  assert.ok((await colours(page, "Positions")) >= 2);
  assert.match(await panel(page, "Data quality").innerText(), /future\s+2\s+.*pump-7/);
  assert.match(await panel(page, "Cost").innerText(), /^Cost of \d{4}-\d\d: \$[\d.]+\s+1 hour so far, at list prices; [\d,]+ request units/);
  for (const [tile, leads] of [["silent", "Silent devices"], ["refused in a day", "Data quality"], ["cost of", "Cost"]]) {
    await page.locator(".tile", { hasText: tile }).click();
    assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), leads, "a tile leads to its panel");
  }
  await shoot(page, "fleet-light");
  await panel(page, "Silent devices").getByRole("button", { name: "pump-3" }).click();
  await page.getByRole("heading", { name: "pump-3", exact: true }).waitFor();
  assert.match(await address(page), /room=device.*from=\d+&to=\d+/);
  await panel(page, "pressure").locator("canvas").waitFor(); // the range has what it last reported
  assert.match(await panel(page, "Device").innerText(), /silent for 6\d usual intervals/);
  await page.goBack();
  await panel(page, "Silent devices").waitFor();
  await close(page);
});

test("the cost says who asked, and what for", async () => {
  const page = await open("tenant=acme");
  const bill = { month: "2026-11", hours: 300, rus: 900, rusByKind: { queries: 700, chunks: 200 }, dollars: { usage: 1.5, idle: 0, floors: 0.25, storage: 0.25, total: 2 },
    queries: { callers: [{ name: "token grafana", rus: 650 }], queries: [{ name: "/prometheus/api/v1/query_range avg(pressure)", rus: 600 }] } };
  await page.route("**/api/v1/cost", (route) => route.fulfill({ json: bill }));
  await page.locator("#again").click();
  await page.locator(".tile", { hasText: "$2.00" }).waitFor();
  assert.match(await panel(page, "Cost").innerText(), /token grafana\s+650[^]*avg\(pressure\)\s+600/);
  await close(page);
});

test("how much of its limits a tenant uses", async () => {
  const page = await open("tenant=acme");
  const json = { tenant: "acme", known: true, limits: { "ingest-devices": 40, "query-rus-day": 5000, "query-samples": 7 }, used: { "query-rus-day": 0.816 } };
  await page.route("**/api/v1/tenant", (route) => route.fulfill({ json }));
  await page.reload();
  await panel(page, "Limits").getByText("query-rus-day").waitFor();
  assert.match(await panel(page, "Limits").innerText(), /ingest-devices\s+40\s+12 \(30 %\)\s+query-rus-day\s+5000\s+82 %\s+query-samples\s+7\s*$/);
  await close(page);
});

test("a tag narrows the fleet; the address has it, and back undoes it", async () => {
  const page = await open("tenant=acme");
  await panel(page, "By tag").getByRole("button", { name: "yard" }).click();
  await page.locator(".tile", { hasText: "of 12 devices" }).waitFor();
  assert.match(await address(page), /room=fleet.*match=site%3Dyard/);
  await page.locator("#fleet-filter").fill("pump-1");
  await page.keyboard.press("Enter");
  await page.locator(".tile", { hasText: /^2\s*of 12 devices/ }).waitFor();
  await page.goBack();
  await page.goBack();
  await page.locator(".tile", { hasText: /^12\s*devices/ }).waitFor();
  await close(page);
});

test("the strip is walked with the arrow keys, and Enter opens a device", async () => {
  const page = await open("tenant=acme&room=fleet&metric=pressure");
  const strip = panel(page, "Newest values").locator(".cells");
  await strip.focus();
  for (const key of ["Home", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await strip.locator(".tip").innerText(), /pump-2\s+pressure: 3\.98/);
  assert.match(await page.locator("#said").innerText(), /pump-2, pressure/);
  await page.getByLabel("Order of the strip").selectOption("value");
  await strip.focus();
  await page.keyboard.press("Home");
  assert.match(await strip.locator(".tip").innerText(), /pump-11/, "the greatest first");
  assert.match(await address(page), /order=value/);
  await page.reload();
  await strip.waitFor();
  await strip.focus();
  for (const key of ["Home", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await strip.locator(".tip").innerText(), /pump-10/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "pump-10", exact: true }).waitFor();
  await close(page);
});

test("hours without readings and late ones are looked for on demand", async () => {
  const page = await open("tenant=acme&room=fleet&look=late");
  await page.getByText("No reading was stored late").waitFor();
  await page.getByRole("button", { name: "Hours without readings" }).click();
  await panel(page, "Data quality").locator(".presence").first().or(page.getByText("No device was without readings")).waitFor();
  assert.match(await address(page), /look=gaps/);
  await close(page);
});

test("a device has all its metrics, and says why a chart has a hole", async () => {
  const page = await open("tenant=acme&room=device&device=pump-5&range=3h");
  await panel(page, "Gaps").waitFor();
  for (const metric of ["latitude", "longitude", "pressure", "running", "state"]) await panel(page, metric).waitFor();
  assert.match(await panel(page, "state").innerText(), /pumping 1 h/);
  assert.ok((await colours(page, "state")) >= 2);
  assert.match(await panel(page, "Gaps").innerText(), /21m\s+20\s+never\s+the device, or its way to Kafka/);
  assert.match(await panel(page, "Where its readings are").innerText(), /held\s+\d+ rows[^]*kept\s+The class of the device/);
  await shoot(page, "device-light");
  await panel(page, "Gaps").getByTitle("Show this time").last().click();
  assert.match(await address(page), /from=\d+&to=\d+/);
  await page.goBack();
  await panel(page, "pressure").getByRole("button", { name: "pressure" }).click();
  await page.locator(".legend").waitFor();
  assert.match(await address(page), /metric=pressure&device=pump-5/);
  await close(page);
});

test("a silent device without readings in the range leads to its last ones", async () => {
  const page = await open("tenant=acme&room=device&device=pump-3");
  await page.getByText("its last reading is of").waitFor();
  const from = await panel(page, "Gaps").getByTitle("Show this time").innerText();
  assert.equal(Date.parse(from.replace(" ", "T") + "Z"), Math.floor((start + 59 * minute) / 1e3) * 1e3, "the gap began before the range");
  assert.match(await panel(page, "Gaps").innerText(), /before the range/);
  await page.getByRole("button", { name: "Around its last reading" }).click();
  await panel(page, "pressure").locator("canvas").waitFor();
  await close(page);
});

test("a chart in Explore leads to why it has a hole, and a small one says it", async () => {
  const page = await open("tenant=acme&room=explore&metric=pressure&device=pump-5&range=3h");
  const heading = panel(page, "pressure").locator("h3");
  assert.match(await heading.innerText(), /\d gaps?: why\?\s*pump-5/);
  const gap = () => 1 - (Date.now() - (start + 50 * minute)) / (180 * minute); // of the range
  await hover(page, panel(page, "pressure"), gap, /pump-5\s*gap of 21m/);
  await heading.getByRole("button", { name: "pump-5" }).click();
  await panel(page, "Gaps").waitFor();
  assert.match(await address(page), /room=device.*metric=pressure&device=pump-5&range=3h/);
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Gaps");
  await hover(page, panel(page, "pressure"), gap, "never: the device, or its way to Kafka");
  await page.goBack();
  await page.locator(".legend").waitFor();
  await close(page);
});

test("an answer that is incomplete says which curves end early, and since when", async () => {
  const page = await open("tenant=acme");
  await page.route("**/api/v1/aggregates?*", async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    await route.fulfill({ response: answer, json: { ...body, complete: false, incomplete: ["no ingester answers for partition telemetry/0"] } });
  });
  await page.evaluate(() => (location.hash = "tenant=acme&room=explore&metric=pressure&device=pump-1&device=pump-3&range=3h"));
  const banner = page.locator(".box-note.warn");
  await banner.waitFor();
  assert.match(await banner.innerText(), /[12] of 2 curves lack their newest values, of up to 1 h( \d min)?\.\s+Readings that are not stored yet may be missing: no ingester answers for 1 partition\./);
  assert.ok(!(await banner.innerText()).includes("telemetry/0"), "names of partitions are for operators");
  await banner.getByText("details for operators").click();
  assert.match(await banner.innerText(), /telemetry\/0/);
  await close(page);
});

test("a gap shows where steps are longer than it", async () => {
  const to = Math.ceil(now / (30 * minute)) * 30 * minute; // a chart shows whole steps: what it is asked for, then
  const page = await open(`tenant=acme&room=device&device=pump-5&from=${to - 720 * minute}&to=${to}`, { viewport: { width: 390, height: 800 } });
  const chart = panel(page, "pressure");
  await hover(page, chart, () => 1 - (to - (start + 50 * minute)) / (720 * minute), "gap of 21m, never: the device, or its way to Kafka");
  const over = await chart.locator(".u-over").boundingBox();
  // The share of a column of pixels that has ink, of half of the columns at least: a line of the grid is one of them.
  const ink = (of) => chart.locator("canvas").evaluate((c, [from, wide]) => {
    const width = wide * devicePixelRatio, height = 60 * devicePixelRatio;
    const { data } = c.getContext("2d").getImageData(from * devicePixelRatio, 10 * devicePixelRatio, width, height);
    const all = (n) => Array.from({ length: n }, (_, i) => i);
    const columns = all(width).map((x) => all(height).filter((y) => data[4 * (width * y + x) + 3] > 0).length / height);
    return columns.sort((l, r) => l - r)[width >> 1];
  }, of);
  const left = over.x - (await chart.locator("canvas").boundingBox()).x;
  const x = (t) => left + over.width * (1 - (to - t) / (720 * minute));
  const [gap, empty] = [await ink([Math.round(x(start + 41 * minute)), 8]), await ink([Math.round(x(start - 100 * minute)), 8])];
  assert.ok(gap > empty + 0.15, `it is hatched: ${gap}, ${empty} before all readings`);
  await close(page);
});

test("a gap that begins before the range is drawn from its left edge, and judged as a whole", async () => {
  const from = Math.floor((start + 50 * minute) / minute) * minute;
  const page = await open(`tenant=acme&room=device&device=pump-5&from=${from}&to=${from + 60 * minute}`);
  const chart = panel(page, "pressure");
  const since = new Date(Math.floor((start + 39 * minute) / 1e3) * 1e3).toISOString().slice(11, 19);
  await hover(page, chart, () => 0.05, new RegExp(`gap of 21m since [^,]*${since}, never`));
  assert.match(await panel(page, "Gaps").innerText(), new RegExp(`${since}\\s*before the range\\s+21m\\s+20\\s+never`));
  await shoot(page, "gap-before");
  await close(page);
});

test("refused readings of a device have their payload and reason", async () => {
  const page = await open("tenant=acme&room=device&device=pump-7");
  const refused = panel(page, "Refused readings");
  assert.match(await refused.innerText(), /future: 2, in the last day[^]*of \d{4}-\d\d-\d\d [\d:.]+, refused [^]*lies more than/, "without a click");
  await refused.locator("summary").first().click();
  assert.match(await refused.innerText(), /"device":"pump-7"[^]*telemetry\/\d offset \d+/);
  await close(page);
});

test("a device that is not there", async () => {
  const page = await open("tenant=acme&room=device");
  await page.getByRole("heading", { name: "Which device?" }).waitFor();
  await page.locator("#device-name").fill("pump-99");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "There is no device pump-99" }).waitFor();
  assert.doesNotMatch(await page.locator("#answer").innerText(), /incomplete/);
  await close(page);
});

for (const colorScheme of ["light", "dark"])
  test(`rooms at 390 px, ${colorScheme}`, async () => {
    for (const [name, fragment] of [["fleet", "tenant=acme"], ["device", "tenant=acme&room=device&device=pump-5&range=3h"]]) {
      const page = await open(fragment, { colorScheme, viewport: { width: 390, height: 800 } });
      await page.locator("#view .panel").first().waitFor();
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "nothing lies beyond the edge");
      if (name === "device") {
        const why = await panel(page, "Gaps").locator('td[data-name="Why"]').last().boundingBox();
        assert.ok(why.x >= 0 && why.x + why.width <= 390, "why is read without scrolling to the side");
      }
      await shoot(page, `${name}-${colorScheme}-390`);
      await close(page);
    }
  });
