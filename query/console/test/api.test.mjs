import assert from "node:assert/strict";
import { test } from "node:test";

import { ask, headersOf, Problem, together } from "../page/js/api.js";
import { toRequest } from "../page/js/requests.js";

// A service that answers always the same, and keeps what it was asked.
function service(body, { status = 200, headers = {} } = {}) {
  const asked = [];
  const fetch = async (url, options) => {
    asked.push({ url, ...options });
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });
  };
  return { asked, ways: { fetch, now: () => 0 } };
}

const request = toRequest("/api/v1/latest", [
  ["device", "a b"],
  ["limit", 5],
]);
const acme = { tenant: "acme", token: "" };
const failing = (body, options) => assert.rejects(ask(request, acme, service(body, options).ways), Problem);

async function problemOf(body, options) {
  await failing(body, options);
  return ask(request, acme, service(body, options).ways).catch((p) => p);
}

test("a request says who asks, and nothing goes along by itself", async () => {
  const { asked, ways } = service({ latest: [] });
  await ask(request, { tenant: "acme", token: "bn_x" }, ways);
  assert.equal(asked[0].url, "/api/v1/latest?device=a+b&limit=5");
  assert.deepEqual(asked[0].headers, { "X-Scope-OrgID": "acme", Authorization: "Bearer bn_x" });
  assert.equal(asked[0].credentials, "omit");
  assert.equal(asked[0].redirect, "error", "a token goes nowhere else");
  await ask({ ...request, post: true }, acme, ways);
  assert.equal(asked[1].url, "/api/v1/latest");
  assert.equal(asked[1].body, "device=a+b&limit=5");
  assert.deepEqual(headersOf({ tenant: "", token: "" }), {});
});

test("native answers say themselves what they cost, those of PromQL in headers", async () => {
  const stats = { request_units: 2.5, documents: 1 };
  const native = await ask(
    request,
    acme,
    service({ latest: [], truncated: true, complete: false, incomplete: ["late"], stats }).ways,
  );
  assert.deepEqual([native.cost, native.complete, native.why, native.truncated], [stats, false, ["late"], true]);
  const prom = await ask(
    request,
    acme,
    service(
      {
        status: "success",
        data: {},
        infos: ["hm"],
        warnings: ["the answer is incomplete: no ingester", "results truncated due to limit"],
      },
      { headers: { "Binnacle-Stats": JSON.stringify(stats), "X-Binnacle-Source": "rollups" } },
    ).ways,
  );
  assert.deepEqual(
    [prom.cost, prom.complete, prom.why, prom.truncated, prom.source],
    [stats, false, ["no ingester"], true, "rollups"],
  );
  assert.deepEqual(prom.notes, ["results truncated due to limit", "hm"]);
  const all = together([native, prom]);
  assert.equal(all.cost.request_units, 5);
  assert.deepEqual([all.complete, all.why, all.source], [false, ["late", "no ingester"], "rollups"]);
  assert.equal(together([]).cost, null);
});

test("errors are what the service says", async () => {
  const denied = await problemOf(
    { title: "Unauthorized", status: 401, detail: "a bearer token is needed", parameter: "Authorization" },
    { status: 401, headers: { "WWW-Authenticate": 'Bearer realm="binnacle"' } },
  );
  assert.deepEqual(
    [denied.status, denied.title, denied.message, denied.denied],
    [401, "Unauthorized", "a bearer token is needed", true],
  );
  assert.match(denied.challenge, /^Bearer/);
  const wrong = await problemOf({ status: "error", errorType: "bad_data", error: "parse error" }, { status: 400 });
  assert.deepEqual([wrong.title, wrong.message, wrong.denied], ["bad data", "parse error", false]);
  const foreign = await problemOf("<html>", { status: 502 });
  assert.equal(foreign.message, "the answer has the status 502");
  const html = await problemOf("<html>");
  assert.match(html.message, /no JSON/);
  const gone = await ask(request, acme, {
    fetch: async () => {
      throw new TypeError("x");
    },
    now: () => 0,
  }).catch((p) => p);
  assert.deepEqual([gone.status, gone.title], [0, "No answer"]);
});

test("who gives up a request hears no problem of it", async () => {
  const gone = new AbortController();
  gone.abort();
  const fetch = async () => {
    throw gone.signal.reason;
  };
  await assert.rejects(ask(request, acme, { fetch, now: () => 0, signal: gone.signal }), { name: "AbortError" });
});

test("integers that a float does not hold stay what they are, where it can be told", async () => {
  const told = JSON.parse("1", (_, v, c) => c?.source) === "1";
  const { body } = await ask(request, acme, service('{"latest":[{"value":9223372036854775807},{"value":1e300}]}').ways);
  if (told) assert.equal(body.latest[0].value, 9223372036854775807n);
  assert.equal(body.latest[1].value, 1e300);
});
