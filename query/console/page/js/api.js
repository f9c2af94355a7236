// Asking the API. An answer is {body, cost, complete, why, notes, source, truncated, took}; what goes wrong is a
// Problem.

import { encoded } from "./requests.js";

/** Problem is why there is no answer, as the service says it. */
export class Problem extends Error {
  constructor({ status, title, detail, parameter = "", challenge = "", retry = 0 }) {
    super(detail);
    Object.assign(this, { status, title, detail, parameter, challenge, retry });
  }

  /** denied reports whether it is the credential that is missing or wrong. */
  get denied() {
    return (
      this.status === 401 ||
      this.status === 403 ||
      (this.status === 400 && /^(authorization|x-scope-orgid)$/i.test(this.parameter))
    );
  }
}

/** headersOf returns the headers that say who asks. */
export function headersOf({ tenant, token }) {
  const headers = {};
  if (tenant) headers["X-Scope-OrgID"] = tenant;
  if (token) headers.Authorization = `Bearer ${token}`;
  return headers;
}

/** ask sends a request for a session, and returns the answer. `fetch` and `now` are the browser's. */
export async function ask(request, session, { fetch, now, signal }) {
  const began = now();
  const form = encoded(request.parameters);
  const options = { headers: headersOf(session), signal, credentials: "omit", cache: "no-store", redirect: "error" };
  if (request.method) options.method = request.method;
  if (request.json !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(request.json) });
    options.headers["Content-Type"] = "application/json";
  } else if (request.post) {
    Object.assign(options, { method: "POST", body: form });
    options.headers["Content-Type"] = "application/x-www-form-urlencoded";
  }
  let response, text;
  try {
    // The wish for an explanation stands in the URL, also of a POST.
    const query = [request.explain ? `explain=${request.explain}` : "", request.post ? "" : form].filter(Boolean).join("&");
    response = await fetch(request.path + (query === "" ? "" : "?" + query), options);
    text = await response.text();
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new Problem({
      status: 0,
      title: "No answer",
      detail: "the service can't be reached, or the answer broke off; is it running?",
    });
  }
  if (!response.ok) throw problemOf(response, text);
  let body;
  try {
    body = parsed(text);
  } catch {
    throw new Problem({
      status: response.status,
      title: "No answer",
      detail: "what came back is no JSON: is a proxy between?",
    });
  }
  return answerOf(body, response.headers, now() - began);
}

// Integers that a float does not hold stay what they are, where the browser tells how they were written.
function parsed(text) {
  return JSON.parse(text, (_, v, context) =>
    typeof v === "number" && !Number.isSafeInteger(v) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : v,
  );
}

/** problemOf returns what an answer that is an error says: RFC 9457, or as Prometheus does. */
export function problemOf(response, text) {
  const { status, headers } = response;
  let said = {};
  try {
    said = JSON.parse(text) ?? {};
  } catch {
    // not one of ours: the status is all there is
  }
  return new Problem({
    status,
    title: said.title ?? said.errorType?.replace(/_/g, " ") ?? (response.statusText || "Error"),
    detail: said.detail ?? said.error ?? `the answer has the status ${status}`,
    parameter: said.parameter ?? "",
    challenge: headers.get("WWW-Authenticate") ?? "",
    retry: Number(headers.get("Retry-After")) || 0,
  });
}

/** answerOf returns an answer with what it says of itself, in its body or its headers. */
export function answerOf(body, headers, took) {
  const prometheus = body.status === "success";
  const warnings = body.warnings ?? [];
  const lacks = warnings.filter((w) => w.startsWith("the answer is incomplete"));
  const cut = warnings.some((w) => w.includes("truncated"));
  let cost = body.stats ?? null;
  if (prometheus) {
    const header = headers.get("Binnacle-Stats");
    cost = header ? JSON.parse(header) : null;
  }
  // Lists say in a header alone what they cost.
  if (!cost && headers.has("Binnacle-Request-Units"))
    cost = { request_units: Number(headers.get("Binnacle-Request-Units")) };
  return {
    body,
    cost,
    took,
    source: headers.get("X-Binnacle-Source") ?? "",
    complete: prometheus ? lacks.length === 0 : (body.complete ?? true),
    why: prometheus ? lacks.map((w) => w.replace(/^the answer is incomplete: /, "")) : (body.incomplete ?? []),
    notes: [...warnings.filter((w) => !lacks.includes(w)), ...(body.infos ?? [])],
    truncated: body.truncated === true || cut,
  };
}

/** together returns what several answers of one view have cost, and whether all of them are complete. */
export function together(answers) {
  const sum = (of) => answers.reduce((n, a) => n + (a.cost?.[of] ?? 0), 0);
  const each = (of) => [...new Set(answers.flatMap(of))];
  return {
    cost: answers.some((a) => a.cost)
      ? {
          request_units: sum("request_units"),
          documents: sum("documents"),
          cached: sum("cached"),
          head_rows: sum("head_rows"),
          keys: sum("keys"),
        }
      : null,
    complete: answers.every((a) => a.complete),
    why: each((a) => a.why),
    notes: each((a) => a.notes),
    truncated: answers.some((a) => a.truncated),
    source: each((a) => a.source)
      .filter(Boolean)
      .join(", "),
    took: Math.max(0, ...answers.map((a) => a.took)),
  };
}
