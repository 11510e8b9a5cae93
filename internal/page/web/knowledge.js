// Knowledge: its parts, and which of them the address shows.

import "./documents.js";
import "./document.js";
import { documentsAddress } from "./addresses.js";
import { fill, h } from "./dom.js";

/** @import { DocumentView } from "./document.js" */

/** The parts: name, label, address. */
const PARTS = /** @type {const} */ ([["documents", "Documents", documentsAddress()]]);

export class KnowledgeView extends HTMLElement {
  #links = PARTS.map(([, label, href]) => h("a", { href }, label));
  #place = h("div");

  connectedCallback() {
    fill(this, h("header", { class: "page-header" }, h("h1", null, "Knowledge"), h("nav", { class: "tabs", "aria-label": "Parts of knowledge" }, this.#links)), this.#place);
  }

  /** Shows what the address says: the part, and what of it. @param {string[]} rest @param {URLSearchParams} query */
  show([part = PARTS[0][0], id = "", index = ""], query) {
    document.title = "Knowledge · Threadmill";
    this.#links.forEach((link, i) => {
      if (PARTS[i][0] === part) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    const open = this.#place.firstElementChild;
    const at = { index: index === "" ? undefined : Number(index), passage: query.get("passage") ?? "" };
    if (part !== "documents") return fill(this.#place, h("p", { class: "error", role: "alert" }, "There is no such part of knowledge. ", h("a", { href: documentsAddress() }, "Show the documents")));
    if (id === "") return fill(this.#place, h("tm-documents", { filters: { collection: query.get("collection") ?? "", status: query.get("status") ?? "", search: query.get("search") ?? "" } }));
    if (open?.localName === "tm-document" && /** @type {DocumentView} */ (open).document === id) return /** @type {DocumentView} */ (open).show(at);
    return fill(this.#place, h("tm-document", { document: id, at }));
  }
}

customElements.define("tm-knowledge", KnowledgeView);
