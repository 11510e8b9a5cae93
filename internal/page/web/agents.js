// Agents: listed, one shown with its versions, edited in a form, deleted and restored.

import { everyAgent } from "./agentlist.js";
import { find, store, versionsOf } from "./agentstore.js";
import { confirmed } from "./dialog.js";
import { act, button, fill, h, notify, pretty, time } from "./dom.js";
import { person } from "./person.js";
import { client, may, server } from "./session.js";
import { empty, shows } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @import { Doc, Stored } from "./draft.js" */
/** @import { Editing } from "./form.js" */
/** @typedef {components["schemas"]["AgentDetail"]} AgentDetail */
/** @typedef {components["schemas"]["AgentVersion"]} AgentVersion */

/** The address of an agent. @param {string} name @param {"edit"} [what] */
const address = (name, what) => `#/agents/${encodeURIComponent(name)}${what ? `?${what}` : ""}`;

class Agents extends HTMLElement {
  /** The agent that is shown, or "". */
  item = "";
  query = new URLSearchParams();
  #place = h("div");

  connectedCallback() {
    const making = this.item === "" && this.query.has("new");
    fill(
      this,
      h(
        "header",
        { class: "page-header" },
        h("h1", null, this.item || making ? h("a", { href: "#/agents" }, "Agents") : "Agents"),
        may("admin") && !this.item && !making && h("a", { class: "button primary", href: "#/agents?new" }, "New agent"),
      ),
      this.#place,
    );
    this.#place.addEventListener("stored", () => shows(this.#place, () => this.#show()));
    shows(this.#place, () => (this.item ? (this.query.has("edit") ? this.#edit() : this.#show()) : making ? this.#make() : this.#list()));
  }

  async #list() {
    const { agents, next } = await client.request("GET /v1/agents");
    const cards = h("div", { class: "cards" }, agents.map(card));
    let cursor = next ?? "";
    const more = button(
      "Show more",
      (e) =>
        act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
          const page = await client.request("GET /v1/agents", { query: { cursor } });
          cards.append(...page.agents.map(card));
          cursor = page.next ?? "";
          more.hidden = cursor === "";
        }),
      { class: "quiet", hidden: cursor === "" },
    );
    fill(
      this.#place,
      agents.length === 0
        ? empty(
            "There are no agents.",
            "An agent is a role: instructions, a model, tools and limits. Define one in the configuration of the server, or here.",
            may("admin") && h("a", { class: "button primary", href: "#/agents?new" }, "New agent"),
          )
        : [cards, more],
    );
  }

  async #show() {
    const [found] = await Promise.all([find(this.item), import("./versions.js")]);
    if (found.detail === undefined) return this.#gone(found.versions);
    const { detail } = found;
    const { name, definition } = detail;
    const stored = detail.source === "stored";
    fill(
      this.#place,
      h(
        "section",
        { class: "card wide" },
        h(
          "header",
          { class: "row" },
          h("h2", { class: "grow" }, name, stored && h("span", { class: "badge" }, `version ${detail.version}`)),
          may("admin") && stored && h("a", { class: "button", href: address(name, "edit") }, "Edit"),
          may("admin") && stored && button("Delete…", (e) => this.#delete(/** @type {HTMLElement} */ (e.currentTarget), detail), { class: "quiet danger" }),
        ),
        h(
          "p",
          { class: "hint" },
          stored
            ? ["Stored", detail.by && ` by ${detail.by}`, detail.at && [", ", time(detail.at)]].flat().flat()
            : ["Read-only: it is in the configuration of the server. Edit it there, or store another definition of that name, which takes precedence."],
        ),
        may("admin") && !stored && h("p", null, h("a", { href: address(name, "edit") }, "Store a definition of that name")),
        detail.problem && h("p", { class: "error" }, detail.problem),
        (detail.warnings ?? []).map((w) => h("p", { class: "warning" }, w)),
        definition?.instructions && [h("h3", null, "Instructions"), h("pre", { class: "prose", tabIndex: 0 }, definition.instructions)],
        h("h3", null, "Definition"),
        h("pre", { class: "code", tabIndex: 0 }, pretty({ ...definition, instructions: undefined })),
      ),
      stored && h("tm-versions", { of: versionsOf(name), newest: detail.version ?? 0 }),
    );
  }

  /** @param {AgentVersion[]} versions */
  #gone([last]) {
    fill(
      this.#place,
      h(
        "section",
        { class: "card wide" },
        h("h2", null, last.name, h("span", { class: "badge failed" }, "deleted")),
        h("p", null, "Deleted", last.by && ` by ${last.by}`, ", ", time(last.at), ". Its versions stay: it can be restored."),
      ),
      h("tm-versions", { of: versionsOf(last.name), newest: last.version, deleted: true }),
    );
  }

  /** @param {HTMLElement} control @param {AgentDetail} detail */
  async #delete(control, { name, version }) {
    const text =
      "Threads that have it fail at their next message, unless the configuration has an agent of that name: then that one answers. Its versions stay, so that you can restore it.";
    if (!(await confirmed(`Delete the agent ${name}?`, text, "Delete it"))) return;
    await act(control, async () => {
      await client.request("DELETE /v1/agents/{name}", { path: { name }, query: { by: await person(), ifVersion: String(version) } });
      notify(`The agent ${name} is deleted.`);
      await shows(this.#place, () => this.#show());
    });
  }

  async #make() {
    const agents = await everyAgent();
    await this.#form(
      agents,
      "New agent",
      { doc: undefined, version: 0 },
      { name: "", model: agents[0]?.model ?? "demo/demo", description: "", instructions: "" },
    );
  }

  async #edit() {
    const agents = await everyAgent();
    const detail = await client.request("GET /v1/agents/{name}", { path: { name: this.item } });
    const doc = /** @type {Doc} */ ({ ...detail.definition });
    const stored = detail.source === "stored" ? { doc, version: detail.version } : { doc: undefined, version: 0 };
    await this.#form(agents, `${detail.source === "stored" ? "Edit" : "Store"} ${detail.name}`, stored, doc);
  }

  /** @param {components["schemas"]["AgentSummary"][]} agents @param {string} title @param {Stored} stored @param {Doc} initial */
  async #form(agents, title, stored, initial) {
    // Who only reads needs no form.
    const [{ AGENT }] = await Promise.all([import("./agentfields.js"), import("./form.js")]);
    let name = this.item;
    /** @type {Editing} */
    const editing = {
      title,
      groups: AGENT,
      stored,
      initial,
      maxBytes: server.limits.agent,
      lists: { models: [...new Set(agents.map((a) => a.model ?? "").filter(Boolean))] },
      save: async (doc, { version }) => {
        name = String(doc.name ?? this.item);
        await store(name, doc, version ?? 0);
      },
      saved: () => {
        notify("The agent is saved. It answers with it from the next model call on.");
        location.hash = address(name);
      },
      cancel: () => {
        location.hash = this.item ? address(this.item) : "#/agents";
      },
    };
    fill(this.#place, h("tm-form", { editing }));
  }
}

/** @param {components["schemas"]["AgentSummary"]} a */
function card(a) {
  return h(
    "article",
    { class: a.problem ? "card failing" : "card" },
    h("h2", null, h("a", { href: address(a.name) }, a.name), a.default && h("span", { class: "badge" }, "default")),
    h("p", null, a.description || h("span", { class: "hint" }, "No description")),
    h(
      "p",
      { class: "hint" },
      h("code", null, a.model),
      ` · ${a.source}${a.version ? `, version ${a.version}` : ""}`,
      a.by && ` by ${a.by}`,
      a.at && [", ", time(a.at)],
    ),
    a.problem && h("p", { class: "error" }, a.problem),
  );
}

customElements.define("tm-agents", Agents);
