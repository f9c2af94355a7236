// Requests to the admin listener that the page came from.

/**
 * ask returns {body, rus}, or {fault, absent} with the words of the API: absent where this process has no such part.
 * method and body make it a change.
 */
export async function ask(path, { signal, method = "GET", body } = {}) {
  try {
    const response = await fetch(path, { signal, method, body: body && JSON.stringify(body), credentials: "omit", cache: "no-store" });
    const rus = Number(response.headers.get("Binnacle-Request-Units") ?? 0);
    const text = await response.text();
    if (response.ok) return { rus, body: JSON.parse(text) };
    const problem = response.headers.get("Content-Type") === "application/problem+json";
    const fault = (problem ? JSON.parse(text).detail : text.trim()) || `the service answers ${response.status}`;
    return { rus, body: null, fault, absent: response.status === 404 && !problem };
  } catch (e) {
    return { rus: 0, body: null, fault: String(e.message ?? e), absent: false };
  }
}
