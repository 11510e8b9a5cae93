// The versions of a stored agent: two compared, and one stored again.

import { store } from "./agentstore.js";
import { diff } from "./diff.js";
import { act, button, fill, h, notify, time } from "./dom.js";
import { ChangedMeanwhile, readable, same } from "./draft.js";
import { client, may } from "./session.js";
import { shows } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @import { Doc } from "./draft.js" */
/** @typedef {components["schemas"]["AgentVersion"]} AgentVersion */

/** How many versions are read at a time. */
const PAGE = 50;

class Versions extends HTMLElement {
  agent = "";
  /** The version that is shown above. */
  newest = 0;
  /** Whether the agent is deleted. */
  deleted = false;
  /** @type {AgentVersion[]} */
  #versions = [];
  #next = 0;
  /** The versions that are compared: the older and the newer one. @type {[number, number]} */
  #compared = [0, 0];
  #place = h("div");
  #compare = h("div", { "aria-live": "polite" });

  connectedCallback() {
    fill(this, h("section", { class: "card wide", "aria-label": "Versions" }, h("h2", null, "Versions"), this.#place, this.#compare));
    shows(this.#place, () => this.#load());
  }

  async #load() {
    const page = await client.request("GET /v1/agents/{name}/versions", {
      path: { name: this.agent },
      query: { limit: PAGE, before: this.#next || undefined },
    });
    this.#versions = [...this.#versions, ...page.versions];
    this.#next = page.next ?? 0;
    const readableOnes = this.#versions.filter((v) => v.definition);
    if (this.#compared[0] === 0) this.#compared = [readableOnes[1]?.version ?? 0, readableOnes[0]?.version ?? 0];
    this.#draw();
  }

  #draw() {
    /** @param {0 | 1} side @param {AgentVersion} v @param {string} label */
    const radio = (side, v, label) =>
      h("input", {
        type: "radio",
        name: side === 0 ? "version-from" : "version-to",
        checked: this.#compared[side] === v.version,
        disabled: !v.definition,
        "aria-label": `${label} version ${v.version}`,
        onchange: () => {
          this.#compared[side] = v.version;
          this.#showDifference();
        },
      });
    fill(
      this.#place,
      h(
        "div",
        { class: "scroll-x" },
        h(
          "table",
          { class: "versions" },
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["From", "To", "Version", "Stored", ""].map((t) => (t ? h("th", { scope: "col" }, t) : h("td"))),
            ),
          ),
          h(
            "tbody",
            null,
            this.#versions.map((v) =>
              h(
                "tr",
                null,
                h("td", null, radio(0, v, "From")),
                h("td", null, radio(1, v, "To")),
                h("td", null, `${v.version}`, v.deleted && h("span", { class: "badge failed" }, "deleted")),
                h("td", null, v.by && `${v.by}, `, time(v.at), v.problem && h("span", { class: "error" }, ` ${v.problem}`)),
                h(
                  "td",
                  null,
                  may("admin") &&
                    v.definition &&
                    (this.deleted || v.version !== this.newest) &&
                    button(this.deleted ? "Restore…" : "Roll back…", () => this.#preview(v), {
                      class: "quiet",
                      "aria-label": `${this.deleted ? "Restore" : "Roll back to"} version ${v.version}…`,
                    }),
                ),
              ),
            ),
          ),
        ),
      ),
      this.#next > 0 && button("Older versions", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#load()), { class: "quiet" }),
    );
    this.#showDifference();
  }

  /** @param {number} version */
  #definition(version) {
    return /** @type {Doc | undefined} */ (this.#versions.find((v) => v.version === version)?.definition);
  }

  #showDifference() {
    const [from, to] = this.#compared;
    const before = this.#definition(from),
      after = this.#definition(to);
    if (!before || !after) return fill(this.#compare);
    fill(
      this.#compare,
      h("h3", null, `Version ${from} → ${to}`),
      same(before, after) ? h("p", { class: "hint" }, "They are the same.") : diff(readable(before), readable(after)),
    );
  }

  /** Shows what storing a version again would change, and does it. @param {AgentVersion} v */
  #preview(v) {
    const now = this.deleted ? {} : (this.#definition(this.newest) ?? {});
    const then = /** @type {Doc} */ ({ ...v.definition });
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const verb = this.deleted ? `Restore version ${v.version}` : `Store version ${v.version} again`;
    const section = h(
      "section",
      { class: "preview", tabIndex: -1, "aria-label": verb },
      h("h3", null, this.deleted ? verb : `Roll back to version ${v.version}`),
      h(
        "p",
        null,
        this.deleted
          ? "The agent is as that version has it, and answers again."
          : `It becomes version ${this.newest + 1}. The versions between stay. It applies from the next model call on, also in threads that run.`,
      ),
      same(now, then) ? h("p", { class: "hint" }, "Nothing changes: it is what is stored now.") : diff(readable(now), readable(then)),
      error,
      h(
        "div",
        { class: "row" },
        button(
          verb,
          (e) =>
            act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
              try {
                await store(this.agent, then, this.deleted ? 0 : this.newest);
                notify(`Version ${v.version} is stored again.`);
                this.dispatchEvent(new CustomEvent("stored", { bubbles: true }));
              } catch (problem) {
                if (/** @type {Error} */ (problem).name === "AbortError") return;
                error.hidden = false;
                fill(
                  error,
                  problem instanceof ChangedMeanwhile
                    ? `${problem.theirs.by || "Somebody else"} has changed the agent meanwhile: reload it and compare again.`
                    : /** @type {Error} */ (problem).message,
                );
              }
            }),
          { class: "primary", disabled: same(now, then) },
        ),
        button("Cancel", () => this.#showDifference()),
      ),
    );
    fill(this.#compare, section);
    section.focus();
    section.scrollIntoView({ block: "nearest" });
  }
}

customElements.define("tm-versions", Versions);
