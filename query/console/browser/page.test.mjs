// The page as a person meets it, over `binnacle dev`. Nothing here waits for a time: what is waited for is what shows.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, publish, shoot, startBrowser, startDev } from "./dev.mjs";

const minute = 60e3;
const noon = Math.floor((Date.now() - 90 * minute) / (10 * minute)) * 10 * minute; // of the readings, in the past
let dev, browser;

// Two devices of acme for half an hour, a value every ten seconds; m1 is silent from the 10th to the 15th minute, and
// has a text. One device of globex.
before(async () => {
  dev = await startDev();
  browser = await startBrowser();
  const messages = [];
  for (let t = noon; t < noon + 30 * minute; t += 10e3) {
    const n = (t - noon) / 10e3;
    const send = (tenant, device, values, tags) => messages.push({ tenant, device, ts: t, tags, values });
    if (n < 60 || n >= 90) send("acme", "m1", { temperature: 20 + (n % 6), state: "on" }, { site: "hall" });
    send("acme", "m2", { temperature: 40 + (n % 6), "oil pressure": 3 }, { site: "yard" });
    send("globex", "g1", { speed: n }, {});
  }
  await publish(dev, messages);
});

after(async () => {
  await browser?.close();
  await dev?.stop();
});

const range = `from=${noon}&to=${noon + 30 * minute}`;

async function open(fragment, options) {
  const page = await openPage(browser, `${dev.url}/#${fragment}`, options);
  return page;
}

// answered waits until the page shows an answer, or what stands in its place.
async function answered(page) {
  await page.locator('#view[aria-busy="false"]').waitFor();
}

// close ends a page of which nothing has gone wrong. What is expected to, the browser says itself: a status.
async function close(page, ...expected) {
  const said = (status) => `Failed to load resource: the server responded with a status of ${status} `;
  assert.deepEqual(
    page.faults.filter((f) => !expected.some((status) => f.startsWith(said(status)))),
    [],
  );
  await page.context().close();
}

// settled waits until something shows, of an answer that is whole.
async function settled(page, what) {
  await what.first().waitFor();
  await answered(page);
}

// address is the page's own, which the browser tells others a moment later.
const address = (page) => page.evaluate(() => location.href);

// becomes waits until something is as it should be: what a click changes the browser may draw a moment later.
async function becomes(get, want, what) {
  for (const end = Date.now() + 10_000; ; await new Promise((done) => setTimeout(done, 20))) {
    try {
      assert.deepEqual(await get(), want, what);
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

const legend = (page) => page.locator(".legend tbody tr");

test("from nothing to a chart of one's own metric", async () => {
  const page = await open("");
  const tenant = page.getByLabel("Tenant", { exact: true });
  await tenant.waitFor();
  assert.equal(await page.getByLabel("Bearer token").count(), 0, "on loopback a tenant's name is all that is asked");
  await tenant.fill("acme");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Explore", exact: true }).click();
  await settled(page, page.getByRole("button", { name: "temperature" }));
  await shoot(page, "empty-light");
  await page.getByRole("button", { name: "temperature" }).first().click();
  await answered(page);
  await page.locator("#range").click();
  await page.getByLabel("Last 3 hours").click();
  await settled(page, legend(page));
  assert.deepEqual(await page.locator(".legend .series").allInnerTexts(), ["m1", "m2"]);
  assert.equal(await page.evaluate(() => Object.keys(localStorage).length), 0, "nothing outlives the tab");
  assert.match(await address(page), /#tenant=acme&metric=temperature&range=3h$/);
  await close(page, 401);
});

test("a chart has the values, their band, and the gap", async () => {
  const page = await open(`tenant=acme&metric=temperature&${range}&step=1m`);
  await settled(page, legend(page));
  const cells = await legend(page).first().locator("td").allInnerTexts();
  assert.deepEqual(
    cells.map((c) => c.trim()),
    ["m1", "22.5", "20", "22.5", "25"],
    "last, min, avg, max of m1",
  );
  assert.match(await page.locator(".panel h3").innerText(), /2 curves · step 1m · band: least to greatest\s+1 gap/);
  await page.getByText("As a table").click();
  const rows = page.locator(".rows tbody tr");
  await becomes(() => rows.count(), 30 + 25 + 1);
  assert.match(await page.locator(".rows tr.gap").innerText(), /m1\s+gap of 6m/);
  await becomes(() => drawn(page), { curves: 2, hatched: false });
  await page.getByRole("button", { name: "m2", exact: true }).click();
  await becomes(() => drawn(page), { curves: 1, hatched: true }, "where all that is shown has a gap it is hatched");
  await shoot(page, "gap-light");
  await page.getByRole("button", { name: "m2", exact: true }).click();
  await becomes(() => drawn(page), { curves: 2, hatched: false });
  assert.match(await page.locator("#answer").innerText(), /complete\s+[0-9.]+ RU\s+[0-9]+ ms\s+details/);
  await page.locator("#answer summary").click();
  assert.match(await page.locator("#answer dl").innerText(), /documents read\s+[0-9]+[^]*this page so far\s+[0-9.]+ RU/);
  await page.locator("#answer summary").click();
  await shoot(page, "chart-light");
  await close(page);
});

// What colours a chart's canvas has, as curves and as the hatching of gaps.
async function drawn(page) {
  await page.mouse.move(0, 0); // a curve's name under the mouse lets the others fade
  return page.evaluate(async () => {
    const { palette } = await import("/console/js/palette.js");
    const { series, gap } = palette("light");
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const canvas = document.querySelector(".plot canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    let amber = 0;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(gap.slice(i, i + 2), 16));
    for (let i = 0; i < data.length; i += 4) {
      const hex = "#" + [0, 1, 2].map((k) => data[i + k].toString(16).padStart(2, "0")).join("");
      if (data[i + 3] === 255) seen.add(hex);
      const near = (k, c) => Math.abs(data[i + k] - c) < 12;
      if (data[i + 3] > 20 && data[i + 3] < 200 && near(0, r) && near(1, g) && near(2, b)) amber++;
    }
    return { curves: series.filter((c) => seen.has(c)).length, hatched: amber > 200 };
  });
}

test("many devices together, by a tag, and what was typed", async () => {
  const page = await open(`tenant=acme&metric=temperature&by=site&${range}&step=1m`);
  await settled(page, legend(page));
  assert.deepEqual(await page.locator(".legend .series").allInnerTexts(), ["site=hall", "site=yard"]);
  assert.match(await page.locator("#query").inputValue(), /^avg by \(site\) \(avg_over_time\(temperature\[1m\]\)\)$/);
  assert.match(await page.locator("#answer").innerText(), /RU/, "answers of PromQL say what they cost");
  await page.locator("#query").fill('max(temperature{site="hall"}) * 2');
  await page.keyboard.press("Enter");
  await answered(page);
  await page.locator(".legend .series", { hasText: "value" }).waitFor();
  const cells = await legend(page).first().locator("td").allInnerTexts();
  assert.equal(cells[4].trim(), "50");
  await page.getByLabel("Drop the typed query").click();
  await page.locator(".legend .series", { hasText: "site=hall" }).waitFor();
  await close(page);
});

test("matchers and regular expressions pick devices", async () => {
  const page = await open(`tenant=acme&metric=temperature&${range}`);
  await settled(page, legend(page));
  await page.getByRole("button", { name: "By tag" }).click();
  await page.getByLabel("Value of site").fill("yard");
  await page.keyboard.press("Enter");
  await page.locator(".legend .series", { hasText: "m2" }).waitFor();
  assert.equal(await legend(page).count(), 1);
  await page.getByLabel("Remove matcher site").click();
  await page.getByLabel(/^Filter devices/).fill("m[1]");
  await page.keyboard.press("Enter");
  await page.locator(".legend .series", { hasText: "m1" }).waitFor();
  assert.match(await address(page), /match=device%3D%7Em%5B1%5D/);
  await close(page);
});

test("completion", async () => {
  const page = await open(`tenant=acme&room=explore&${range}`);
  await settled(page, page.getByRole("button", { name: "temperature" }));
  const box = page.getByRole("combobox", { name: "PromQL" });
  await box.pressSequentially("avg_o");
  await page.getByRole("option", { name: /avg_over_time/ }).waitFor();
  await shoot(page, "completion-light");
  await page.keyboard.press("Tab");
  assert.equal(await box.inputValue(), "avg_over_time()");
  await page.keyboard.press("Escape");
  await box.pressSequentially("temp");
  await page.keyboard.press("Tab");
  await box.pressSequentially("{si");
  await page.keyboard.press("ArrowDown");
  assert.equal(await box.getAttribute("aria-activedescendant"), "option-0");
  await page.keyboard.press("Enter");
  await box.pressSequentially("=");
  await page.keyboard.press("Control+Space");
  await page.getByRole("option", { name: "yard" }).click();
  await box.pressSequentially("}[5m]");
  assert.equal(await box.inputValue(), 'avg_over_time(temperature{site="yard"}[5m])');
  await page.keyboard.press("Enter");
  await settled(page, legend(page));
  page.faults = page.faults.filter((f) => !f.includes("400")); // half a query was priced, where typing took long
  await close(page);
});

test("newest values, texts too, sorted and followed", async () => {
  const page = await open(`tenant=acme&${range}&view=latest`);
  await settled(page, page.locator("table.data tbody tr"));
  const column = async (n) => (await page.locator(`tbody tr td:nth-child(${n})`).allInnerTexts()).map((t) => t.trim());
  await page.getByRole("button", { name: "Metric" }).click();
  assert.deepEqual(await column(2), ["oil pressure", "state", "temperature", "temperature"]);
  assert.ok((await column(3)).includes("on"), "a text");
  await shoot(page, "latest-light");
  await page.getByRole("button", { name: "oil pressure" }).click();
  await page.locator(".legend .series", { hasText: "m2" }).waitFor();
  assert.equal(await page.locator("#query").inputValue(), '{"oil pressure", device="m2"}');
  await close(page);
});

test("keys alone", async () => {
  const page = await open(`tenant=acme&room=explore&${range}&step=1m`);
  await settled(page, page.getByRole("button", { name: "temperature" }));
  await page.keyboard.press("m");
  await page.keyboard.type("tempera");
  await page.keyboard.press("Enter");
  await settled(page, legend(page));
  await page.keyboard.press("Escape");
  await page.locator(".plot").focus();
  await page.keyboard.press("Home");
  const at = new Date(noon).toISOString().slice(0, 19).replace("T", " ");
  await page.locator("#said", { hasText: `${at}: m1 22.5, m2 42.5` }).waitFor({ state: "attached" });
  await page.keyboard.press("ArrowRight");
  await page.locator("#said", { hasText: "m1 22.5" }).waitFor({ state: "attached" });
  const before_ = await address(page);
  await page.keyboard.press("+");
  await answered(page);
  const zoomed = new URLSearchParams(new URL(await address(page)).hash.slice(1));
  assert.equal(zoomed.get("to") - zoomed.get("from"), 15 * minute);
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.waitForURL(before_);
  await page.keyboard.press("2");
  await page.locator("#tab-latest[aria-selected=true]").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  assert.match(await page.getByRole("dialog").innerText(), /Ctrl\+Space\s+what may stand here/);
  await shoot(page, "keys-light");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const times = page.getByRole("dialog", { name: "Range of time" });
  const shows = () => times.waitFor({ timeout: 1000 }).then(() => true, () => false);
  // A key that comes while the browser still closes the dialog before is the dialog's.
  await becomes(() => page.keyboard.press("t").then(shows), true);
  await shoot(page, "range-light");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.id), "range", "the focus comes back");
  await close(page);
});

test("dragging zooms, back goes back, and a link shows the same", async () => {
  const page = await open(`tenant=acme&metric=temperature&${range}&step=1m`);
  await settled(page, legend(page));
  const whole = await address(page);
  const box = await page.locator(".plot .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL((u) => u.href !== whole);
  await answered(page);
  const p = new URLSearchParams(new URL(await address(page)).hash.slice(1));
  assert.ok(
    Math.abs(p.get("from") - (noon + 15 * minute)) < minute && Math.abs(p.get("to") - (noon + 22.5 * minute)) < minute,
    p,
  );
  const link = await open(new URL(await address(page)).hash.slice(1));
  await settled(link, legend(link));
  assert.deepEqual(await legend(link).allInnerTexts(), await legend(page).allInnerTexts());
  await close(link);
  await page.locator("#back").click();
  await page.waitForURL(whole);
  await close(page);
});

test("another tenant sees nothing of the first", async () => {
  const page = await open(`tenant=acme&metric=temperature&device=m1&${range}`);
  await settled(page, legend(page));
  await page.locator("#tenant").click();
  await page.getByLabel("Tenant", { exact: true }).fill("globex");
  await page.keyboard.press("Enter");
  await settled(page, page.getByRole("button", { name: "speed" }));
  assert.doesNotMatch(await page.locator("body").innerText(), /temperature|m1\b|hall/);
  assert.doesNotMatch(await address(page), /temperature|m1|acme/);
  assert.match(await address(page), /tenant=globex/);
  await close(page, 401);
});

test("a tenant without readings is told how to publish one", async () => {
  const page = await open("tenant=newcomer");
  await answered(page);
  const said = await page.locator("#view").innerText();
  assert.match(said, /newcomer has no readings yet[^]*kcat -P[^]*newcomer\/m1/);
  assert.ok(said.includes(`-b ${dev.kafka} -t telemetry`), "the broker's address of this run");
  await shoot(page, "first-steps-light");
  await close(page);
});

test("errors are shown as the service says them", async () => {
  const page = await open(`tenant=acme&q=${encodeURIComponent("avg(")}&${range}`);
  await answered(page);
  const shown = page.getByRole("alert");
  assert.match(await shown.innerText(), /400 bad data[^]*parse error/);
  assert.equal(await shown.getByRole("button").count(), 0, "the same query fails again");
  await shoot(page, "error-light");
  await close(page, 400);

  const middle = await open(`tenant=acme&q=${encodeURIComponent("sum(temperature) by (site) foo")}&${range}`);
  await answered(middle);
  assert.equal(await middle.locator(".fault mark").innerText(), "foo");
  await close(middle, 400);

  const wrong = await open("tenant=Not%20One");
  await answered(wrong);
  assert.match(await wrong.getByRole("alert").innerText(), /400 Bad Request \(X-Scope-OrgID\)/);
  await wrong.getByRole("button", { name: "Another tenant or token" }).click();
  await wrong.getByLabel("Tenant", { exact: true }).waitFor();
  await close(wrong, 400, 401);
});

test("where tenants are not believed a token is asked for, and kept as long as the tab", async () => {
  const asked = [];
  const page = await openPage(browser, "about:blank");
  await page.route("**/api/v1/**", (route) => {
    const { authorization } = route.request().headers();
    asked.push(authorization);
    const empty = { metrics: [], devices: [], truncated: false, tenant: "acme", known: true, limits: {} };
    if (authorization === "Bearer bn_good") route.fulfill({ json: empty });
    else {
      const problem = {
        type: "about:blank",
        title: "Unauthorized",
        status: 401,
        detail: "a bearer token is needed",
        parameter: "Authorization",
      };
      route.fulfill({ status: 401, headers: { "WWW-Authenticate": 'Bearer realm="binnacle"' }, json: problem });
    }
  });
  page.faults.length = 0;
  await page.goto(dev.url + "/");
  await page.getByLabel("Bearer token").fill("bn_wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("alert").filter({ hasText: "401 Unauthorized" }).waitFor();
  await page.getByLabel("Bearer token").fill("bn_good");
  assert.equal(await page.getByLabel("Bearer token").getAttribute("type"), "password");
  await page.keyboard.press("Enter");
  await page.getByText("acme has no readings yet").waitFor();
  assert.equal(await page.locator("#tenant").innerText(), "acme", "the tenant of the token");
  assert.ok(asked.includes("Bearer bn_good"));
  assert.doesNotMatch(await address(page), /bn_good/);
  assert.deepEqual(await page.evaluate(() => [{ ...sessionStorage }, { ...localStorage }]), [
    { "binnacle.token": "bn_good" },
    {},
  ]);
  await page.keyboard.press("e");
  assert.doesNotMatch(await page.getByRole("dialog").innerText(), /bn_good/);
  await page.context().close();
});

test("what is taken along", async () => {
  const page = await open(`tenant=acme&metric=temperature&device=m1&${range}&step=1m`);
  await settled(page, legend(page));
  await page.keyboard.press("e");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await shoot(page, "share-light");
  const text = await dialog.innerText();
  assert.match(text, /avg_over_time\(temperature\{device="m1"\}\[1m\]\)/);
  assert.match(
    text,
    /curl --compressed -G -H 'X-Scope-OrgID: acme' \\\n\s+http:\/\/127.0.0.1:\d+\/api\/v1\/aggregates/,
  );
  assert.match(text, /--data-urlencode format=csv/);
  const saved = page.waitForEvent("download");
  await dialog.getByLabel("Save CSV of the curves").click();
  const { createReadStream } = await import("node:fs");
  const lines = (
    await createReadStream(await (await saved).path())
      .setEncoding("utf8")
      .toArray()
  )
    .join("")
    .split("\n");
  assert.equal(lines[0], "time,panel,series,value,min,max");
  assert.equal(lines[1], `${new Date(noon).toISOString()},temperature,m1,22.5,20,25`);
  await close(page);
});

for (const width of [360, 1280]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`at ${width} pixels, ${colorScheme}: nothing is cut off`, async () => {
      const page = await open(`tenant=acme&metric=temperature&${range}&step=1m`, {
        colorScheme,
        viewport: { width, height: 760 },
      });
      await settled(page, legend(page));
      const wide = () =>
        page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(await wide(), 0);
      await shoot(page, `full-${colorScheme}-${width}`);
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(ground, colorScheme === "dark" ? "rgb(13, 16, 19)" : "rgb(245, 246, 247)");
      if (width === 360) {
        await page.getByRole("button", { name: /^Metrics and devices/ }).click();
        await page.getByLabel("Filter metrics").waitFor();
        assert.equal(await wide(), 0);
        await shoot(page, `picker-${colorScheme}-${width}`);
        await page.getByRole("button", { name: /^Metrics and devices/ }).click();
        await page.locator("#range").click();
        const pop = await page.getByRole("dialog", { name: "Range of time" }).boundingBox();
        assert.ok(pop.x >= 0 && pop.x + pop.width <= width, JSON.stringify(pop));
        await shoot(page, `range-${colorScheme}-${width}`);
        await page.keyboard.press("Escape");
      }
      await page.locator("#tab-latest").click();
      await settled(page, page.locator("table.data tbody tr"));
      assert.equal(await wide(), 0);
      await page.locator("#theme").click();
      const other = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.notEqual(other, ground, "the switch changes the colours");
      await page.reload();
      await answered(page);
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), other, "and they stay");
      await close(page);
    });
  }
}

test("every control has a name, and each that has the focus shows it", async () => {
  const page = await open(`tenant=acme&metric=temperature&${range}`);
  await settled(page, legend(page));
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, textarea, [role=application]")]
      .filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim() || e.closest("label")))
      .map((e) => e.outerHTML),
  );
  assert.deepEqual(nameless, []);
  const seen = new Set();
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      const marked = e.closest(".row") ?? e.closest(".box:has(textarea:focus)") ?? e;
      const style = getComputedStyle(marked);
      return {
        what: e.id || e.className || e.tagName,
        shows: style.outlineStyle !== "none" || style.boxShadow !== "none",
      };
    });
    if (at.what === "BODY") break;
    assert.ok(at.shows, at.what);
    seen.add(at.what);
  }
  for (const id of ["skip", "tenant", "range", "again", "share", "theme", "metric-filter", "query", "tab-chart"])
    assert.ok(seen.has(id), id);
  await close(page);
});

test("a curve that is hidden stays hidden when the page asks again", async () => {
  const page = await open(`tenant=acme&metric=temperature&${range}&step=1m`);
  await settled(page, legend(page));
  await page.getByRole("button", { name: "m2", exact: true }).click();
  await becomes(() => drawn(page), { curves: 1, hatched: true });
  await page.locator("#again").click();
  await settled(page, legend(page));
  assert.equal(await page.getByRole("button", { name: "m2", exact: true }).getAttribute("aria-pressed"), "false");
  await becomes(() => drawn(page), { curves: 1, hatched: true });
  await page.locator('.legend [data-column="last"]').click();
  const link = await page.evaluate(() => location.href);
  assert.match(link, /legend=-last&hide=temperature%0Am2/);
  await close(page);
  const other = await openPage(browser, link);
  await settled(other, legend(other));
  await becomes(() => drawn(other), { curves: 1, hatched: true });
  assert.equal(await other.locator('.legend th[aria-sort="descending"]').innerText(), "last ↓", "a link has what is hidden, and the order");
  await close(other);
});

test("large values, long names and texts", async () => {
  const long = (n) => `compressor-of-the-northern-hall-in-building-0${n}`;
  const messages = [];
  for (let t = noon; t < noon + 30 * minute; t += 60e3) {
    const n = (t - noon) / 60e3;
    for (const i of [1, 2]) {
      const values = { ticks: 4e12 + n * 10 + i, serial: 9007199254740000 + n, phase: n % 2 ? "idle at the end of a long shift" : "busy" };
      messages.push({ tenant: "wide", device: long(i), ts: t, values });
    }
  }
  await publish(dev, messages);
  const page = await open(`tenant=wide&metric=ticks&metric=serial&metric=phase&by=all&${range}&step=1m`, {
    viewport: { width: 390, height: 800 },
  });
  await settled(page, legend(page));
  assert.match(await page.locator("#view").innerText(), /phase is text: no chart shows it\.\s+Newest values/);
  const cells = await legend(page).nth(1).locator("td").allInnerTexts();
  assert.equal(cells[1].trim(), "9007199254740029", "all digits of an integer");
  await page.locator("#view").getByRole("button", { name: "Newest values" }).click();
  await settled(page, page.locator("table.data tbody tr"));
  const head = (await page.locator("table.data thead th").allInnerTexts()).map((t) => t.replace(/[ ↓↑]/g, ""));
  assert.deepEqual(head, ["Device", "Metric", "Value", "Age"]);
  const values = await page.locator("table.data tbody td:nth-child(3)").evaluateAll((cells) => cells.map((c) => [c.innerText, c.getBoundingClientRect().right]));
  assert.equal(values.length, 6);
  assert.deepEqual(values.filter(([, right]) => right > 390), [], "values are in view, however long the names are");
  await shoot(page, "wide-latest-light-390");
  await close(page);
  const each = await open(`tenant=wide&metric=ticks&by=device&${range}&step=1m`, { viewport: { width: 390, height: 800 } });
  await settled(each, legend(each));
  const ends = await each.locator(".legend .name-cut span:last-child").evaluateAll((spans) =>
    spans.map((s) => [s.textContent, s.getBoundingClientRect().right <= s.closest("td").getBoundingClientRect().right + 1]),
  );
  assert.deepEqual(ends, [1, 2].map((i) => [long(i).slice(-12), true]), "the end of a name is not cut off");
  const [last, least, mean, most] = (await legend(each).first().locator("td").allInnerTexts()).slice(1).map(Number);
  assert.ok(least <= mean && mean <= most && last <= most, "an average lies between the least and the greatest");
  await each.locator(".fold").click();
  const listed = await each.locator(".picker .row .name").evaluateAll((names) => names.filter((n) => n.textContent.startsWith("compressor"))
    .map((n) => [n.textContent, n.querySelector(".name-cut span:last-child")?.getBoundingClientRect().right <= n.getBoundingClientRect().right + 1]));
  assert.deepEqual(listed, [1, 2].map((i) => [long(i), true]), "nor in the list of devices");
  await shoot(each, "wide-light-390");
  await close(each);
});

test("it asks again by itself, and shows what has come in", async () => {
  const page = await open("tenant=acme&metric=fresh&range=15m");
  await settled(page, page.locator(".panel"));
  assert.match(await page.locator("#view").innerText(), /Nothing was reported/);
  await publish(
    dev,
    [1, 2, 3].map((n) => ({ tenant: "acme", device: "m3", ts: Date.now() - n * 20e3, values: { fresh: n } })),
  );
  await page.locator("#every").selectOption("5");
  await legend(page).first().waitFor();
  assert.match(await address(page), /refresh=5/);
  await close(page);
});

test("an error while it asks by itself leaves the chart where it is, and goes with the next answer", async () => {
  const page = await open(`tenant=acme&metric=temperature&range=3h`);
  await settled(page, legend(page));
  let failing = true;
  await page.route("**/api/v1/aggregates**", (route) => {
    const problem = { type: "about:blank", title: "Service Unavailable", status: 503, detail: "too many queries" };
    return failing ? route.fulfill({ status: 503, json: problem }) : route.continue();
  });
  await page.locator("#every").selectOption("5");
  await page.getByRole("alert").filter({ hasText: "503 Service Unavailable" }).waitFor();
  assert.equal(await legend(page).count(), 2);
  failing = false;
  await page.getByRole("alert").waitFor({ state: "detached" });
  await legend(page).first().waitFor();
  await close(page, 503);
});
