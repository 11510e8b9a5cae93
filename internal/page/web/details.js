// What is beside a thread: why a line came to be, and the thread's queue, tasks, grants and metadata.

import { act, ago, button, cut, facts, fill, h, pretty, sideHeader, time } from "./dom.js";
import { grantsOf } from "./grants.js";
import { showModelCall, tokenFacts } from "./modelcall.js";
import { person } from "./person.js";
import { itemText } from "./queue.js";
import { renew } from "./renew.js";
import { client, may } from "./session.js";
import { TaskList } from "./tasks.js";

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
  const of = [line.eventId, line.messageId, line.callId].filter((id) => id !== undefined);
  await act(null, async () => {
    const { records } = await client.request("GET /v1/threads/{id}/records", { path: { id: threadId }, query: { of } });
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
        p.usage.cacheWriteTokens && ` (${p.usage.cacheWriteTokens} written to the cache)`,
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
 * Shows what the thread has beside its lines.
 * @param {Element} side @param {Thread} thread @param {() => void} close
 * @param {Pick<import("./tasks.js").Around, "lineOf" | "show">} lines
 * @returns {{ refresh: () => Promise<void>, showProgress: () => void }} refresh reads all of it again. What has not changed stays as it is, also when it cannot be read.
 */
export function showDetails(side, thread, close, lines) {
  const about = h("section"),
    usage = h("section"),
    queue = h("section"),
    grants = h("section");
  const tasks = new TaskList({ threadId: thread.id, ...lines, refresh: () => refresh() });
  fill(
    side,
    sideHeader("Thread", close),
    about,
    usage,
    h("h3", null, "Queue"),
    queue,
    h("h3", null, "Background tasks"),
    tasks.element,
    h("h3", null, "Grants"),
    grants,
  );
  fill(about, facts(aboutFacts(thread)));
  const refresh = async () => {
    await Promise.all([
      into(about, async () => facts(aboutFacts(await client.thread(thread.id)))),
      into(usage, () => usageOf(thread.id)),
      into(queue, () => queueOf(thread.id, refresh)),
      into(
        tasks.element,
        () => tasks.read(),
        (list) => tasks.show(list),
      ),
      into(grants, () => grantsOf(thread.id, refresh)),
    ]);
  };
  refresh();
  return { refresh, showProgress: () => tasks.showProgress() };
}

/** @typedef {import("./dom.js").Child | import("./dom.js").Child[]} Content */

/**
 * Shows what is read. An error is shown if nothing else is.
 * @template [T=Content]
 * @param {Element} place @param {() => Promise<T>} read @param {(content: T) => void} [show]
 */
async function into(place, read, show = (content) => renew(place, /** @type {Content} */ (content))) {
  try {
    show(await read());
  } catch (error) {
    if (!place.hasChildNodes()) fill(place, h("p", { class: "error" }, /** @type {Error} */ (error).message));
  }
}

/** @param {Thread} thread @returns {[string, import("./dom.js").Child][]} */
function aboutFacts(thread) {
  return [
    ["Id", h("code", null, thread.id)],
    ["Status", thread.status],
    ["Opened", time(thread.createdAt)],
    ["Active", thread.updatedAt && ago(thread.updatedAt)],
    ["Agents", thread.agents.join(", ")],
    ["Records", thread.head.toLocaleString()],
    ["Metadata", thread.metadata && h("pre", { class: "code", tabIndex: 0 }, pretty(thread.metadata))],
  ];
}

/** A button that changes what is shown. @param {string} label @param {() => Promise<unknown>} action @param {() => Promise<void>} refresh @param {string} [kind] */
function control(label, action, refresh, kind = "") {
  return button(
    label,
    (e) =>
      act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
        await action();
        await refresh();
      }),
    { class: `quiet ${kind}` },
  );
}

/** The tokens of a thread, which only the thread itself knows. @param {string} id @returns {Promise<import("./dom.js").Child[]>} */
async function usageOf(id) {
  const title = h("h3", null, "Usage");
  try {
    const { usage } = await client.request("GET /v1/threads/{id}", { path: { id }, query: { state: true } });
    return usage ? [title, facts([["Model calls", (usage.modelCalls ?? 0).toLocaleString()], ...tokenFacts(usage)])] : [];
  } catch (error) {
    return [title, h("p", { class: "hint" }, `The tokens are unknown: ${/** @type {Error} */ (error).message}`)];
  }
}

/** The events that are processed, wait for people or have failed. @param {string} id @param {() => Promise<void>} refresh @returns {Promise<import("./dom.js").Child[]>} */
async function queueOf(id, refresh) {
  const queue = await client.request("GET /v1/threads/{id}/queue", { path: { id } });
  /** @param {components["schemas"]["QueueItem"]} item @param {string} state @param {...import("./dom.js").Child} controls */
  const row = (item, state, ...controls) =>
    h(
      "li",
      { class: "queue-item", id: `queue-${item.id}` },
      h("span", { class: `badge ${state}` }, state),
      " ",
      cut(itemText(item), 80),
      item.priority !== 0 && h("span", { class: "badge" }, `priority ${item.priority}`),
      item.error && h("p", { class: "error" }, item.error),
      may("operate") && h("span", { class: "row" }, controls),
    );
  const retry = async (/** @type {string} */ eventId) =>
    client.request("POST /v1/threads/{id}/queue/{eventId}/retry", { path: { id, eventId }, body: { by: await person() } });
  const drop = async (/** @type {string} */ eventId) =>
    client.request("PATCH /v1/threads/{id}/queue/{eventId}", { path: { id, eventId }, body: { status: "completed", by: await person(), reason: "dropped" } });
  const rows = [
    queue.processing && row(queue.processing, "processing"),
    ...(queue.waiting ?? []).map((i) => row(i, "waiting")),
    ...queue.failed.map((i) =>
      row(
        i,
        "failed",
        control("Retry", () => retry(i.id), refresh),
        control("Drop", () => drop(i.id), refresh),
      ),
    ),
  ].filter(Boolean);
  const more = queue.items.length > 0 ? `${queue.items.length} more wait, at the end of the thread.` : rows.length === 0 && "Empty.";
  return [h("ul", { class: "plain" }, rows), more && h("p", { class: "hint" }, more)];
}
