// The rooms of operators over `binnacle dev`, with a load that is made up: of that of a minute there would be little.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, shoot, startBrowser, startDev } from "./dev.mjs";

let dev, browser;

before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const now = Date.now();
  const message = (device, ts) => ({ tenant: "acme", device, ts, values: { speed: 1 } });
  await publish(dev, [{ ...message("w1", now), tenant: "whale" }, message("m1", now - 1000), message("m2", now - 2000), message("m2", now + 9 * 86400e3)]);
  const refused = async () => (await (await fetch(`${dev.admin}/api/v1/rejected`)).json()).rejected;
  while ((await refused()).length === 0) await new Promise((done) => setTimeout(done, 50)); // it follows its topic
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

const share = (key, tenant, part) => ({ key, tenant, share: part, rus: 100 * part });
const report = {
  container: "chunks-2026-11", from: "2026-11-23T08:43:00Z", to: "2026-11-23T09:43:00Z", bought_rus: 2000, partition_rus: 400,
  diagnosis: "partition 3 takes 60 % of the RU",
  partitions: [0, 1, 2, 3, 4].map((partition) => ({
    partition, min: String(partition), max: String(partition + 1), share: partition === 3 ? 0.6 : 0.1, rus: partition === 3 ? 60 : 10,
    busiest_rus: 90, busiest_used: partition === 3 ? 0.95 : 0.1, throttled: partition === 3 ? 12 : 0, bytes: 2 ** 20, expected_rus: [1, 2],
    keys: partition === 3 ? [share("whale~7", "whale", 0.5), share("acme~3", "acme", 0.1)] : [share(`acme~${partition}`, "acme", 0.1)],
  })),
  tenants: [share("", "whale", 0.5), share("", "acme", 0.5)],
};

async function open(fragment, options) {
  const page = await openPage(browser, "about:blank", options);
  page.asked = 0;
  await page.route("**/api/v1/partitions?*", (route) => {
    page.asked++;
    const container = new URL(route.request().url()).searchParams.get("container") ?? report.container;
    return route.fulfill({ json: { ...report, container }, headers: { "Binnacle-Request-Units": "12.5" } });
  });
  await page.goto(`${dev.admin}/operators#${fragment}`);
  await page.locator('#view[aria-busy="false"]').waitFor();
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults.filter((f) => !f.startsWith("asks ")), []);
  await page.context().close();
}

const panel = (page, name) => page.locator(`section[aria-label="${name}"]`);
const address = (page) => page.evaluate(() => location.hash);

test("what makes partition 3 hot", async () => {
  const page = await open("");
  assert.match(await page.locator("#answer").innerText(), /[0-9.]+ RU/);
  await panel(page, "Physical partitions").getByRole("button", { name: "3", exact: true }).click();
  await panel(page, "Partition 3").waitFor();
  assert.match(await panel(page, "Partition 3").innerText(),
    /3 times its even share\. The key whale~7 alone takes 83 % of this partition: it is of the tenant whale\. 12 requests of it got a 429/);
  assert.equal(await address(page), "#partition=3");
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Partition 3", "it is in view");
  assert.equal(page.asked, 1, "what is known already is not asked for again");
  assert.match(await panel(page, "Tenants").locator("thead").innerText(), /^Tenant\s+Share\s+RU\/s\s+429s\s*$/, "no empty columns");
  await shoot(page, "operators-partitions-light");
  await panel(page, "Partition 3").getByRole("button", { name: "whale" }).click();
  await panel(page, "whale").waitFor();
  assert.match(await panel(page, "whale").innerText(), /50 % of the container, 50 RU\/s/);
  assert.match(await address(page), /view=tenants.*tenant=whale/);
  await page.goBack();
  await panel(page, "Partition 3").waitFor();
  await close(page);
});

test("an account in which nothing was charged yet", async () => {
  const page = await openPage(browser, "about:blank");
  const idle = { ...report, diagnosis: "nothing was charged in this time", tenants: null, partitions: report.partitions.map((p) => ({ ...p, keys: null, share: 0 })) };
  await page.route("**/api/v1/partitions?*", (route) => route.fulfill({ json: idle }));
  await page.goto(`${dev.admin}/operators#partition=3`);
  await panel(page, "Partition 3").getByText("None of its keys was used.").waitFor();
  await panel(page, "Tenants").getByText("Nothing was charged in this time.").waitFor();
  await close(page);
});

test("other containers, and the heat map and back", async () => {
  const page = await open("");
  await page.getByRole("button", { name: "rollups-2026-11" }).click();
  await page.getByText("rollups-2026-11, 2026-11-23").waitFor();
  assert.equal(await address(page), "#container=rollups-2026-11");
  await page.getByRole("link", { name: "Heat map by key and time" }).click();
  await page.waitForURL("**/heat#container=rollups-2026-11");
  await page.getByRole("link", { name: "Partitions" }).click();
  await page.waitForURL("**/operators#view=partitions&container=rollups-2026-11");
  await page.getByText("rollups-2026-11, 2026-11-23").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("search tenants").waitFor();
  await page.keyboard.press("5"); // not behind the dialog
  assert.match(await address(page), /view=partitions/);
  page.faults = page.faults.filter((f) => !/40[04]/.test(f)); // the heat map of a container that is not there
  await close(page);
});

test("no refused readings in an hour leads to those of a week", async () => {
  const page = await openPage(browser, "about:blank");
  await page.route("**/api/v1/rejected?*", async (route) => {
    const week = Date.now() - Number(new URL(route.request().url()).searchParams.get("from")) > 6 * 86400e3;
    if (week) await route.continue();
    else await route.fulfill({ json: { rejected: [], complete: true } });
  });
  await page.goto(`${dev.admin}/operators#view=rejected`);
  await panel(page, "By reason").getByText("No reading was refused in the last 1h.").waitFor();
  await page.getByRole("button", { name: "Look back 7 days" }).click();
  await panel(page, "By reason").getByText("future").first().waitFor();
  assert.match(await panel(page, "By reason").locator("h3").innerText(), /the last 7 days/);
  assert.match(await address(page), /since=168h/);
  await close(page);
});

test("what each tenant costs", async () => {
  const page = await openPage(browser, "about:blank");
  const dollars = (total) => ({ usage: total / 4, idle: total / 4, floors: total / 4, storage: total / 4, total });
  const bill = { month: "2026-11", hours: 500, dollars: 40, nobody: { dollars: dollars(4) },
    tenants: [{ tenant: "acme", rus: 900, rusByKind: { chunks: 900 }, dollars: dollars(6) }, { tenant: "whale", rus: 5000, rusByKind: { chunks: 4000, queries: 1000 }, dollars: dollars(30) }] };
  await page.route("**/api/v1/costs", (route) => route.fulfill({ json: bill, headers: { "Binnacle-Request-Units": "7" } }));
  await page.goto(`${dev.admin}/operators#view=tenants&sort=cost`);
  const list = panel(page, "Tenants");
  await list.waitFor();
  assert.match(await list.locator("h3").innerText(), /2026-11 costs \$40\.00 so far, at list prices, \$4\.00 of it nobody's/);
  assert.deepEqual(await list.locator("tbody tr").evaluateAll((rows) => rows.map((r) => r.children[0].innerText + " " + r.children[2].innerText).slice(0, 2)),
    ["whale $30.00", "acme $6.00"]);
  await list.getByRole("button", { name: "whale" }).click();
  await panel(page, "Cost").waitFor();
  assert.match(await panel(page, "Cost").innerText(), /Cost of 2026-11: \$30\.00\s+500 hours so far, at list prices; 5,000 request units; 75 % of the account[^]*chunks written\s+4,000/);
  const whole = { ...bill.tenants[1], devices: [{ name: "w1", rus: 3500 }], metrics: [{ name: "speed", rus: 2500 }], queries: { callers: [{ name: "token grafana", rus: 900 }], queries: [] } };
  await page.route("**/api/v1/tenants/whale/cost", (route) => route.fulfill({ json: whole, headers: { "Binnacle-Request-Units": "184" } }));
  await panel(page, "Cost").getByRole("button", { name: "Its dearest devices" }).click();
  await panel(page, "Cost").getByText("token grafana").waitFor();
  assert.match(await panel(page, "Cost").innerText(), /w1\s+3,500[^]*speed\s+2,500[^]*Who asked\s+RU\s+token grafana\s+900/);
  assert.match(await address(page), /bill=true/);
  assert.match(await page.locator("#answer").innerText(), /^\d+ RU/, "with what the bill itself cost");
  await shoot(page, "operators-cost-light");
  await page.goBack();
  await panel(page, "Cost").getByRole("button", { name: "Its dearest devices" }).waitFor();
  await close(page);
});

test("tenants, ingest, refused readings and actions", async () => {
  const page = await open("view=ingest");
  assert.match(await page.locator(".tiles").innerText(), /records not read[^]*not in the journal[^]*not in chunks/);
  assert.equal(await panel(page, "Kafka partitions").locator("tbody tr").count(), 4);
  assert.match(await panel(page, "Tenants in memory").innerText(), /acme\s+2\s+2\s+2/);
  await shoot(page, "operators-ingest-light");
  await page.getByRole("link", { name: "Tenants" }).click();
  await panel(page, "Tenants").getByRole("button", { name: "acme" }).click();
  await panel(page, "Where it writes to").waitFor();
  await page.keyboard.press("4");
  await panel(page, "By reason").getByText("future").first().waitFor();
  assert.match(await panel(page, "By reason").innerText(), /future\s+its time lies too far in the future\s+1\s[^]*binnacle replay --from-dlq --reason future --dry-run/);
  assert.match(await panel(page, "Samples").innerText(), /future acme m2, [^]*lies more than/);
  await page.keyboard.press("5");
  await page.getByRole("button", { name: "tenant=acme" }).click();
  await panel(page, "Actions").getByText("container create").first().waitFor();
  assert.match(await page.locator("#answer").innerText(), /[0-9.]+ RU/);
  await close(page);
});

// The answers of a querier that finds three ingesters, one of which does not answer.
async function ingesters() {
  const held = await (await fetch(`${dev.admin}/api/v1/bins?devices=20`)).json();
  const [first, ...rest] = held.partitions;
  return { ingesters: [
    { process: "10.0.0.7:7072", bins: { ...held, partitions: [{ ...first, log_end: first.position + 7, caught_up: false, replay: { ...first.replay, seconds: 90 } }] } },
    { process: "10.0.0.8:7072", bins: { ...held, partitions: [first, ...rest], tenants: null, devices: null } },
    { process: "10.0.0.9:7072", error: "no answer in time" },
  ] };
}

test("ingest of all processes, and of one", async () => {
  for (const [name, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["light-390", { viewport: { width: 390, height: 800 } }], ["dark-390", { colorScheme: "dark", viewport: { width: 390, height: 800 } }]]) {
    const page = await openPage(browser, "about:blank", options);
    const answer = await ingesters();
    await page.route("**/api/v1/ingesters?*", (route) => route.fulfill({ json: answer }));
    await page.goto(`${dev.admin}/operators#view=ingest`);
    await panel(page, "Processes").waitFor();
    const text = await panel(page, "Processes").innerText();
    assert.match(text, /10\.0\.0\.7:7072\s+1 partition catching up\s+1\s+7\s[^]*1m30s[^]*10\.0\.0\.8:7072\s+caught up\s+4\s+0\s[^]*10\.0\.0\.9:7072\s+no answer in time/);
    assert.match(await page.locator("#view").innerText(), /Not all ingesters answer[^]*two processes hold[^]*telemetry\/0: 10\.0\.0\.7:7072, 10\.0\.0\.8:7072/);
    assert.equal(await panel(page, "Kafka partitions").locator("tbody tr").count(), 5);
    assert.match(await panel(page, "Tenants in memory").innerText(), /acme\s+2\s+2\s+2/);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= page.viewportSize().width, "nothing lies beyond the edge");
    await shoot(page, `operators-ingesters-${name}`);
    await panel(page, "Processes").getByRole("button", { name: "10.0.0.8:7072" }).click();
    await page.getByRole("button", { name: "process=10.0.0.8:7072" }).waitFor();
    assert.match(await address(page), /process=10\.0\.0\.8%3A7072/);
    assert.equal(await panel(page, "Kafka partitions").locator("tbody tr").count(), 4);
    await page.goBack();
    await page.locator('section[aria-label="Kafka partitions"] tbody tr >> nth=4').waitFor();
    await close(page);
  }
});

async function admin(path, body) {
  const response = await fetch(`${dev.admin}/api/v1/tenants${path}`, { method: "POST", body: JSON.stringify(body) });
  assert.ok(response.ok, await response.clone().text());
  return response.json();
}

test("a tenant is found, limited, suspended and resumed", async () => {
  await admin("", { tenant: "umbrella", retention: "400d" });
  const { id } = await admin("/umbrella/tokens", { expires: "10d", note: "Grafana" });
  const page = await open("view=tenants");
  const names = () => panel(page, "Tenants").locator("tbody tr td:first-child").allInnerTexts();
  await page.getByTitle("Sort by Tenant").click();
  assert.deepEqual(await names(), ["acme", "umbrella", "whale"]);
  assert.match(await address(page), /sort=tenant/);
  await page.keyboard.press("/");
  await page.keyboard.type("umbr");
  assert.deepEqual(await names(), ["umbrella"]);
  assert.match(await address(page), /find=umbr/);
  await shoot(page, "operators-tenants-light");
  await page.reload();
  await panel(page, "Tenants").waitFor();
  assert.deepEqual(await names(), ["umbrella"]);
  await panel(page, "Tenants").getByRole("button", { name: "umbrella" }).click();
  await panel(page, "Settings and limits").waitFor();
  assert.match(await panel(page, "Tokens").innerText(), new RegExp(`${id}\\s+Grafana\\s+read\\s+good\\s+in 9 days`));

  const dialog = page.locator("dialog");
  await page.getByRole("button", { name: "Change query-rate" }).click();
  await dialog.getByLabel("query-rate", { exact: true }).fill("many");
  await dialog.getByRole("button", { name: "Set query-rate to many" }).click();
  await dialog.getByRole("alert").getByText("a number above 0, none, or default is needed").waitFor();
  await shoot(page, "operators-tenant-refused-light");
  await dialog.getByLabel("query-rate", { exact: true }).fill("20");
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("query-rate is 20.").waitFor();
  assert.match(await panel(page, "Settings and limits").innerText(), /query-rate\s+20\s[^]*ingest-burst\s+default/, "what is set comes first");

  await page.getByRole("button", { name: "Suspend…" }).click();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Suspend…" }).click();
  await dialog.getByLabel("Reason").fill("the contract has ended");
  await dialog.getByRole("button", { name: "Suspend umbrella" }).click();
  await panel(page, "umbrella").getByText("the contract has ended").waitFor();
  await shoot(page, "operators-tenant-light");
  await page.getByRole("button", { name: "Resume…" }).click();
  await dialog.getByRole("button", { name: "Resume umbrella" }).click();
  await page.getByRole("status").getByText("umbrella is resumed.").waitFor();
  await page.getByRole("button", { name: `Revoke ${id}` }).click();
  await dialog.getByRole("button", { name: `Revoke ${id}` }).click();
  await panel(page, "Tokens").getByText("revoked").waitFor();
  assert.match(await panel(page, "Its actions").innerText(), /token revoke[^]*tenant resume[^]*tenant suspend[^]*tenant set\s+query-rate=20/);
  await page.goto(`${dev.admin}/operators#view=tenants&tenant=umbrela`);
  await page.reload();
  await page.getByRole("alert").first().getByText("did you mean umbrella?").waitFor();
  page.faults = page.faults.filter((f) => !/40[04]/.test(f)); // the browser tells of each refusal
  await close(page);
});

for (const colorScheme of ["light", "dark"])
  test(`operators at 390 px, ${colorScheme}`, async () => {
    for (const view of ["partitions", "tenants", "ingest", "rejected", "actions"]) {
      const page = await open(`view=${view}&partition=3`, { colorScheme, viewport: { width: 390, height: 800 } });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "nothing lies beyond the edge");
      await shoot(page, `operators-${view}-${colorScheme}-390`);
      await close(page);
    }
    const page = await open("view=tenants&tenant=acme", { colorScheme, viewport: { width: 390, height: 800 } });
    await page.getByRole("button", { name: "Change query-rate" }).click();
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "nothing lies beyond the edge");
    await shoot(page, `operators-tenant-dialog-${colorScheme}-390`);
    await page.keyboard.press("Escape");
    await shoot(page, `operators-tenant-${colorScheme}-390`);
    await close(page);
  });
