// The versions of a stored definition: two compared, and one stored again.

import { diff } from "./diff.js";
import { act, button, fill, h, notify, time } from "./dom.js";
import { ChangedMeanwhile, readable, same } from "./draft.js";
import { shows } from "./states.js";

/** @import { Doc } from "./draft.js" */
/** @typedef {{ version: number, deleted?: boolean, by?: string, at?: string, definition?: Doc, problem?: string }} Version */

/**
 * What has versions.
 * @typedef {object} Versioned
 * @property {(before: number | undefined) => Promise<{ versions: Version[], next?: number }>} load The newest first.
 * @property {((doc: Doc, version: number) => Promise<void>) | undefined} store Stores a definition if a version is still the newest, 0 if it is deleted. Undefined: that is not allowed.
 * @property {string} restored What happens once a deleted one is restored.
 * @property {string} rolledBack What happens once a version is stored again.
 */

class Versions extends HTMLElement {
  /** @type {Versioned} */
  of = { load: async () => ({ versions: [] }), store: undefined, restored: "", rolledBack: "" };
  /** The version that is shown above. */
  newest = 0;
  /** Whether it is deleted. */
  deleted = false;
  /** @type {Version[]} */
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
    const page = await this.of.load(this.#next || undefined);
    this.#versions = [...this.#versions, ...page.versions];
    this.#next = page.next ?? 0;
    const readableOnes = this.#versions.filter((v) => v.definition);
    if (this.#compared[0] === 0) this.#compared = [readableOnes[1]?.version ?? 0, readableOnes[0]?.version ?? 0];
    this.#draw();
  }

  #draw() {
    /** @param {0 | 1} side @param {Version} v @param {string} label */
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
                  this.of.store &&
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
    return this.#versions.find((v) => v.version === version)?.definition;
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

  /** Shows what storing a version again would change, and does it. @param {Version} v */
  #preview(v) {
    const now = this.deleted ? {} : (this.#definition(this.newest) ?? {});
    const then = { ...v.definition };
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
          ? `It is as that version has it. ${this.of.restored}`
          : `It becomes version ${this.newest + 1}. The versions between stay. ${this.of.rolledBack}`,
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
                await this.of.store?.(then, this.deleted ? 0 : this.newest);
                notify(`Version ${v.version} is stored again.`);
                this.dispatchEvent(new CustomEvent("stored", { bubbles: true }));
              } catch (problem) {
                if (/** @type {Error} */ (problem).name === "AbortError") return;
                error.hidden = false;
                fill(
                  error,
                  problem instanceof ChangedMeanwhile
                    ? `${problem.theirs.by || "Somebody else"} has changed it meanwhile: reload it and compare again.`
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
