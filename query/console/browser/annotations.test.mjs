// Annotations in Explore: drawn, at the cursor, by keys, added and deleted with what that costs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, shoot, startBrowser, startDev } from "./dev.mjs";

const minute = 60e3;
const noon = Math.floor((Date.now() - 100 * minute) / (10 * minute)) * 10 * minute;
const range = `from=${noon}&to=${noon + 60 * minute}`;
const at = (n) => new Date(noon + n * minute).toISOString().slice(0, 19);
let dev, browser;

// Two devices for an hour, a value a minute.
before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const messages = [];
  for (const tenant of ["acme", "globex"])
    for (let t = 0; t < 60; t++)
      for (let n = 1; n <= 2; n++) messages.push({ tenant, device: `m${n}`, ts: noon + t * minute, values: { load: n + Math.sin(t / 5) } });
  await publish(dev, messages);
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

async function open(tenant, options) {
  const page = await openPage(browser, `${dev.url}/#tenant=${tenant}&room=explore&metric=load&${range}&step=1m&utc=1`, options);
  await page.locator('#view[aria-busy="false"] .plot').waitFor();
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const picture = (page) => page.locator(".plot canvas").first().evaluate((c) => c.toDataURL());
const listed = (page) => page.locator(".notes li b").allInnerTexts();
const summary = (page) => page.getByText(/^Annotations/);

async function add(page, { text, tags = "", from = "", to = "" }) {
  await page.getByLabel("Text", { exact: true }).fill(text);
  await page.getByLabel("Tags, by commas").fill(tags);
  if (from) await page.getByLabel("At, if not now").fill(from);
  if (to) await page.getByLabel("Until, if it takes time").fill(to);
  await page.keyboard.press("Enter");
  await page.locator("#annotations [role=status]", { hasText: /^Added for [0-9.]+ RU\.$/ }).waitFor();
  await page.locator(".notes li b", { hasText: text }).waitFor(); // the line may still be that of the one before
}

test("an annotation is added, drawn, found by cursor and keys, and deleted", async () => {
  const page = await open("acme");
  const without = await picture(page);
  await summary(page).click();
  await add(page, { text: "firmware 7.2", tags: "deploy, eu", from: at(20) });
  await add(page, { text: "maintenance", from: at(30), to: at(40) });
  assert.deepEqual(await listed(page), ["maintenance", "firmware 7.2"], "the newest first");
  assert.match(await page.locator("#annotations summary").innerText(), /2 of 2 in this range/);
  assert.notEqual(await picture(page), without, "they are drawn");

  const plot = page.locator(".plot").first();
  const over = await page.locator(".plot .u-over").first().boundingBox();
  await page.mouse.move(over.x + over.width / 3, over.y + over.height / 2);
  await page.locator(".tip", { hasText: "firmware 7.2 deploy, eu" }).waitFor();
  await page.mouse.move(over.x + (over.width * 35) / 60, over.y + over.height / 2);
  await page.locator(".tip", { hasText: "maintenance" }).waitFor();
  await shoot(page, "annotations-light");
  await page.mouse.move(over.x + (over.width * 50) / 60, over.y + over.height / 2);
  assert.doesNotMatch(await page.locator(".tip").first().innerText(), /maintenance|firmware/);

  await page.mouse.move(0, 0);
  await plot.focus();
  await page.keyboard.press("Escape");
  assert.match(await plot.getAttribute("aria-label"), /2 annotations: n and p/);
  const said = page.locator("#said");
  await page.keyboard.press("n");
  assert.match(await said.innerText(), /:20:00|firmware 7\.2 \(deploy, eu\)$/);
  assert.match(await page.locator(".tip").first().innerText(), /firmware 7\.2/);
  await page.keyboard.press("n");
  assert.match(await said.innerText(), / to .*: maintenance$/);
  await page.keyboard.press("n");
  assert.equal(await said.innerText(), "no later annotation");
  await page.keyboard.press("p");
  assert.match(await said.innerText(), /firmware 7\.2/);
  await page.keyboard.press("a");
  assert.equal(await page.getByLabel("At, if not now").inputValue(), at(20).replace(/:00$/, ""));
  assert.equal(await page.evaluate(() => document.activeElement.placeholder), "firmware 7.2", "the form has the focus");

  await page.getByLabel("Delete annotation firmware 7.2").click();
  await page.locator("#annotations [role=status]", { hasText: /^Deleted for [0-9.]+ RU\.$/ }).waitFor();
  assert.deepEqual(await listed(page), ["maintenance"]);
  await page.reload();
  await page.locator('#view[aria-busy="false"] .plot').waitFor();
  assert.deepEqual(await page.locator(".notes li b").allTextContents(), ["maintenance"]);
  await close(page);
  const other = await open("globex");
  assert.deepEqual(await other.locator(".notes li b").allTextContents(), [], "another tenant has none");
  await close(other);
});

test("annotations in a heat map and in the charts of a device", async () => {
  const page = await open("acme");
  const drawn = (name) => page.locator(`${name} canvas`).first().evaluate((c) => c.toDataURL());
  const show = async (fragment) => {
    await page.evaluate((hash) => (location.hash = hash), `tenant=acme&${fragment}&${range}&step=1m&utc=1`);
    await page.locator('#view[aria-busy="false"]').waitFor();
  };
  const heat = "room=explore&q=load&draw=heat";
  await summary(page).click();
  for (const note of await page.locator(".notes button").all()) await note.click();
  await show(heat);
  await page.locator(".plot.cells").waitFor();
  const before = await drawn(".plot.cells");
  await add(page, { text: "rollout", tags: "eu", from: at(20), to: at(26) });
  assert.notEqual(await drawn(".plot.cells"), before, "it is drawn at once");
  assert.match(await page.locator(".plot.cells").getAttribute("aria-label"), /1 annotation: n and p/);
  await page.locator(".plot.cells").focus();
  await page.keyboard.press("n");
  assert.equal(await page.locator("#said").innerText(), `${at(20).replace("T", " ")} to ${at(26).replace("T", " ")}: rollout (eu)`);
  assert.match(await page.locator(".plot .tip").innerText(), /m1[^]*rollout eu/);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#said").innerText(), /^m2, /);
  await shoot(page, "annotations-heat-light");

  await show("room=device&device=m1");
  const small = page.locator('section[aria-label="load"] .plot');
  await small.waitFor();
  const picture = await drawn('section[aria-label="load"] .plot');
  await small.focus();
  await page.keyboard.press("n");
  assert.match(await page.locator("#said").innerText(), /rollout \(eu\)$/);
  assert.match(await small.locator(".tip").innerText(), /rollout eu/);
  await shoot(page, "annotations-device-light");
  await page.keyboard.press("a");
  assert.equal(await page.getByLabel("At, if not now").inputValue(), at(20).replace(/:00$/, ""));
  await page.getByLabel("Delete annotation rollout").click();
  await page.locator("#annotations [role=status]", { hasText: /^Deleted for/ }).waitFor();
  assert.notEqual(await drawn('section[aria-label="load"] .plot'), picture, "it is gone from the chart");
  await close(page);
});

test("dark, and 390 px wide", async () => {
  const page = await open("globex", { colorScheme: "dark", viewport: { width: 390, height: 844 } });
  await summary(page).click();
  await add(page, { text: "a text that is so long that it does not fit beside anything else at this width", tags: "deploy", from: at(10), to: at(25) });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} px`);
  await shoot(page, "annotations-dark-390");
  await close(page);
  const light = await open("globex", { colorScheme: "light", viewport: { width: 390, height: 844 } });
  await shoot(light, "annotations-light-390");
  await close(light);
  const dark = await open("globex", { colorScheme: "dark" });
  await dark.locator(".plot").first().focus();
  await dark.keyboard.press("n");
  await shoot(dark, "annotations-dark");
  await close(dark);
});

test("what is wrong is said, and a token without the scope may only read", async () => {
  const page = await open("globex");
  await summary(page).click();
  await page.getByLabel("Text", { exact: true }).fill("backwards");
  await page.getByLabel("At, if not now").fill(at(20));
  await page.getByLabel("Until, if it takes time").fill(at(10));
  await page.getByRole("button", { name: "Annotate" }).click();
  await page.locator("#annotations [role=status]", { hasText: "timeEnd" }).waitFor();
  page.faults = page.faults.filter((f) => !f.includes("400")); // the browser logs the refusal
  await close(page);
  const { token: secret } = await (
    await fetch(`${new URL(dev.admin).origin}/api/v1/tenants/globex/tokens`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ scopes: ["read"], expires: "1h" }),
    })
  ).json();
  assert.ok(secret);
  const reader = await openPage(browser, `${dev.url}/`);
  await reader.getByLabel("Tenant").first().waitFor(); // it asks whose readings to show
  await reader.evaluate((token) => sessionStorage.setItem("binnacle.token", token), secret);
  await reader.goto(`${dev.url}/#room=explore&metric=load&${range}&step=1m`);
  await reader.reload();
  await reader.locator('#view[aria-busy="false"] .plot').waitFor();
  await summary(reader).click();
  await reader.getByText("This credential may only read annotations").waitFor();
  assert.equal(await reader.locator(".note-form").isVisible(), false);
  assert.equal(await reader.locator(".notes button").count(), 0);
  await reader.context().close();
});
