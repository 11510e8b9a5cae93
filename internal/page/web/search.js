// A search in documents, as agents make it: the passages, and why each was found.

import { searchAddress } from "./addresses.js";
import { button, fill, h } from "./dom.js";
import { marked } from "./marking.js";
import { passageName } from "./passages.js";
import { ranks } from "./ranks.js";
import { client } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @import { Passage } from "./ranks.js" */
/** @typedef {components["schemas"]["KnowledgeSearch"]} Found */

/** The most passages that are shown. */
const LIMIT = 20;

/** Characters of a text that is shown folded. */
const LONG = 600;

class Search extends HTMLElement {
  q = "";
  /** @type {string[]} */
  collections = [];

  #searching = new AbortController();
  #box = h("input", {
    type: "search",
    class: "grow",
    placeholder: "Words, or a question",
    "aria-label": "Search passages",
    maxLength: 2000,
    autocomplete: "off",
  });
  #choices = h("fieldset", { class: "kinds chosen", hidden: true });
  #state = h("div", { role: "status" });
  #list = h("ol", { class: "chunks", "aria-label": "Passages" });

  connectedCallback() {
    this.#box.value = this.q;
    fill(
      this,
      h(
        "form",
        { role: "search", onsubmit: (/** @type {Event} */ e) => this.#submit(e) },
        h("div", { class: "row above" }, this.#box, h("button", { class: "primary" }, "Search")),
        this.#choices,
      ),
      this.#state,
      this.#list,
    );
    this.#offerCollections();
    if (this.q !== "") this.#search();
    else {
      fill(this.#state, h("p", { class: "hint" }, "Finds the passages that an agent would be given, and says why."));
      this.#box.focus({ preventScroll: true });
    }
  }

  disconnectedCallback() {
    this.#searching.abort();
  }

  /** @param {Event} e */
  #submit(e) {
    e.preventDefault();
    const chosen = [...this.#choices.querySelectorAll("input:checked")].map((box) => /** @type {HTMLInputElement} */ (box).value);
    this.q = this.#box.value.trim();
    this.collections = chosen;
    if (this.q === "") return;
    const address = searchAddress(this.q, chosen);
    if (address !== location.hash) history.pushState(null, "", address);
    this.#search();
  }

  /** Offers the collections to search in, if there are several. */
  async #offerCollections() {
    const names = new Set(this.collections);
    try {
      const { collections } = await client.request("GET /v1/knowledge");
      for (const name of collections) names.add(name);
    } catch {
      // All collections are searched.
    }
    this.#choices.hidden = names.size < 2 && this.collections.length === 0;
    fill(
      this.#choices,
      h("legend", null, "Only in"),
      [...names].sort().map((name) =>
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            value: name,
            checked: this.collections.includes(name),
            onchange: (/** @type {Event} */ e) => this.q !== "" && this.#submit(e),
          }),
          name,
        ),
      ),
    );
  }

  async #search() {
    this.#searching.abort();
    const { signal } = (this.#searching = new AbortController());
    fill(this.#state, h("p", { class: "hint" }, "Searching…"));
    try {
      const found = await client.request("GET /v1/knowledge/search", { query: { q: this.q, limit: LIMIT, collection: this.collections }, signal });
      fill(
        this.#state,
        found.warning && h("p", { class: "warning" }, `The result may be worse than usual: ${found.warning}.`),
        found.passages.length === 0
          ? h(
              "div",
              { class: "empty" },
              h("h2", null, "No passage fits"),
              h("p", { class: "hint" }, "Try other words", this.collections.length > 0 && ", or all collections", "."),
            )
          : h(
              "p",
              { class: "hint" },
              found.passages.length === LIMIT ? `The best ${LIMIT} passages` : found.passages.length === 1 ? "1 passage" : `${found.passages.length} passages`,
            ),
      );
      fill(
        this.#list,
        found.passages.map((p) => passage(p, this.q)),
      );
      unrollToMarks(this.#list);
    } catch (error) {
      if (signal.aborted) return;
      fill(this.#list);
      fill(
        this.#state,
        h(
          "p",
          { class: "error", role: "alert" },
          /** @type {Error} */ (error).message,
          " ",
          button("Try again", () => this.#search(), { class: "quiet" }),
        ),
      );
    }
  }
}

/** @param {Passage} p @param {string} query */
function passage(p, query) {
  const body = h(
    "div",
    { class: "chunk-text" },
    marked(p.text, query).map(({ text, marked }) => (marked ? h("mark", null, text) : text)),
  );
  const long = p.text.length > LONG;
  body.classList.toggle("folded", long);
  return h(
    "li",
    { class: "chunk" },
    h("header", null, passageName(p), h("span", { class: "badge" }, p.collection)),
    h(
      "p",
      { class: "why hint" },
      ranks(p),
      p.score !== undefined && ` · score ${p.score.toFixed(4)}`,
      p.rerankScore !== undefined && ` · of that model ${p.rerankScore.toFixed(4)}`,
    ),
    p.context && h("p", { class: "hint" }, `Written by a model: ${p.context}`),
    body,
    long &&
      button("Show all", (e) => fill(/** @type {Element} */ (e.currentTarget), body.classList.toggle("folded") ? "Show all" : "Show less"), { class: "quiet" }),
  );
}

/** Moves each folded text whose first marked word is out of view so that its line is the second one. @param {Element} list */
function unrollToMarks(list) {
  for (const body of list.querySelectorAll(".folded")) {
    const top = (body.querySelector("mark")?.getBoundingClientRect().top ?? 0) - body.getBoundingClientRect().top;
    const line = parseFloat(getComputedStyle(body).lineHeight);
    if (top > body.clientHeight / 2) body.scrollTop = (Math.floor(top / line) - 1) * line;
  }
}

customElements.define("tm-search", Search);
