// Decides on several equal calls at once: the same tool with the same arguments in the same folder.

import { change } from "./bulkdialog.js";
import { callView } from "./callview.js";
import { counter } from "./counter.js";
import { h } from "./dom.js";
import { client, server } from "./session.js";

/** @import { Entry } from "./waitinglist.js" */

/** @typedef {Extract<Entry, { kind: "approval" }>} Call */

const VERBS = /** @type {const} */ ({
  approve: { verb: "Approve", done: "approved", style: "primary" },
  deny: { verb: "Deny", done: "denied", style: "danger" },
});

/**
 * Shows the calls on which a decision would be, and makes it if the person wants. Each call is decided by its own digest and round, so that one that has
 * changed meanwhile stays as it is, and says so.
 * @param {"approve" | "deny"} decision @param {Call[]} calls @returns {Promise<boolean>} Whether it began.
 */
export function decideAll(decision, calls) {
  const { toolName, arguments: args, workingDirectory } = calls[0].request;
  const reason = h("input", { name: "reason", placeholder: "Why? The agents are told (optional)", "aria-label": "Reason of the denials" });
  const limit = counter(reason, server.limits.reason);
  const body = h(
    "div",
    null,
    h("p", null, h("code", null, toolName), workingDirectory && [" in ", h("code", null, workingDirectory)]),
    callView(toolName, args).element,
    decision === "deny" && [reason, limit.line],
  );
  return change(
    {
      ...VERBS[decision],
      text: "Each of them is decided for itself. One that has changed or was decided meanwhile stays as it is.",
      count: (n) => (n === 1 ? "1 call" : `${n} calls`),
      name: ({ name, request }) => `${name} · ${request.agent}`,
      body,
      run: async ({ threadId, request }, by) => {
        const said = decision === "deny" ? { decision, reason: reason.value || undefined } : { decision, scope: /** @type {const} */ ("once") };
        const { missing } = await client.decide(threadId, request.toolCallId, { ...said, by, round: request.round, digest: request.digest });
        if (missing) return `${missing} more have to approve`;
      },
    },
    calls,
  );
}
