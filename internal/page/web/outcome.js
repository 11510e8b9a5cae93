// How a call that waited was settled elsewhere: by whom, and with which answer.

import { decisionText } from "./approval.js";
import { answerText } from "./input.js";
import { client } from "./session.js";

/** A sentence on how a call was settled in a round, or undefined if its thread does not say. @param {"approval" | "input"} kind @param {string} threadId @param {{ toolCallId: string, round?: number }} request */
export async function outcomeOf(kind, threadId, { toolCallId, round = 1 }) {
  const record = kind === "input" ? `received.${round}` : round > 1 ? `decision.${round}` : "decision";
  const [e] = (await client.eventsAfter(threadId, { event: `${toolCallId}.${record}`, limit: 1 })).events;
  if (e?.type === "approval") return `${decisionText(e.approval)}.`;
  if (e?.type === "input_received") return answerText(e.received);
  return undefined;
}
