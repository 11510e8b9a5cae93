// The grants of a thread: approvals that cover later calls.

import { confirmed } from "./dialog.js";
import { act, button, fill, h, notify, time } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** A list of the grants of a thread. @param {string} threadId @param {Element} place */
export async function showGrants(threadId, place) {
  const { grants } = await client.request("GET /v1/threads/{id}/grants", { path: { id: threadId } });
  fill(
    place,
    grants.length === 0
      ? h("p", { class: "hint" }, "No approvals cover later calls.")
      : h(
          "ul",
          { class: "plain" },
          grants.map((g) =>
            h(
              "li",
              { class: "grant" },
              h("code", null, g.toolName),
              ` for ${g.agent}, `,
              g.scope === "session"
                ? "the same call"
                : Object.entries(g.pattern ?? {})
                    .map(([k, v]) => `${k}=${v}`)
                    .join(", "),
              h("span", { class: "hint" }, ` by ${g.by}, `, time(g.grantedAt)),
              may("approve") &&
                button(
                  "Revoke…",
                  (e) =>
                    act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
                      if (
                        !(await confirmed(
                          "Revoke this grant?",
                          `Calls of ${g.toolName} that it covered ask people again. Calls that it has let run stay.`,
                          "Revoke it",
                        ))
                      )
                        return;
                      await client.request("DELETE /v1/threads/{id}/grants/{toolCallId}", {
                        path: { id: threadId, toolCallId: g.id },
                        query: { by: await person() },
                      });
                      notify("The grant is revoked.");
                      await showGrants(threadId, place);
                    }),
                  { class: "quiet danger" },
                ),
            ),
          ),
        ),
  );
}
