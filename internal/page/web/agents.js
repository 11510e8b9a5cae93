// Agents: listed, their definitions shown and edited, versions compared.

import { diff } from "./diff.js";
import { act, button, fill, h, notify, pretty, time } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */

class Agents extends HTMLElement {
  agent = "";

  connectedCallback() {
    this.list = h("div", { class: "cards" });
    this.one = h("div");
    fill(
      this,
      h("header", { class: "page-header" }, h("h1", null, "Agents"), may("admin") && button("New agent", () => this.#edit(undefined), { class: "primary" })),
      this.one,
      this.list,
    );
    this.#load();
  }

  #load() {
    return act(null, async () => {
      const { agents } = await client.request("GET /v1/agents");
      fill(
        /** @type {Element} */ (this.list),
        agents.map((a) =>
          h(
            "article",
            { class: "card" },
            h("h2", null, h("a", { href: `#/agents/${encodeURIComponent(a.name)}` }, a.name), a.default && h("span", { class: "badge" }, "default")),
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
          ),
        ),
      );
      if (this.agent) await this.#show(this.agent);
    });
  }

  /** @param {string} name */
  async #show(name) {
    const detail = await client.request("GET /v1/agents/{name}", { path: { name } });
    const versions = h("div");
    fill(
      /** @type {Element} */ (this.one),
      h(
        "section",
        { class: "card wide" },
        h(
          "header",
          { class: "row" },
          h("h2", { class: "grow" }, name),
          may("admin") && detail.source === "stored" && button("Edit", () => this.#edit(detail)),
          may("admin") && detail.source === "configured" && h("span", { class: "hint" }, "From the configuration: edit it there"),
        ),
        (detail.warnings ?? []).map((/** @type {string} */ w) => h("p", { class: "error" }, w)),
        detail.definition?.instructions && [h("h3", null, "Instructions"), h("pre", { class: "prose", tabIndex: 0 }, detail.definition.instructions)],
        h("h3", null, "Definition"),
        h("pre", { class: "code", tabIndex: 0 }, pretty({ ...detail.definition, instructions: undefined })),
        versions,
      ),
    );
    if (detail.source !== "stored") return;
    const page = await client.request("GET /v1/agents/{name}/versions", { path: { name }, query: { limit: 50 } });
    const compared = h("div");
    fill(
      versions,
      h("h3", null, "Versions"),
      h(
        "ul",
        { class: "plain" },
        page.versions.map((v, i) =>
          h(
            "li",
            null,
            `Version ${v.version}`,
            v.deleted && " (deleted)",
            h("span", { class: "hint" }, v.by && ` by ${v.by}`, " ", time(v.at)),
            " ",
            page.versions[i + 1] &&
              button(
                "Compare with the one before",
                () =>
                  fill(
                    compared,
                    h("h3", null, `Version ${page.versions[i + 1].version} → ${v.version}`),
                    diff(pretty(page.versions[i + 1].definition ?? {}), pretty(v.definition ?? {})),
                  ),
                { class: "quiet" },
              ),
          ),
        ),
      ),
      compared,
    );
  }

  /** @param {components["schemas"]["AgentDetail"]} [detail] */
  #edit(detail) {
    const name = h("input", { value: detail?.name ?? "", required: true, readOnly: detail !== undefined, "aria-label": "Name" });
    const before = pretty(detail?.definition ?? { model: "demo/demo", description: "", instructions: "", tools: [] });
    const text = h("textarea", { value: before, rows: 18, class: "code", spellcheck: false, "aria-label": "Definition as JSON" });
    const changes = h("div"),
      error = h("p", { class: "error", role: "alert", hidden: true });
    text.addEventListener("input", () => fill(changes, detail && text.value !== before && diff(before, text.value)));
    const save = button(
      "Save",
      async () => {
        try {
          await client.request("PUT /v1/agents/{name}", {
            path: { name: name.value },
            body: JSON.parse(text.value),
            query: { by: await person(), ifVersion: detail?.version?.toString() },
          });
          notify("The agent is saved. It answers from the next turn on.");
          fill(/** @type {Element} */ (this.one));
          location.hash = `#/agents/${encodeURIComponent(name.value)}`;
          this.agent = name.value;
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
        h("h2", null, detail ? `Edit ${detail.name}` : "New agent"),
        h("label", null, "Name", name),
        h("label", null, "Definition", text),
        changes,
        error,
        h(
          "div",
          { class: "row" },
          save,
          button("Cancel", () => {
            fill(/** @type {Element} */ (this.one));
            this.#load();
          }),
        ),
      ),
    );
    name.focus();
  }
}

customElements.define("tm-agents", Agents);
