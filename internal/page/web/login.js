// Logins to MCP servers: who is logged in, and the page on which a person begins to log in.

import { confirmed } from "./dialog.js";
import { act, ago, button, facts, fill, h, notify } from "./dom.js";
import { myName, person } from "./person.js";
import { client, may, server } from "./session.js";
import { loading } from "./states.js";
import { samePerson } from "./timeline.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["ServerLogin"]} ServerLogin */

/** Whose logins the API shows: those of the key, or else of the person who gave a name. */
export const mine = () => ({ user: server.name ? undefined : myName() });

/** Whether the person may log in and out. @param {ServerLogin} login */
const mayLogIn = (login) => may(login.per === "user" ? "post" : "operate");

/** The address of the page on which a person logs in. @param {string} name */
const page = (name) => `#/servers/${encodeURIComponent(name)}/login`;

/** @param {ServerLogin} login */
function state(login) {
  if (login.loggedIn) return ["Logged in", login.by && ` by ${login.by}`, login.at && `, ${ago(login.at)}`].filter(Boolean).join("");
  return login.lost ? `Not logged in any more: ${login.lost}` : "Not logged in";
}

/** @param {string} name @param {ServerLogin} login */
function whose(name, login) {
  if (login.per !== "user") return `All threads of the namespace ${server.namespace} use ${name} with the account that you choose.`;
  return `Agents use ${name} with your account when they answer your messages. Everybody else has a login of their own.`;
}

/** The line about the login to a server. @param {string} name @param {ServerLogin} login @param {() => void} changed */
export function loginLine(name, login, changed) {
  const out = async () => {
    if (
      !(await confirmed(
        `Log out of ${name}?`,
        login.per === "user" ? `Your calls of its tools then wait for your login.` : "All calls of its tools then wait for a login.",
        "Log out",
      ))
    )
      return;
    await act(null, async () => {
      await client.request("DELETE /v1/mcp/{name}/login", { path: { name }, query: login.per === "user" ? mine() : {} });
      notify(`Logged out of ${name}.`);
      changed();
    });
  };
  return h(
    "p",
    { class: "row login" },
    h(
      "span",
      { class: login.loggedIn ? "grow" : "grow warning" },
      h("strong", null, login.per === "user" ? "Your login: " : "Login of all threads: "),
      state(login),
      login.wanted && ` · calls lack ${login.wanted.join(", ")}`,
    ),
    mayLogIn(login) &&
      button(
        login.loggedIn ? "Log in again…" : "Log in…",
        () => {
          location.hash = page(name);
        },
        { class: login.loggedIn ? "quiet" : "primary", "aria-label": `Log in to ${name}` },
      ),
    mayLogIn(login) && login.loggedIn && button("Log out…", out, { class: "quiet danger", "aria-label": `Log out of ${name}` }),
  );
}

/** What a call that waits for a login offers. @param {components["schemas"]["InputLogin"]} login */
export function loginChoice(login) {
  const me = myName();
  if (login.user && me && !samePerson(login.user, me))
    return h("p", { class: "hint" }, "Only ", h("strong", null, login.user), " can log in: the call is made for this person.");
  if (!may(login.user ? "post" : "operate")) return h("p", { class: "hint" }, `Your key does not allow you to log in to ${login.server}.`);
  return button(
    `Log in to ${login.server}`,
    () => {
      location.hash = page(login.server);
    },
    { class: "primary" },
  );
}

/** The page on which a person begins to log in. */
class Login extends HTMLElement {
  server = "";

  connectedCallback() {
    fill(this, loading());
    act(null, async () => {
      try {
        this.#show(await client.request("GET /v1/mcp/{name}", { path: { name: this.server }, query: mine() }));
      } catch (error) {
        fill(this, h("h1", null, "Log in"), h("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
      }
    });
  }

  /** @param {components["schemas"]["MCPServerDetail"]} s */
  #show(s) {
    const { login } = s;
    const all = h("p", null, h("a", { href: "#/servers" }, "All MCP servers"));
    if (!login) return fill(this, h("h1", null, s.name), h("p", null, "This server needs no login."), all);
    fill(
      this,
      h(
        "section",
        { class: "card login-page" },
        h("h1", null, `Log in to ${s.name}`),
        s.description && h("p", null, s.description),
        h("p", null, whose(s.name, login)),
        facts([
          ["Address", h("code", null, s.address)],
          ["You are", myName()],
          ["Now", state(login)],
          ["Permits", login.scopes?.join(", ")],
          ["Calls lack", login.wanted?.join(", ")],
        ]),
        mayLogIn(login)
          ? [
              h("p", null, "You go to the login of the server, where you choose the account. Calls that wait for it then go on by themselves."),
              button(
                `Log in to ${s.name}`,
                (e) =>
                  act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
                    const { url } = await client.request("POST /v1/mcp/{name}/login", { path: { name: s.name }, body: { user: await person() } });
                    location.assign(url);
                  }),
                { class: "primary" },
              ),
            ]
          : h("p", { class: "hint" }, `Your key does not allow you to log in: that needs the role ${login.per === "user" ? "post" : "operate"}.`),
        all,
      ),
    );
  }
}

customElements.define("tm-login", Login);
