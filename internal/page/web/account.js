// Who is signed in, with which roles, and the way out.

import { button, h } from "./dom.js";
import { forgetDrafts } from "./drafts.js";
import { mayLeave, reload } from "./leaving.js";
import { server, signedIn, signOut } from "./session.js";
import { rolesList } from "./signin.js";

/** The menu of the person that the key or the proxy names. */
export function account() {
  return h(
    "details",
    { class: "menu account" },
    h("summary", { title: `You are ${server.name}` }, server.name, h("span", { class: "unseen" }, ": your roles, and sign out")),
    h(
      "div",
      { class: "menu-items" },
      h("p", null, "You are ", h("strong", null, server.name), "."),
      rolesList(server.roles),
      signedIn() &&
        button("Sign out", async () => {
          if (!(await mayLeave())) return;
          signOut();
          forgetDrafts();
          reload();
        }),
    ),
  );
}
