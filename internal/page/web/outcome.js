// What has become of a call while a person was writing about it.

import { decisionText } from "./approval.js";
import { client } from "./session.js";

/** @import { Approval, ApprovalRequest, InputReceived, InputRequest } from "./timeline.js" */

/** The most records of a thread that are looked through. */
const LIMIT = 1000;

/** The payloads of a thread's records of a type. @param {string} threadId @param {string} type */
async function payloads(threadId, type) {
  const { records } = await client.request("GET /v1/threads/{id}/records", { path: { id: threadId }, query: { type: [type], limit: LIMIT } });
  return records.map(({ payload }) => payload);
}

/** How a call was decided. @param {string} threadId @param {ApprovalRequest} request */
export async function decided(threadId, { toolCallId, round = 1 }) {
  const approvals = /** @type {Approval[]} */ (await payloads(threadId, "approval"));
  const last = approvals.findLast((a) => a.toolCallId === toolCallId && (a.round ?? 1) >= round && !a.missing && a.decision !== "revoked");
  return last ? `${decisionText(last)}.` : "The call needs no decision any more.";
}

/** Who has answered a call. @param {string} threadId @param {InputRequest} request */
export async function answered(threadId, { toolCallId, round }) {
  const answers = /** @type {InputReceived[]} */ (await payloads(threadId, "input_received"));
  return answerText(answers.find((a) => a.toolCallId === toolCallId && a.round === round));
}

/** A sentence that says how a question has ended. @param {InputReceived} [answer] */
export function answerText(answer) {
  return answer && !answer.withdrawn ? `Answered by ${answer.by}.` : "No answer is needed any more.";
}
