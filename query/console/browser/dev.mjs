// `binnacle dev` on free ports, and a browser, for as long as a test runs.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = await import(process.env.PLAYWRIGHT);

/** startDev starts it without trucks, and returns {url, publish, stop} once it answers. */
export async function startDev() {
  const directory = mkdtempSync(join(tmpdir(), "binnacle-console-"));
  const free = ["--kafka", "--cosmos", "--api", "--admin"].flatMap((flag) => [flag, "127.0.0.1:0"]);
  const process_ = spawn(process.env.BINNACLE, ["dev", "--fleet=0", "--data-dir", directory, ...free], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  process_.stderr.on("data", (b) => (said += b));
  const ended = new Promise((resolve) => process_.once("exit", resolve));
  const lines = createInterface({ input: process_.stdout });
  const found = {};
  for await (const line of lines) {
    const m = /^  (page|kafka|admin)\s+(\S+)/.exec(line);
    if (m) found[m[1]] = m[2];
    if (line.startsWith("Ctrl-C")) break;
  }
  if (!found.page) throw new Error(`binnacle dev did not start: ${said}`);
  const stop = async () => {
    process_.kill("SIGTERM");
    await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  return { url: new URL(found.page).origin, admin: found.admin, kafka: found.kafka, directory, stop };
}

/** publish sends readings, messages as devices send them, by `binnacle replay`, and waits until queries see them. */
export async function publish(dev, messages) {
  const file = join(dev.directory, "readings.ndjson");
  writeFileSync(file, messages.map((m) => JSON.stringify(m) + "\n").join(""));
  const replay = spawn(process.env.BINNACLE, ["replay", "--allow-refused", file, "--kafka", dev.kafka], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  replay.stderr.on("data", (b) => (said += b));
  const code = await new Promise((resolve) => replay.once("exit", resolve));
  if (code !== 0) throw new Error(`binnacle replay: ${said}`);
  const seen = await fetch(`${dev.url}/api/v1/readings?device=${messages[0].device}&strict=true&timeout=1m&limit=1`, {
    headers: { "X-Scope-OrgID": messages[0].tenant },
  });
  if (!(await seen.json()).complete) throw new Error("queries do not see what was published");
}

/** startBrowser returns a Chromium that asks nobody but who it is sent to. */
export function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/**
 * openPage opens a page of which nothing may go wrong: what it logs as an error, what its policy forbids, and what it
 * asks of anybody else stands in page.faults.
 */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on("console", (m) => m.type() === "error" && page.faults.push(m.text()));
  page.on("pageerror", (e) => page.faults.push(String(e)));
  page.on("request", (r) => new URL(r.url()).origin !== new URL(url).origin && page.faults.push(`asks ${r.url()}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) =>
      console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`),
    );
  });
  await page.goto(url);
  return page;
}

/** shoot keeps a picture of a page where SHOTS says. */
export async function shoot(page, name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
}
