// The session: a tenant, a token or both, kept as long as the tab.

import { ask } from "./api.js";
import { toRequest } from "./requests.js";

/** remembered returns what the tab knows of "tenant" or "token". */
export function remembered(name) {
  try {
    return sessionStorage.getItem("binnacle." + name) ?? "";
  } catch {
    return ""; // storage is shut off: it is asked again
  }
}

/** remember keeps who asks, as long as the tab is open. */
export function remember({ tenant, token }) {
  try {
    for (const [name, value] of [
      ["tenant", tenant],
      ["token", token],
    ]) {
      if (value) sessionStorage.setItem("binnacle." + name, value);
      else sessionStorage.removeItem("binnacle." + name);
    }
  } catch {
    // it is asked again
  }
}

/**
 * needed returns what a caller must bring, "tenant" or "token": how the service tells callers is what it says to one
 * who brings nothing.
 */
export async function needed(ways) {
  try {
    await ask(toRequest("/api/v1/metrics", [["limit", 1]]), { tenant: "", token: "" }, ways);
  } catch (e) {
    if (/^x-scope-orgid$/i.test(e.challenge ?? "")) return "tenant";
  }
  return "token";
}
