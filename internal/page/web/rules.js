// Rules, with a tester, and webhooks.

import { act, button, fill, h } from "./dom.js";
import { client } from "./session.js";
import { empty, shows } from "./states.js";

/** @import { components } from "./client/api.js" */

class Rules extends HTMLElement {
  connectedCallback() {
    const list = h("div"),
      webhooks = h("div"),
      result = h("div", { role: "status" });
    const type = h("input", { value: "file.changed", "aria-label": "Type of the event", class: "code" });
    const payload = h("textarea", { rows: 4, value: '{"path": "README.md"}', class: "code", spellcheck: false, "aria-label": "Payload as JSON" });
    const metadata = h("textarea", { rows: 2, value: "{}", class: "code", spellcheck: false, "aria-label": "Metadata as JSON" });
    const test = button(
      "Test",
      () =>
        act(test, async () => {
          const tested = await client.request("POST /v1/rules/test", {
            body: { type: type.value, payload: JSON.parse(payload.value || "null"), metadata: JSON.parse(metadata.value || "{}") },
          });
          fill(
            result,
            h(
              "p",
              null,
              tested.rule
                ? ["Handled by ", h("strong", null, tested.rule.name), ": ", does(tested.rule)]
                : "No rule matches: the event is stored with a warning.",
            ),
            h(
              "ul",
              { class: "plain" },
              tested.rules.map((r) =>
                h(
                  "li",
                  { class: r.matches ? "match" : "no-match" },
                  r.matches ? "✓ " : "✗ ",
                  h("code", null, r.name),
                  " ",
                  r.matches
                    ? r.name === tested.rule?.name
                      ? "matches, and handles it"
                      : "matches, but another has priority"
                    : r.failed
                      ? ["the type matches, but not ", h("code", null, conditionText(r.failed))]
                      : "is for other types",
                ),
              ),
            ),
          );
        }),
      { class: "primary" },
    );
    fill(
      this,
      h("header", { class: "page-header" }, h("h1", null, "Rules")),
      h(
        "section",
        { class: "card wide" },
        h("h2", null, "Which rule would match?"),
        h("p", { class: "hint" }, "Nothing is published."),
        h("label", null, "Type", type),
        h("label", null, "Payload", payload),
        h("label", null, "Metadata", metadata),
        h("div", { class: "row" }, test),
        result,
      ),
      list,
      webhooks,
    );
    shows(list, async () => {
      const { rules } = await client.request("GET /v1/rules");
      fill(
        list,
        rules.length === 0
          ? empty(
              "There are no rules.",
              "A rule says what events from outside cause: a message, an agent, a function. Rules are in the configuration of the server.",
            )
          : h(
              "div",
              { class: "scroll-x", tabIndex: 0 },
              h(
                "table",
                null,
                h(
                  "thead",
                  null,
                  h(
                    "tr",
                    null,
                    ["Rule", "Events", "Conditions", "Priority", "What it does"].map((t) => h("th", { scope: "col" }, t)),
                  ),
                ),
                h(
                  "tbody",
                  null,
                  rules.map((r) =>
                    h(
                      "tr",
                      null,
                      h("td", null, h("strong", null, r.name), r.default && h("span", { class: "badge" }, "default")),
                      h(
                        "td",
                        null,
                        r.events.flatMap((/** @type {string} */ e) => [h("code", null, e), " "]),
                      ),
                      h(
                        "td",
                        null,
                        (r.where ?? []).map((c) => h("div", null, h("code", null, conditionText(c)))),
                      ),
                      h("td", null, r.priority),
                      h("td", null, does(r)),
                    ),
                  ),
                ),
              ),
            ),
      );
    });
    shows(webhooks, async () => {
      const hooks = (await client.request("GET /v1/webhooks")).webhooks;
      fill(
        webhooks,
        h("h2", null, "Webhooks"),
        hooks.length === 0
          ? empty("No webhooks are configured.", "A webhook takes events from another system, at an address of this server. Webhooks are in its configuration.")
          : h(
              "div",
              { class: "scroll-x", tabIndex: 0 },
              h(
                "table",
                null,
                h(
                  "thead",
                  null,
                  h(
                    "tr",
                    null,
                    ["Webhook", "URL for the other system", "Signed", "Event", "Thread"].map((t) => h("th", { scope: "col" }, t)),
                  ),
                ),
                h(
                  "tbody",
                  null,
                  hooks.map((w) =>
                    h(
                      "tr",
                      null,
                      h("td", null, h("strong", null, w.name)),
                      h("td", null, h("code", null, location.origin + w.path)),
                      h(
                        "td",
                        null,
                        w.signature === "unsigned"
                          ? "no: it needs an API key"
                          : [w.signature, h("span", { class: "sub" }, `${w.secrets} ${w.secrets === 1 ? "secret" : "secrets"}`)],
                      ),
                      h("td", null, h("code", null, w.type)),
                      h("td", null, h("code", null, w.thread), w.open && h("span", { class: "sub" }, "opened if it does not exist")),
                    ),
                  ),
                ),
              ),
            ),
      );
    });
  }
}

/** @param {components["schemas"]["Condition"]} c */
function conditionText(c) {
  const { field, ...test } = c;
  return `${field} ${Object.entries(test)
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(", ")}`;
}

/** @param {components["schemas"]["Rule"]} r */
function does(r) {
  return (
    [
      r.debounce && `waits until none came for ${r.debounce}`,
      r.throttle && `at most one in ${r.throttle}`,
      r.log && "writes it to the log",
      r.function && "calls a function",
      r.processor && `processor ${r.processor}`,
      r.agent && `asks ${r.agent.name || "the agent of the event"}`,
      r.message && "makes it a message",
    ]
      .filter(Boolean)
      .join(", ") || "stores it"
  );
}

customElements.define("tm-rules", Rules);
