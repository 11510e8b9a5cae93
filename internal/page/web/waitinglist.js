// What waits for people, as a list: in which order, in which groups, and how much of it is shown at once.

import { nameOf } from "./threadlist.js";

/** @import { Waiting } from "./client/threadmill.js" */
/** @import { ApprovalRequest, ClientCall, InputRequest } from "./timeline.js" */

/** @typedef {{ key: string, threadId: string, name: string }} Place Where a call waits, and what people call the thread. */
/** @typedef {Place & ({ kind: "approval", request: ApprovalRequest } | { kind: "input", request: InputRequest } | { kind: "client", request: ClientCall })} Entry */
/** @typedef {"thread" | "call"} Grouping */

/** How many calls are shown at once. */
export const SHOWN = 60;

/** All that waits, the longest first: calls for a decision, then questions, then calls for a client. @param {Waiting} waiting @returns {Entry[]} */
export function entriesOf({ approvals, inputs, clientCalls }) {
  /** @param {string} kind @param {{ threadId: string, title?: string, preview?: string }} of @param {(string | number)[]} call */
  const place = (kind, of, ...call) => ({ key: JSON.stringify([of.threadId, kind, ...call]), threadId: of.threadId, name: nameOf({ ...of, id: of.threadId }) });
  return [
    ...approvals.map((a) => ({ ...place("approval", a, a.request.toolCallId), kind: /** @type {const} */ ("approval"), request: a.request })),
    ...inputs.map((i) => ({ ...place("input", i, i.request.toolCallId, i.request.round), kind: /** @type {const} */ ("input"), request: i.request })),
    ...clientCalls.map((c) => ({ ...place("client", c, c.call.toolCallId), kind: /** @type {const} */ ("client"), request: c.call })),
  ];
}

/** What the calls have in common that one decision can be about: tool, arguments and where it works. @param {Pick<ApprovalRequest, "toolName" | "arguments" | "workingDirectory">} request */
function callOf({ toolName, arguments: args, workingDirectory }) {
  return JSON.stringify([toolName, args, workingDirectory ?? ""]);
}

/** The group of an entry. Questions are never equal: each is asked for its own answer. @param {Entry} entry @param {Grouping} by */
export function groupOf(entry, by) {
  if (by === "thread") return entry.threadId;
  return entry.kind === "input" ? entry.key : callOf(entry.request);
}

/**
 * The order of entries: groups by their first entry. What is kept stays behind the entry that was before it, or comes to the end of its group.
 * @param {readonly Entry[]} now What waits.
 * @param {readonly Entry[]} before What was shown, in order.
 * @param {ReadonlySet<string>} kept The keys of entries that no longer wait, and stay.
 * @param {Grouping} by
 * @returns {Entry[]}
 */
export function ordered(now, before, kept, by) {
  const out = grouped(now, by);
  const waits = new Set(now.map((e) => e.key));
  before.forEach((entry, i) => {
    if (!kept.has(entry.key) || waits.has(entry.key)) return;
    const previous = before.slice(0, i).findLast((b) => out.some((e) => e.key === b.key));
    out.splice(previous ? out.findIndex((e) => e.key === previous.key) + 1 : 0, 0, entry);
  });
  return grouped(out, by);
}

/** Entries with each group together, where its first one is. @param {readonly Entry[]} entries @param {Grouping} by */
const grouped = (entries, by) => [...Map.groupBy(entries, (entry) => groupOf(entry, by)).values()].flat();

/** Where a window begins that shows an entry, and moves as little as needed. @param {number} from Where it began. @param {number} index Of the entry. @param {number} total */
export function windowFrom(from, index, total) {
  const last = Math.max(0, total - SHOWN);
  if (index >= from && index < from + SHOWN) return Math.min(from, last);
  return Math.max(0, Math.min(last, index - SHOWN / 2));
}
