// Dialogs: who asks, ways to take an answer along, the keys.

import { fill, h, icon } from "./dom.js";

/** open shows a dialog with a title, and removes it when it closes. */
export function open(title, large, ...content) {
  const back = document.activeElement;
  const dialog = h("dialog", {
    class: large ? "large" : null,
    "aria-label": title,
    on: {
      close: () => {
        dialog.remove();
        back?.focus?.();
      },
    },
  });
  dialog.append(
    h(
      "div",
      { class: "inner" },
      h(
        "h2",
        {},
        title,
        h(
          "button",
          {
            class: "plain square",
            "aria-label": "Close",
            on: {
              click: () => dialog.close(),
            },
          },
          icon("close"),
        ),
      ),
      ...content,
    ),
  );
  dialog.addEventListener("click", (e) => e.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * connect asks whose readings to show. needs is "tenant" where the service believes it, "token" otherwise; session what
 * is known; problem why it is asked again. It calls done with {tenant, token} once check, which returns why a session may
 * not read or null, lets it pass: a wrong token leaves the dialog open.
 */
export function connect({ needs, session, problem, check, done }) {
  const refusal = h("div", {}, problem);
  const tenant = h("input", {
    class: "field",
    name: "tenant",
    value: session.tenant,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: false,
    pattern: "[a-z0-9][a-z0-9\\-]{0,62}",
    title: "1 to 63 of a-z, 0-9 and -",
    required: needs === "tenant",
    placeholder: needs === "tenant" ? "acme" : "",
  });
  const token = h("input", {
    class: "field",
    name: "token",
    type: "password",
    value: session.token,
    autocomplete: "off",
    required: needs === "token",
    placeholder: "bn_…",
  });
  const fields =
    needs === "tenant"
      ? [h("label", { class: "above" }, "Tenant", tenant)]
      : [
          h("label", { class: "above" }, "Bearer token", token),
          h("label", { class: "above" }, "Tenant, if the token is for several", tenant),
        ];
  const said =
    needs === "tenant"
      ? "Callers on this machine may name any tenant. The simulated fleet of binnacle dev reports for acme and globex."
      : "The token is kept in this tab only. The operator creates one with binnacle tenant token add TENANT --expires 90d.";
  const dialog = open(
    needs === "tenant" ? "Which tenant?" : "Sign in",
    false,
    refusal,
    h(
      "form",
      {
        class: "inner",
        method: "dialog",
        on: {
          submit: async (e) => {
            e.preventDefault();
            const next = { tenant: tenant.value.trim(), token: needs === "tenant" ? "" : token.value.trim() };
            const why = await check(next);
            if (!dialog.open) return;
            if (why) {
              fill(refusal, why);
              return;
            }
            dialog.close();
            done(next);
          },
        },
      },
      fields,
      h("p", { class: "hint" }, said),
      h("div", { class: "foot" }, h("button", { class: "primary", type: "submit" }, "Show")),
    ),
  );
  dialog.querySelector("form").classList.remove("inner");
  (needs === "tenant" ? tenant : token).focus();
}

/** share offers an answer in other forms: items of {title, hint, text} or {title, hint, save: {name, make}}. */
export function share(items) {
  open(
    "Share and export",
    true,
    items.map(({ title, hint, text, save }) => {
      const pre = text === undefined ? null : h("pre", { tabIndex: 0 }, text);
      const button = h(
        "button",
        { on: { click: () => (save ? download(save) : copy(text, pre, button)) } },
        save ? "Save" : "Copy",
      );
      button.setAttribute("aria-label", `${save ? "Save" : "Copy"} ${title}`);
      return h(
        "section",
        { class: "export" },
        h("div", { class: "head" }, h("h3", {}, title), h("span", { class: "hint" }, hint ?? ""), button),
        pre,
      );
    }),
  );
}

// A page that came over plain HTTP from another machine may not write to the clipboard: then the text is selected.
async function copy(text, pre, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(pre);
    button.textContent = "Selected: press Ctrl+C";
  }
}

function download({ name, make }) {
  const url = URL.createObjectURL(new Blob([make()], { type: "text/csv" }));
  const a = h("a", { href: url, download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** help shows the keys: pairs of keys and what they do. */
export function help(groups) {
  const line = ([keys, does]) => [
    h(
      "span",
      {},
      keys.split(" ").map((one) => [h("kbd", {}, one), " "]),
    ),
    h("span", {}, does),
  ];
  const section = ({ title, keys }) =>
    h("section", {}, h("h3", {}, title), h("div", { class: "keys" }, keys.map(line)));
  open("Keys", true, h("div", { class: "groups" }, groups.map(section)));
}

/** firstSteps says how a tenant gets its first reading. about is {tenant, publish}: publish is absent where it is not told. */
export function firstSteps(element, { tenant, publish }, again) {
  const key = `${tenant}/m1`;
  const message = `{"tenant":"${tenant}","device":"m1","ts":'$(date +%s)'000,"values":{"temperature":21.5}}`;
  fill(
    element,
    h(
      "div",
      { class: "panel empty" },
      h("h3", {}, `${tenant} has no readings yet`),
      h(
        "p",
        {},
        publish ? "Publish one with kcat:" : "Publish one with kcat. Ask your operator for the address of Kafka:",
      ),
      h(
        "pre",
        { class: "wide", tabIndex: 0 },
        `echo '${message}' |\n  kcat -P -b ${publish?.kafka ?? "$KAFKA"} -t ${publish?.topic ?? "telemetry"} -k ${key} -X partitioner=murmur2_random`,
      ),
      h("div", { class: "some" }, h("button", { class: "primary", on: { click: again } }, "Check again")),
    ),
  );
}
