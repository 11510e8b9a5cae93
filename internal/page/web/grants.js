// The grants of a thread: approvals that cover later calls.

import { act, button, fill, h, notify, time } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** A list of the grants of a thread. @param {string} threadId @param {Element} place */
export async function showGrants(threadId, place) {
  const { grants } = await client.request("GET", `/v1/threads/${encodeURIComponent(threadId)}/grants`);
  fill(place, grants.length === 0
    ? h("p", { class: "hint" }, "No approvals cover later calls.")
    : h("ul", { class: "plain" }, grants.map((/** @type {any} */ g) => h("li", { class: "grant" },
      h("code", null, g.toolName), ` for ${g.agent}, `, g.scope === "session" ? "the same call" : Object.entries(g.pattern ?? {}).map(([k, v]) => `${k}=${v}`).join(", "),
      h("span", { class: "hint" }, ` by ${g.by}, `, time(g.grantedAt)),
      may("approve") && button("Revoke", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
        await client.request("DELETE", `/v1/threads/${encodeURIComponent(threadId)}/grants/${encodeURIComponent(g.id)}`, { query: { by: await person() } });
        notify("The grant is revoked.");
        await showGrants(threadId, place);
      }), { class: "quiet danger" })))));
}
