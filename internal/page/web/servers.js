// MCP servers: their states, tools and problems; restarted, declared and removed.

import { confirmed } from "./dialog.js";
import { act, button, fill, h, notify, pretty, time } from "./dom.js";
import { guard } from "./leaving.js";
import { loginLine, mine } from "./login.js";
import { person } from "./person.js";
import { client, may } from "./session.js";
import { empty, shows } from "./states.js";

/** @import { components } from "./client/api.js" */

/** What the states of a server are called. @type {Record<string, string>} */
const STATES = { unknown: "not reported yet", connecting: "connecting", ready: "ready", failed: "failed", stopped: "stopped", needs_login: "needs a login" };

/** @param {components["schemas"]["ServerHints"]} hints */
const effect = (hints) => (hints.readOnly ? "reads only" : hints.destructive ? "may change or delete" : "adds");

/** How often the states are read, in milliseconds. */
const EVERY = 3000;

class Servers extends HTMLElement {
  shown = "";
  #unguard = () => {};

  connectedCallback() {
    this.one = h("div");
    this.list = h("div", { class: "stack" });
    this.add = h("span");
    fill(this, h("header", { class: "page-header" }, h("h1", null, "MCP servers"), h("div", { class: "row" }, this.add)), this.one, this.list);
    this.#load();
    this.timer = setInterval(() => {
      if (!document.hidden) this.#update().catch(() => {}); // the header tells of a lost connection
    }, EVERY);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    this.#unguard();
  }

  #load() {
    this.shown = "";
    return shows(/** @type {Element} */ (this.list), () => this.#update());
  }

  async #update() {
    const got = await client.request("GET /v1/mcp", { query: mine() });
    const text = JSON.stringify(got);
    if (text === this.shown) return; // what is open, or has the focus, stays so
    this.shown = text;
    fill(
      /** @type {Element} */ (this.add),
      may("admin") && got.permissions.servers && button("Add a server", () => this.#edit(undefined), { class: "primary" }),
    );
    fill(
      /** @type {Element} */ (this.list),
      got.servers.length === 0
        ? empty(
            "There are no MCP servers.",
            got.permissions.servers
              ? "An MCP server gives agents its tools. Declare one in the configuration of the workers, or add it here."
              : "An MCP server gives agents its tools. Declare one in the configuration of the workers, under mcp.",
          )
        : got.servers.map((s) => this.#card(s)),
    );
  }

  /** @param {components["schemas"]["MCPServer"]} s */
  #card(s) {
    const kind = { ready: "completed", failed: "failed", needs_login: "waiting" }[/** @type {string} */ (s.status)] ?? "running";
    return h(
      "section",
      { class: s.status === "failed" ? "card wide failing" : "card wide" },
      h(
        "header",
        { class: "row" },
        h(
          "h2",
          { class: "grow" },
          s.name,
          " ",
          h("span", { class: `badge ${kind}` }, STATES[s.status] ?? s.status),
          s.trusted && h("span", { class: "badge" }, "trusted"),
        ),
        may("operate") &&
          button(
            "Restart",
            (e) =>
              act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
                await client.request("POST /v1/mcp/{name}/restart", { path: { name: s.name } });
                notify("It restarts within seconds.");
              }),
            { class: "quiet" },
          ),
        may("admin") &&
          s.source === "declared" &&
          button("Edit", () => act(null, async () => this.#edit(await client.request("GET /v1/mcp/{name}", { path: { name: s.name } }))), { class: "quiet" }),
        may("admin") && s.source === "declared" && button("Remove…", () => this.#remove(s.name), { class: "quiet danger" }),
      ),
      s.description && h("p", null, s.description),
      h(
        "p",
        { class: "hint" },
        h("code", null, s.address || s.transport),
        ` · ${s.source}`,
        s.serverName && ` · ${s.serverName} ${s.serverVersion ?? ""}`,
        s.status !== "unknown" && [" · since ", time(s.since)],
        (s.restarts ?? 0) > 0 && ` · ${s.restarts} restarts`,
      ),
      s.login && loginLine(s.name, s.login, () => this.#load()),
      s.error &&
        !(s.login && s.status === "needs_login") &&
        h("p", { class: "error" }, s.error, s.nextAttempt && [" (next attempt ", time(s.nextAttempt), ")"]),
      (s.problems ?? []).map((p) => h("p", { class: "error" }, `${p.subject}: ${p.reason}`)),
      s.log && h("details", { open: s.status === "failed" }, h("summary", null, "Its last output"), h("pre", { class: "code", tabIndex: 0 }, s.log)),
      s.tools.length > 0 &&
        h(
          "details",
          { open: s.tools.length <= 10 },
          h("summary", null, `${s.tools.length} ${s.tools.length === 1 ? "tool" : "tools"}`),
          h(
            "div",
            { class: "scroll-x" },
            h(
              "table",
              null,
              h(
                "thead",
                null,
                h(
                  "tr",
                  null,
                  ["Tool", "Description", "It says that it"].map((t) => h("th", { scope: "col" }, t)),
                ),
              ),
              h(
                "tbody",
                null,
                s.tools.map((t) =>
                  h(
                    "tr",
                    null,
                    h("td", null, h("code", null, t.name)),
                    h("td", null, t.description, t.changedAt && h("span", { class: "sub" }, "changed ", time(t.changedAt))),
                    h("td", null, effect(t.hints)),
                  ),
                ),
              ),
            ),
          ),
        ),
    );
  }

  /** @param {string} name */
  async #remove(name) {
    if (
      !(await confirmed(
        `Remove the server ${name}?`,
        "Its declaration is gone. Agents lose its tools, and calls of them fail. Copy the declaration first if you may want it back.",
        "Remove it",
      ))
    )
      return;
    await act(null, async () => {
      await client.request("DELETE /v1/mcp/{name}", { path: { name } });
      await this.#load();
    });
  }

  /** @param {components["schemas"]["MCPServerDetail"]} [s] */
  #edit(s) {
    const name = h("input", { value: s?.name ?? "", required: true, readOnly: s !== undefined, "aria-label": "Name" });
    const before = pretty(s?.declaration ?? { url: "", headersEnv: {} });
    const text = h("textarea", {
      value: before,
      rows: 10,
      class: "code",
      spellcheck: false,
      "aria-label": "Declaration as JSON",
    });
    const error = h("p", { class: "error", role: "alert", hidden: true });
    this.#unguard();
    this.#unguard = guard(() => text.value !== before || name.value !== (s?.name ?? ""));
    const close = () => {
      this.#unguard();
      fill(/** @type {Element} */ (this.one));
    };
    const save = button(
      "Save",
      async () => {
        try {
          await client.request("PUT /v1/mcp/{name}", {
            path: { name: name.value },
            body: JSON.parse(text.value),
            query: { by: await person(), ifVersion: String(s?.version ?? 0) },
          });
          notify("The server is declared. Workers connect within seconds.");
          close();
          await this.#load();
        } catch (problem) {
          error.hidden = false;
          fill(error, /** @type {Error} */ (problem).message);
        }
      },
      { class: "primary" },
    );
    fill(
      /** @type {Element} */ (this.one),
      h(
        "section",
        { class: "card wide" },
        h("h2", null, s ? `Edit ${s.name}` : "Add a server"),
        h("p", { class: "hint" }, "Secrets stay in environment variables of the workers, whose names begin with MCP_."),
        h("label", null, "Name", name),
        h("label", null, "Declaration", text),
        error,
        h("div", { class: "row" }, save, button("Cancel", close)),
      ),
    );
    name.focus();
  }
}

customElements.define("tm-servers", Servers);
