// What is beside a thread: why a line came to be, and the thread's queue, tasks, grants and metadata.

import { act, ago, button, cut, facts, fill, h, pretty, sideHeader, time } from "./dom.js";
import { durationText } from "./durations.js";
import { showGrants } from "./grants.js";
import { showModelCall, tokenFacts } from "./modelcall.js";
import { person } from "./person.js";
import { itemText } from "./queue.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @import { Thread } from "./client/threadmill.js" */
/** @import { Line } from "./timeline.js" */

/**
 * Shows the chain of causes of a line.
 * @param {Element} side @param {string} threadId @param {Line} line @param {() => void} close
 */
export async function showWhy(side, threadId, line, close) {
  const body = h("div", null, h("p", { class: "hint" }, "Loading…"));
  fill(side, sideHeader("Why did this happen?", close), body);
  if (!may("operate")) {
    fill(
      body,
      facts([
        ["Turn", line.eventId],
        ["Agent", line.agent],
        ["Reply", line.messageId],
      ]),
      h("p", { class: "hint" }, "The records behind it need a key with the role operate."),
    );
    return;
  }
  const ids = new Set(
    [
      line.eventId,
      `${line.eventId}.hook`,
      line.messageId,
      `${line.messageId}.llm`,
      `${line.messageId}.hook`,
      `${line.messageId}.calls`,
      `${line.messageId}.calls.hook`,
      line.callId && `${line.callId}.result`,
      line.callId && `${line.callId}.result.hook`,
    ].flatMap((id) => (id === undefined || id.startsWith("undefined") ? [] : [id])),
  );
  await act(null, async () => {
    const { records } = await client.request("GET /v1/threads/{id}/records", { path: { id: threadId }, query: { id: [...ids] } });
    const cause = records.find((r) => r.id === line.eventId);
    fill(
      body,
      h(
        "ol",
        { class: "causes" },
        cause?.parentEventId && h("li", null, "Caused by ", h("code", null, cause.parentEventId)),
        records.map((r) =>
          h(
            "li",
            null,
            because(r),
            h("span", { class: "hint" }, " ", time(r.createdAt)),
            shownCall(r) !== undefined &&
              h(
                "p",
                null,
                button("What the model saw", () => showModelCall(side, threadId, shownCall(r) ?? "", close, () => showWhy(side, threadId, line, close))),
              ),
            h("details", null, h("summary", null, `Record ${r.seq}`), h("pre", { class: "code", tabIndex: 0 }, pretty(r))),
          ),
        ),
      ),
      facts([
        ["Turn", line.eventId],
        ["Trace", cause?.traceId],
      ]),
    );
  });
}

/**
 * What the sentences on records need of their payloads.
 * @typedef {object} Payload
 * @property {string} senderType @property {string} senderId @property {string} toolName @property {string} content @property {boolean} [isError]
 * @property {string} agent @property {string} model @property {number} messages @property {number} durationMs @property {number} attempt
 * @property {import("./modelcall.js").ModelCall["usage"]} usage @property {{ model: string, error: string }[]} [failed] @property {string} [finishReason]
 * @property {unknown} [context] What the model was sent, if the record keeps it. @property {string} messageId
 * @property {string} agentName @property {{ function: { name: string } }[]} toolCalls
 * @property {{ name: string, outcome: string, error?: string }[]} [hooks] @property {string} outcome
 * @property {string} type @property {{ source?: string }} [metadata]
 */

/** The payload of a record, as the type of the record says. @param {components["schemas"]["Record"]} r */
const payloadOf = (r) => /** @type {Payload} */ (r.payload);

/** The message of a model call whose request can be shown. @param {components["schemas"]["Record"]} r */
const shownCall = (r) => (r.type === "llm_call" && payloadOf(r).context ? payloadOf(r).messageId : undefined);

/** A sentence on a record. @param {components["schemas"]["Record"]} r */
function because(r) {
  const p = payloadOf(r);
  switch (r.type) {
    case "message":
      if (p.senderType === "tool") return `${p.toolName} returned${p.isError ? " an error" : ""}: ${cut(p.content, 80)}`;
      return `${p.senderId} wrote: ${cut(p.content || "(tool calls only)", 80)}`;
    case "llm_call":
      return [
        `${p.agent} asked ${p.model} with ${p.messages} messages: ${p.usage.inputTokens} tokens in`,
        p.usage.cachedTokens && ` (${p.usage.cachedTokens} cached)`,
        `, ${p.usage.outputTokens} out`,
        `, ${(p.durationMs / 1000).toFixed(1)} s`,
        p.attempt > 1 && `, attempt ${p.attempt}`,
        p.failed && `, instead of ${p.failed.map((f) => `${f.model} (${f.error})`).join(", ")}`,
        p.finishReason && `, ${p.finishReason}`,
      ]
        .filter(Boolean)
        .join("");
    case "tool_call":
      return `${p.agentName} called ${p.toolCalls.map((c) => c.function.name).join(", ")}`;
    case "hook":
      return `Hooks: ${(p.hooks ?? []).map((one) => `${one.name} ${one.outcome}${one.error ? ` (${one.error})` : ""}`).join(", ") || p.outcome}`;
    case "env":
      return `Event ${p.type} from ${p.metadata?.source ?? "the environment"}`;
  }
  return r.type;
}

/**
 * Shows what the thread has beside its lines. show leads to a line.
 * @param {Element} side @param {Thread} thread @param {() => void} close @param {(key: string) => void} show
 */
export function showDetails(side, thread, close, show) {
  const usage = h("section"),
    queue = h("section"),
    tasks = h("section"),
    grants = h("section");
  fill(
    side,
    sideHeader("Thread", close),
    h(
      "section",
      null,
      facts([
        ["Id", h("code", null, thread.id)],
        ["Status", thread.status],
        ["Opened", time(thread.createdAt)],
        ["Active", thread.updatedAt && ago(thread.updatedAt)],
        ["Agents", thread.agents.join(", ")],
        ["Records", thread.head.toLocaleString()],
        ["Metadata", thread.metadata && h("pre", { class: "code", tabIndex: 0 }, pretty(thread.metadata))],
      ]),
    ),
    usage,
    h("h3", null, "Queue"),
    queue,
    h("h3", null, "Background tasks"),
    tasks,
    h("h3", null, "Grants"),
    grants,
  );
  showUsage(thread.id, usage);
  showQueue(thread.id, queue);
  act(null, async () => {
    const found = await client.request("GET /v1/threads/{id}/tasks", { path: { id: thread.id } });
    fill(
      tasks,
      found.tasks.length === 0
        ? h("p", { class: "hint" }, "None.")
        : h(
            "ul",
            { class: "plain" },
            found.tasks.map((t) =>
              h(
                "li",
                null,
                h("span", { class: `badge ${t.state}` }, t.state),
                " ",
                t.title || t.tool || t.subAgent,
                h(
                  "span",
                  { class: "hint" },
                  " ",
                  time(t.startedAt),
                  t.endedAt && ` · took ${durationText(Date.parse(t.endedAt) - Date.parse(t.startedAt))}`,
                  t.by && ` · ${t.state} by ${t.by}`,
                ),
                t.error && h("p", { class: "error" }, t.error),
                button("Progress", () => show(`t:${t.toolCallId}`), { class: "quiet", title: "Show the call with its progress" }),
                t.state === "running" &&
                  may("operate") &&
                  button(
                    "Cancel",
                    (e) =>
                      act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
                        await client.request("POST /v1/tasks/{id}/cancel", { path: { id: t.id }, body: { by: await person() } });
                        showDetails(side, thread, close, show);
                      }),
                    { class: "quiet danger" },
                  ),
              ),
            ),
          ),
    );
  });
  act(null, () => showGrants(thread.id, grants));
}

/** Shows the tokens of the thread, which only the thread itself knows. @param {string} id @param {Element} place */
async function showUsage(id, place) {
  try {
    const { usage } = await client.request("GET /v1/threads/{id}", { path: { id }, query: { state: true } });
    if (usage) fill(place, h("h3", null, "Usage"), facts([["Model calls", (usage.modelCalls ?? 0).toLocaleString()], ...tokenFacts(usage)]));
  } catch (error) {
    fill(place, h("h3", null, "Usage"), h("p", { class: "hint" }, `The tokens are unknown: ${/** @type {Error} */ (error).message}`));
  }
}

/** @param {string} id @param {Element} place */
async function showQueue(id, place) {
  await act(null, async () => {
    const queue = await client.request("GET /v1/threads/{id}/queue", { path: { id } });
    /** @param {components["schemas"]["QueueItem"]} item @param {string} state @param {...import("./dom.js").Child} controls */
    const row = (item, state, ...controls) =>
      h(
        "li",
        { class: "queue-item" },
        h("span", { class: `badge ${state}` }, state),
        " ",
        cut(itemText(item), 80),
        item.priority !== 0 && h("span", { class: "badge" }, `priority ${item.priority}`),
        item.error && h("p", { class: "error" }, item.error),
        may("operate") && h("span", { class: "row" }, controls),
      );
    /** @param {string} label @param {() => Promise<unknown>} action */
    const control = (label, action) =>
      button(
        label,
        (e) =>
          act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
            await action();
            await showQueue(id, place);
          }),
        { class: "quiet" },
      );
    const rows = [
      queue.processing && row(queue.processing, "processing"),
      ...(queue.waiting ?? []).map((i) => row(i, "waiting")),
      ...queue.failed.map((i) =>
        row(
          i,
          "failed",
          control("Retry", async () =>
            client.request("POST /v1/threads/{id}/queue/{eventId}/retry", { path: { id, eventId: i.id }, body: { by: await person() } }),
          ),
          control("Drop", async () =>
            client.request("PATCH /v1/threads/{id}/queue/{eventId}", {
              path: { id, eventId: i.id },
              body: { status: "completed", by: await person(), reason: "dropped" },
            }),
          ),
        ),
      ),
    ].filter(Boolean);
    fill(
      place,
      h("ul", { class: "plain" }, rows),
      h("p", { class: "hint" }, queue.items.length > 0 ? `${queue.items.length} more wait, at the end of the thread.` : rows.length === 0 && "Empty."),
      button("Refresh", () => showQueue(id, place), { class: "quiet" }),
    );
  });
}
