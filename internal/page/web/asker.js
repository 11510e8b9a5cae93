// What asked for a decision on a call.

/** @import { ApprovalRequest } from "./timeline.js" */

/** The name that the policy of the agent has instead of a rule's. */
const POLICY = "approvals";

/** A sentence on what asked, and why; "" if the request says neither. @param {Pick<ApprovalRequest, "agent" | "rule" | "reason">} request */
export function askerOf({ agent, rule, reason }) {
  const who = rule && (rule === POLICY ? `Asked by the approvals of agent ${agent}` : `Asked by rule ${rule}`);
  return [who, reason].filter(Boolean).join(": ");
}
