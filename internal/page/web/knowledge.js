// Knowledge: its parts, and which of them the address shows.

import "./documents.js";
import "./document.js";
import "./entities.js";
import "./entity.js";
import "./search.js";
import { documentsAddress, entitiesAddress, searchAddress } from "./addresses.js";
import { fill, h } from "./dom.js";

/** @import { DocumentView } from "./document.js" */

/** The parts: name, label, address. */
const PARTS = /** @type {const} */ ([
  ["documents", "Documents", documentsAddress()],
  ["search", "Search", searchAddress()],
  ["entities", "People and things", entitiesAddress()],
]);

export class KnowledgeView extends HTMLElement {
  #links = PARTS.map(([, label, href]) => h("a", { href }, label));
  #place = h("div");

  connectedCallback() {
    fill(
      this,
      h("header", { class: "page-header" }, h("h1", null, "Knowledge"), h("nav", { class: "tabs", "aria-label": "Parts of knowledge" }, this.#links)),
      this.#place,
    );
  }

  /** Shows what the address says: the part, and what of it. @param {string[]} rest @param {URLSearchParams} query */
  show([part = PARTS[0][0], id = "", index = ""], query) {
    document.title = "Knowledge · Threadmill";
    this.#links.forEach((link, i) => {
      if (PARTS[i][0] === part) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    const view = this.#view(part, id, index, query);
    if (view !== this.#place.firstElementChild) fill(this.#place, view);
  }

  /** What the address says, or the view that shows it already. @param {string} part @param {string} id @param {string} index @param {URLSearchParams} query */
  #view(part, id, index, query) {
    const text = (/** @type {string} */ name) => query.get(name) ?? "";
    switch (part) {
      case "documents": {
        if (id === "") return h("tm-documents", { filters: { collection: text("collection"), status: text("status"), search: text("search") } });
        const at = { index: /^\d{1,9}$/.test(index) ? Number(index) : undefined, passage: text("passage") };
        const open = /** @type {DocumentView | null} */ (this.#place.querySelector(":scope > tm-document"));
        if (open?.document !== id) return h("tm-document", { document: id, at });
        open.show(at);
        return open;
      }
      case "search":
        return h("tm-search", { q: text("q"), collections: query.getAll("collection") });
      case "entities":
        return id === "" ? h("tm-entities", { filters: { type: text("type"), search: text("search") } }) : h("tm-entity", { entity: id });
    }
    return h("p", { class: "error", role: "alert" }, "There is no such part of knowledge.");
  }
}

customElements.define("tm-knowledge", KnowledgeView);
