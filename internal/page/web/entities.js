// The people and things that messages mention, the most mentioned first.

import { entitiesAddress, entityAddress } from "./addresses.js";
import { plural } from "./documentparts.js";
import { button, cut, fill, h, time } from "./dom.js";
import { client } from "./session.js";
import { loading } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @import { EntityFilters } from "./addresses.js" */
/** @typedef {components["schemas"]["Entity"]} Entity */
/** @typedef {components["schemas"]["ListEntitiesOutputBody"]} EntityPage */

/** The types that are looked for. Events of a thread can bring others. */
export const TYPES = ["person", "organization", "place", "product", "project", "event", "other"];

class Entities extends HTMLElement {
  /** @type {EntityFilters} */
  filters = {};

  #next = "";
  #timer = 0;
  #reading = new AbortController();

  #lacks = h("p", { class: "hint", hidden: true });
  #state = h("div", { role: "status" });
  #list = h("ul", { class: "rows", "aria-label": "People and things", hidden: true });
  #more = button("Show more", () => this.#read(this.#next), { class: "quiet", hidden: true });

  connectedCallback() {
    const { search, type } = this.filters;
    const types = type && !TYPES.includes(type) ? [...TYPES, type] : TYPES;
    fill(
      this,
      h(
        "div",
        { class: "row filters" },
        h("input", {
          type: "search",
          class: "grow",
          placeholder: "Search names",
          "aria-label": "Search names",
          maxLength: 200,
          value: search ?? "",
          oninput: (/** @type {Event} */ e) => this.#filter("search", e),
        }),
        h(
          "select",
          { "aria-label": "Type", onchange: (/** @type {Event} */ e) => this.#filter("type", e) },
          h("option", { value: "" }, "any type"),
          types.map((value) => h("option", { value, selected: value === type }, value)),
        ),
      ),
      this.#lacks,
      this.#state,
      this.#list,
      this.#more,
    );
    this.#read();
    this.#readState();
  }

  disconnectedCallback() {
    this.#reading.abort();
    clearTimeout(this.#timer);
  }

  /** Says why nobody and nothing is found in messages, if that is so. */
  async #readState() {
    try {
      const { withoutEntities } = await client.request("GET /v1/knowledge");
      this.#lacks.hidden = !withoutEntities;
      fill(this.#lacks, `Nothing new is found in messages: ${withoutEntities}.`);
    } catch {
      // The list tells what is wrong.
    }
  }

  /** @param {keyof EntityFilters} name @param {Event} e */
  #filter(name, e) {
    this.filters = { ...this.filters, [name]: /** @type {HTMLInputElement} */ (e.target).value.trim() };
    history.replaceState(null, "", entitiesAddress(this.filters));
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#read(), 200);
  }

  /** Shows a page: the one after a cursor, or the first. @param {string} [cursor] */
  async #read(cursor = "") {
    this.#reading.abort();
    const { signal } = (this.#reading = new AbortController());
    if (cursor === "") fill(this.#state, loading());
    try {
      /** @type {EntityPage} */
      const page = await client.request("GET /v1/entities", { query: { ...this.filters, cursor }, signal });
      const rows = page.entities.map(row);
      if (cursor === "") fill(this.#list, rows);
      else this.#list.append(...rows);
      this.#next = page.next ?? "";
      this.#more.hidden = this.#next === "";
      this.#list.hidden = this.#list.childElementCount === 0;
      fill(
        this.#state,
        this.#list.hidden &&
          (Object.values(this.filters).some((value) => value !== "")
            ? h("p", { class: "hint" }, "Nobody and nothing matches.")
            : h(
                "div",
                { class: "empty" },
                h("h2", null, "Nobody and nothing is known yet"),
                h(
                  "p",
                  { class: "hint" },
                  "Agents with ",
                  h("code", null, "knowledge: {entities: true}"),
                  " learn about the people and things that messages mention.",
                ),
              )),
      );
    } catch (error) {
      if (signal.aborted) return;
      fill(
        this.#state,
        h(
          "p",
          { class: "error", role: "alert" },
          /** @type {Error} */ (error).message,
          " ",
          button("Try again", () => this.#read(cursor), { class: "quiet" }),
        ),
      );
    }
  }
}

/** @param {Entity} e */
function row(e) {
  return h(
    "li",
    null,
    h("div", { class: "name" }, h("a", { class: "title", href: entityAddress(e.id) }, e.name), h("span", { class: "badge" }, e.type)),
    h("span", { class: "hint figures" }, plural(e.mentions, "mention")),
    h("span", { class: "hint when" }, time(e.mentionedAt)),
    h(
      "p",
      { class: "from hint" },
      [e.aliases.length > 0 && `also ${e.aliases.join(", ")}`, e.descriptions.length > 0 && cut(e.descriptions.join("; "), 200)].filter(Boolean).join(" · "),
    ),
  );
}

customElements.define("tm-entities", Entities);
