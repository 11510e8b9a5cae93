// The steps of a turn as bars of a waterfall: when each began and ended, and what it took.

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["Record"]} Record */
/** @typedef {components["schemas"]["ToolCallRun"]} ToolCallRun */
/** @typedef {components["schemas"]["Usage"]} Usage */

/**
 * @typedef {object} Bar
 * @property {"model" | "tool" | "approval" | "input" | "client"} kind
 * @property {string} name
 * @property {number} start Milliseconds since 1970, as the other times.
 * @property {number} begun When the work began: earlier attempts, and the wait for a worker, come before.
 * @property {number} end Of what goes on: now.
 * @property {boolean} open Whether it goes on.
 * @property {number} attempts The number of the last attempt; 0 if it is not known.
 * @property {boolean} failed
 * @property {string} note
 * @property {Usage} [usage]
 * @property {string} [messageId] The reply of a model call.
 * @property {string} [callId] The call of a tool.
 */

/**
 * @typedef {object} TurnBars
 * @property {Bar[]} bars In the order in which they began.
 * @property {number} start
 * @property {number} end
 * @property {boolean} open Whether the turn goes on.
 * @property {number} queued How long its message waited in the queue before, in milliseconds; 0 if that was less than a second.
 * @property {{ modelCalls: number, toolCalls: number, inputTokens: number, outputTokens: number, waited: number }} total waited: milliseconds in which only people and clients were waited for.
 */

/** What waits for a person or a client. */
const WAITS = new Set(["approval", "input", "client"]);

/** Types of the records that make bars. */
export const TYPES = [
  "message",
  "env",
  "llm_call",
  "tool_call",
  "approval_request",
  "approval",
  "input_request",
  "input_received",
  "client_call",
  "error",
  "turn_ended",
];

/**
 * @typedef {object} Payload What the payloads of these records have.
 * @property {string} [agent]
 * @property {string} [agentName]
 * @property {string} [model]
 * @property {string} [messageId]
 * @property {number} [attempt]
 * @property {number} [durationMs]
 * @property {Usage} [usage]
 * @property {{ model: string, error?: string, attempts?: number }[]} [failed]
 * @property {{ id: string, function: { name: string } }[]} [toolCalls]
 * @property {string} [toolCallId]
 * @property {string} [toolName]
 * @property {string} [senderType]
 * @property {string} [postedAt]
 * @property {boolean} [isError]
 * @property {number} [round]
 * @property {string} [decision]
 * @property {number} [missing]
 * @property {string} [by]
 * @property {string} [requestedAt]
 * @property {string} [decidedAt]
 * @property {string} [receivedAt]
 * @property {string} [expiresAt]
 * @property {string} [grant]
 * @property {string} [error]
 */

/** @param {string} iso */
const ms = (iso) => Date.parse(iso);

/**
 * The bars of a turn.
 * @param {{ records: readonly Record[], runs?: readonly ToolCallRun[], now: number }} turn records: those of the turn, in order. runs: when its tools ran, if that is known.
 * @returns {TurnBars}
 */
export function barsOf({ records, runs = [], now }) {
  /** @type {Bar[]} */
  const bars = [];
  /** The bars that go on. @type {Map<string, Bar>} */
  const waiting = new Map();
  const runOf = new Map(runs.map((run) => [run.toolCallId, run]));
  let ended = 0,
    queued = 0;
  /** When a step could begin: what came before it in the turn has ended. @param {number} at */
  const ready = (at) => Math.max(records.length > 0 ? ms(records[0].createdAt) : at, ...bars.filter((bar) => !bar.open && bar.end <= at).map((bar) => bar.end));
  /** @param {string} key @param {Partial<Bar> & Pick<Bar, "kind" | "name" | "start">} bar */
  const begin = (key, bar) => {
    const made = { begun: bar.start, end: now, open: true, attempts: 0, failed: false, note: "", ...bar };
    bars.push(made);
    waiting.set(key, made);
  };
  /** @param {string} id @param {string} name @param {number} start */
  const beginTool = (id, name, start) => {
    const run = runOf.get(id);
    begin(`tool ${id}`, { kind: "tool", name, start, begun: run ? ms(run.startedAt) : start, attempts: run?.attempt ?? 0, callId: id });
  };
  /** Removes the bar of a call that something else is waited for. @param {string} key */
  const drop = (key) => {
    const bar = waiting.get(key);
    if (bar) bars.splice(bars.indexOf(bar), 1);
    waiting.delete(key);
  };
  /** @param {string} key @param {number} at @param {Partial<Bar>} [change] */
  const end = (key, at, change) => {
    const bar = waiting.get(key);
    if (!bar) return;
    waiting.delete(key);
    Object.assign(bar, { open: false, end: Math.max(at, bar.start) }, change);
  };
  for (const record of records) {
    const p = /** @type {Payload} */ (record.payload ?? {});
    const at = ms(record.createdAt);
    const call = p.toolCallId ?? "";
    switch (record.type) {
      case "message":
        if (p.senderType === "tool") {
          const run = runOf.get(call);
          const finished = run?.finishedAt === undefined ? at : ms(run.finishedAt);
          for (const kind of WAITS) end(`${kind} ${call}`, at);
          end(`tool ${call}`, Math.min(at, finished), { failed: p.isError === true });
        } else if (p.postedAt && record.id === record.eventId) queued = at - ms(p.postedAt);
        break;
      case "llm_call": {
        const begun = at - (p.durationMs ?? 0);
        const start = Math.min(begun, ready(begun));
        const failed = (p.failed ?? []).map(({ model, error }) => [model, error].filter(Boolean).join(": "));
        bars.push({
          kind: "model",
          name: [p.agent, p.model].filter(Boolean).join(" · "),
          start,
          begun,
          end: at,
          open: false,
          attempts: p.attempt ?? 0,
          failed: false,
          note: failed.length > 0 ? `instead of ${failed.join(", ")}` : "",
          usage: p.usage,
          messageId: p.messageId,
        });
        break;
      }
      case "error":
        if (p.messageId) {
          const start = ready(at);
          bars.push({ kind: "model", name: p.agent ?? "", start, begun: start, end: at, open: false, attempts: 0, failed: true, note: p.error ?? "" });
        }
        break;
      case "tool_call":
        for (const { id, function: called } of p.toolCalls ?? []) beginTool(id, called.name, at);
        break;
      case "approval_request":
        if (waiting.has(`approval ${call}`)) break; // a reminder
        drop(`tool ${call}`);
        begin(`approval ${call}`, { kind: "approval", name: p.toolName ?? "", start: ms(p.requestedAt ?? record.createdAt), callId: call });
        break;
      case "approval": {
        if (p.missing || p.decision === "revoked" || p.grant || !waiting.has(`approval ${call}`)) break;
        const decided = ms(p.decidedAt ?? record.createdAt);
        const approved = p.decision === "approve";
        end(`approval ${call}`, decided, { failed: !approved, note: [approved ? "approved" : p.decision, p.by && `by ${p.by}`].filter(Boolean).join(" ") });
        if (approved) beginTool(call, p.toolName ?? "", decided);
        break;
      }
      case "input_request":
        begin(`input ${call}`, { kind: "input", name: p.toolName ?? "", start: ms(p.requestedAt ?? record.createdAt), callId: call });
        break;
      case "input_received":
        end(`input ${call}`, ms(p.receivedAt ?? record.createdAt), { note: p.by ? `by ${p.by}` : "" });
        break;
      case "client_call":
        drop(`tool ${call}`);
        begin(`client ${call}`, { kind: "client", name: p.toolName ?? "", start: ms(p.requestedAt ?? record.createdAt), callId: call });
        break;
      case "turn_ended":
        ended = at;
        for (const key of [...waiting.keys()]) end(key, at);
    }
  }
  for (const bar of bars) bar.begun = Math.min(Math.max(bar.begun, bar.start), bar.end);
  bars.sort((a, b) => a.start - b.start);
  const start = Math.min(...(records.length > 0 ? [ms(records[0].createdAt)] : []), ...bars.map((bar) => bar.start), now);
  const stop = ended || now;
  return { bars, start, end: Math.max(stop, start), open: ended === 0, queued, total: totalOf(bars) };
}

/** @param {readonly Bar[]} bars */
function totalOf(bars) {
  const models = bars.filter((bar) => bar.usage),
    waits = bars.filter((bar) => WAITS.has(bar.kind)),
    work = bars.filter((bar) => bar.kind === "model" || bar.kind === "tool");
  /** @param {(usage: Usage) => number} of */
  const sum = (of) => models.reduce((n, { usage }) => n + (usage ? of(usage) : 0), 0);
  return {
    modelCalls: bars.filter((bar) => bar.kind === "model").length,
    toolCalls: bars.filter((bar) => bar.kind === "tool").length,
    inputTokens: sum((usage) => usage.inputTokens),
    outputTokens: sum((usage) => usage.outputTokens),
    waited: covered(waits) - covered(waits.flatMap((wait) => within(work, wait))),
  };
}

/** The parts of bars that lie in the wait of another call. @param {readonly Bar[]} bars @param {Bar} wait */
function within(bars, wait) {
  return bars
    .filter((bar) => bar.callId === undefined || bar.callId !== wait.callId)
    .map((bar) => ({ start: Math.max(bar.start, wait.start), end: Math.min(bar.end, wait.end) }))
    .filter(({ start, end }) => end > start);
}

/** The time that spans cover. @param {readonly { start: number, end: number }[]} spans */
function covered(spans) {
  let sum = 0,
    until = Number.NEGATIVE_INFINITY;
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    sum += Math.max(0, end - Math.max(start, until));
    until = Math.max(until, end);
  }
  return sum;
}
