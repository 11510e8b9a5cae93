// How a call that waited was settled elsewhere: by whom, and with which answer.

import { decisionText } from "./approval.js";
import { answerText } from "./input.js";
import { client } from "./session.js";

/** How many of the newest events are searched. */
const EVENTS = 200;

/** A sentence on how a call was settled in a round, or undefined if its thread does not say. @param {"approval" | "input"} kind @param {string} threadId @param {{ toolCallId: string, round?: number }} request */
export async function outcomeOf(kind, threadId, { toolCallId, round = 1 }) {
  const { events } = await client.eventsBefore(threadId, { limit: EVENTS });
  for (const e of events.toReversed()) {
    if (kind === "approval" && e.type === "approval") {
      const { approval } = e;
      const settles = !approval.missing && approval.decision !== "revoked" && (approval.round ?? 1) === round;
      if (settles && approval.toolCallId === toolCallId) return `${decisionText(approval)}.`;
    }
    if (kind === "input" && e.type === "input_received" && e.received.toolCallId === toolCallId && e.received.round === round) return answerText(e.received);
  }
  return undefined;
}
