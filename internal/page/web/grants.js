// The grants of a thread: approvals that cover later calls.

import { confirmed } from "./dialog.js";
import { act, button, h, notify, time } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** A list of the grants of a thread. @param {string} threadId @param {() => Promise<void>} refresh Is called after a grant is revoked. */
export async function grantsOf(threadId, refresh) {
  const { grants } = await client.request("GET /v1/threads/{id}/grants", { path: { id: threadId } });
  if (grants.length === 0) return h("p", { class: "hint" }, "No approvals cover later calls.");
  /** @param {typeof grants[number]} g */
  const revoke = async (g) => {
    const warning = `Calls of ${g.toolName} that it covered ask people again. Calls that it has let run stay.`;
    if (!(await confirmed("Revoke this grant?", warning, "Revoke it"))) return;
    await client.request("DELETE /v1/threads/{id}/grants/{toolCallId}", { path: { id: threadId, toolCallId: g.id }, query: { by: await person() } });
    notify("The grant is revoked.");
    await refresh();
  };
  return h(
    "ul",
    { class: "plain" },
    grants.map((g) =>
      h(
        "li",
        { class: "grant", id: `grant-${g.id}` },
        h("code", null, g.toolName),
        ` for ${g.agent}, `,
        g.scope === "session"
          ? "the same call"
          : Object.entries(g.pattern ?? {})
              .map(([k, v]) => `${k}=${v}`)
              .join(", "),
        h("span", { class: "hint" }, ` by ${g.by}, `, time(g.grantedAt)),
        may("approve") && button("Revoke…", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => revoke(g)), { class: "quiet danger" }),
      ),
    ),
  );
}
