// How a call that waited was settled elsewhere: by whom, and with which answer.

import { decisionText } from "./approval.js";
import { answerText } from "./input.js";
import { client } from "./session.js";

/** How many of the newest events are searched. */
const EVENTS = 200;

/** A sentence on how a call was settled, or undefined if its thread does not say. @param {"approval" | "input"} kind @param {string} threadId @param {string} toolCallId */
export async function outcomeOf(kind, threadId, toolCallId) {
  const { events } = await client.eventsBefore(threadId, { limit: EVENTS });
  for (const e of events.toReversed()) {
    if (kind === "approval" && e.type === "approval" && e.approval.toolCallId === toolCallId) return `${decisionText(e.approval)}.`;
    if (kind === "input" && e.type === "input_received" && e.received.toolCallId === toolCallId) return answerText(e.received);
  }
  return undefined;
}
