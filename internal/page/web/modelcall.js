// What the model saw when it wrote a reply.

import { act, button, copyButton, cut, facts, fill, h, pretty, sideHeader, time } from "./dom.js";
import { client } from "./session.js";

/** @typedef {import("./client/api.js").components["schemas"]["ModelCall"]} ModelCall */
/** @typedef {import("./client/api.js").components["schemas"]["ModelMessage"]} ModelMessage */

/** @param {string} threadId @param {string} messageId @returns {Promise<ModelCall>} */
const load = (threadId, messageId) => client.request("GET /v1/threads/{id}/model-calls/{messageId}", { path: { id: threadId, messageId } });

/** The id of the reply of another step of the same run. @param {string} messageId @param {number} by */
const step = (messageId, by) => messageId.replace(/\d+$/, (n) => String(Number(n) + by));

/**
 * Shows a model call. back leads to the place from which it was opened.
 * @param {Element} side @param {string} threadId @param {string} messageId @param {() => void} close @param {() => void} back
 */
export async function showModelCall(side, threadId, messageId, close, back) {
  const body = h("div", null, h("p", { class: "hint" }, "Loading…"));
  fill(side, sideHeader("What the model saw", close), body);
  await act(null, async () => {
    const absent = () => undefined;
    const [call, before, after] = await Promise.all([
      load(threadId, messageId),
      load(threadId, step(messageId, -1)).catch(absent),
      load(threadId, step(messageId, 1)).catch(absent),
    ]);
    /** @param {string} label @param {ModelCall | undefined} other */
    const to = (label, other) => other && button(label, () => showModelCall(side, threadId, other.messageId, close, back), { class: "quiet" });
    const known = before && new Set(before.request.messages.map((m) => JSON.stringify(m)));
    /** @param {ModelMessage} m */
    const isNew = (m) => known !== undefined && !known.has(JSON.stringify(m));
    const { request } = call;
    fill(
      body,
      h(
        "p",
        { class: "row" },
        button("‹ Why?", back, { class: "quiet" }),
        to(`‹ Step ${call.step - 1}`, before),
        to(`Step ${call.step + 1} ›`, after),
        copyButton("Copy as JSON", () => pretty(call)),
      ),
      !call.exact && h("p", { class: "error" }, "Another version of Threadmill made this call: the model may have seen this in another form."),
      facts(figures(call)),
      h("h3", null, `Conversation (${request.messages.length})`),
      h(
        "ol",
        { class: "saw" },
        request.messages.map((m, i) => h("li", null, said(m, isNew(m), known ? isNew(m) : i === request.messages.length - 1))),
      ),
      h("h3", null, `Tools (${request.tools?.length ?? 0})`),
      request.tools?.length
        ? h(
            "ul",
            { class: "plain" },
            request.tools.map((t) =>
              h(
                "li",
                null,
                h(
                  "details",
                  null,
                  h("summary", null, h("code", null, t.name), " ", cut(t.description, 80)),
                  h("p", null, t.description),
                  h("pre", { class: "code", tabIndex: 0 }, pretty(t.parameters)),
                ),
              ),
            ),
          )
        : h("p", { class: "hint" }, "None."),
    );
  });
}

/** The tokens of one or more model calls. @param {ModelCall["usage"]} usage @returns {[string, string][]} */
export function tokenFacts(usage) {
  /** @param {number} n @param {number | undefined} part @param {string} what */
  const tokens = (n, part, what) => `${n.toLocaleString()}${part ? ` (${part.toLocaleString()} ${what})` : ""}`;
  return [
    ["Tokens in", tokens(usage.inputTokens, usage.cachedTokens, "cached")],
    ["Written to the cache", usage.cacheWriteTokens?.toLocaleString() ?? ""],
    ["Tokens out", tokens(usage.outputTokens, usage.reasoningTokens, "thoughts")],
  ];
}

/** @param {ModelCall} call @returns {[string, import("./dom.js").Child][]} */
function figures({ agent, model, answeredBy, tier, attempt, usage, durationMs, finishReason, createdAt, failed, request }) {
  return [
    ["Agent", agent],
    ["Model", model],
    ["Answered by", answeredBy],
    ["Service tier", tier],
    ["Stored", time(createdAt)],
    ["Took", `${(durationMs / 1000).toFixed(1)} s`],
    ["Attempts", attempt],
    ...(failed ?? []).map((f) => /** @type {[string, string]} */ ([f.attempts ? "Failed before" : "Skipped", `${f.model}: ${f.error}`])),
    ...tokenFacts(usage),
    ["Ended with", finishReason],
    ["Temperature", request.temperature],
    ["Output limit", request.maxOutputTokens],
    ["Reasoning effort", request.reasoningEffort],
  ];
}

/** @param {ModelMessage} m @param {boolean} fresh Whether the step before did not have it. @param {boolean} open */
function said(m, fresh, open) {
  const calls = m.toolCalls ?? [];
  return h(
    "details",
    { open },
    h(
      "summary",
      null,
      h("span", { class: `badge ${m.isError ? "failed" : ""}` }, m.role),
      " ",
      m.name && h("strong", null, m.name, " "),
      fresh && h("span", { class: "badge running" }, "new"),
      " ",
      cut(m.content || calls.map((c) => c.function.name).join(", ") || "(empty)", 80),
    ),
    m.content && h("pre", { class: "code", tabIndex: 0 }, m.content),
    calls.map((c) =>
      h(
        "div",
        null,
        h("code", null, c.function.name),
        h("span", { class: "hint" }, " ", c.id),
        h("pre", { class: "code", tabIndex: 0 }, pretty(c.function.arguments)),
      ),
    ),
    m.toolCallId && h("p", { class: "hint" }, "Answers ", m.toolCallId),
  );
}
