// The documents that agents search: listed, filtered, and followed while they are processed.

import "./adding.js";
import { changes } from "./additions.js";
import { documentAddress, documentsAddress } from "./addresses.js";
import { badge, documentName, figures, reindex, remove } from "./documentparts.js";
import { button, fill, h, time } from "./dom.js";
import { isGrowing, showIndex } from "./indexstate.js";
import { client, may } from "./session.js";
import { loading } from "./states.js";

/** @import { Adding } from "./adding.js" */
/** @import { components } from "./client/api.js" */
/** @import { DocumentFilters } from "./addresses.js" */
/** @import { KnowledgeDocument } from "./documentparts.js" */

/** How often the list is read: while a document is processed, and otherwise. In milliseconds. */
const SOON = 1000,
  LATER = 10_000;

/** Documents of a page, and the most of a request. */
const PAGE = 50,
  MOST = 200;

/** The statuses, and what they are called. */
const STATUSES = [
  ["", "any status"],
  ["processing", "processing"],
  ["indexed", "indexed"],
  ["failed", "failed"],
];

class Documents extends HTMLElement {
  /** @type {DocumentFilters} */
  filters = {};

  /** How many documents are wanted. */
  #wanted = PAGE;
  /** @type {Map<string, Row>} */
  #rows = new Map();
  /** Reads the list soon when something of what the person has added has changed. */
  #added = () => this.#readIn(0);
  #timer = 0;
  #reading = new AbortController();
  #drops = new AbortController();

  #index = h("p", { class: "hint grow" });
  #adding = /** @type {Adding} */ (h("tm-adding"));
  #state = h("div", { role: "status" });
  #list = h("ul", { class: "rows", "aria-label": "Documents", hidden: true });
  #more = button("Show more", () => this.#showMore(), { class: "quiet", hidden: true });
  #collections = h("datalist", { id: "collections" });

  connectedCallback() {
    const { search, collection, status } = this.filters;
    const add =
      may("post") &&
      button("Add documents", (e) => this.#adding.toggle(/** @type {HTMLElement} */ (e.currentTarget)), { class: "primary", "aria-expanded": "false" });
    fill(
      this,
      h("div", { class: "row above" }, this.#index, add),
      may("post") && this.#adding,
      h(
        "div",
        { class: "row filters" },
        h("input", {
          type: "search",
          class: "grow",
          placeholder: "Search titles and sources",
          "aria-label": "Search documents",
          maxLength: 200,
          value: search ?? "",
          oninput: (/** @type {Event} */ e) => this.#filter("search", e),
        }),
        h("input", {
          placeholder: "all collections",
          "aria-label": "Collection",
          list: "collections",
          maxLength: 100,
          value: collection ?? "",
          oninput: (/** @type {Event} */ e) => this.#filter("collection", e),
        }),
        this.#collections,
        h(
          "select",
          { "aria-label": "Status", onchange: (/** @type {Event} */ e) => this.#filter("status", e) },
          STATUSES.map(([value, label]) => h("option", { value, selected: value === status }, label)),
        ),
      ),
      this.#state,
      this.#list,
      this.#more,
    );
    fill(this.#state, loading());
    if (may("post")) this.#acceptDrops();
    changes.addEventListener("document", this.#added);
    this.#read();
  }

  /** Adds files that are dropped anywhere on the page, which would open them otherwise. */
  #acceptDrops() {
    const { signal } = this.#drops;
    /** @param {DragEvent} e */
    const hasFiles = (e) => e.dataTransfer?.types.includes("Files");
    document.addEventListener(
      "dragover",
      (e) => {
        if (!hasFiles(e)) return;
        e.preventDefault();
        this.classList.add("dropping");
      },
      { signal },
    );
    document.addEventListener(
      "dragleave",
      (e) => {
        if (e.relatedTarget === null) this.classList.remove("dropping"); // it has left the window
      },
      { signal },
    );
    document.addEventListener(
      "drop",
      (e) => {
        this.classList.remove("dropping");
        if (!hasFiles(e)) return;
        e.preventDefault();
        this.#adding.drop(/** @type {DataTransfer} */ (e.dataTransfer));
      },
      { signal },
    );
  }

  disconnectedCallback() {
    this.#drops.abort();
    changes.removeEventListener("document", this.#added);
    this.#reading.abort();
    clearTimeout(this.#timer);
  }

  /** @param {keyof DocumentFilters} name @param {Event} e */
  #filter(name, e) {
    this.filters = { ...this.filters, [name]: /** @type {HTMLInputElement} */ (e.target).value.trim() };
    history.replaceState(null, "", documentsAddress(this.filters));
    this.#wanted = PAGE;
    this.#readIn(200);
  }

  #showMore() {
    this.#wanted = this.#rows.size + PAGE;
    this.#readIn(0);
  }

  /** @param {number} ms */
  #readIn(ms) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#read(), ms);
  }

  /** Reads what is shown again, and shows what has changed. */
  async #read() {
    clearTimeout(this.#timer);
    this.#reading.abort();
    const { signal } = (this.#reading = new AbortController());
    let wait = LATER;
    try {
      if (!document.hidden) {
        /** @type {[components["schemas"]["Knowledge"], { documents: KnowledgeDocument[], more: boolean }]} */
        const [index, { documents, more }] = await Promise.all([client.request("GET /v1/knowledge", { signal }), this.#documents(signal)]);
        showIndex(this.#index, index);
        this.#offer(index.collections);
        this.#show(documents);
        this.#more.hidden = !more;
        if (isGrowing(index) || documents.some((d) => d.status === "processing")) wait = SOON;
      }
    } catch (error) {
      if (signal.aborted) return;
      fill(
        this.#state,
        h(
          "p",
          { class: "error", role: "alert" },
          /** @type {Error} */ (error).message,
          " ",
          button("Try again", () => this.#read(), { class: "quiet" }),
        ),
      );
    }
    if (this.isConnected && !signal.aborted) this.#readIn(wait);
  }

  /** The documents that are wanted, and whether there are more. @param {AbortSignal} signal */
  async #documents(signal) {
    /** @type {KnowledgeDocument[]} */
    const documents = [];
    let cursor = "";
    do {
      const page = await client.request("GET /v1/knowledge/documents", {
        query: { ...this.filters, limit: Math.min(MOST, this.#wanted - documents.length), cursor },
        signal,
      });
      documents.push(...page.documents);
      cursor = page.next ?? "";
    } while (cursor !== "" && documents.length < this.#wanted);
    return { documents, more: cursor !== "" };
  }

  /** Offers the collections to filter by. @param {string[]} names */
  #offer(names) {
    const offered = [...this.#collections.children].map((o) => /** @type {HTMLOptionElement} */ (o).value);
    if (names.join("\n") !== offered.join("\n"))
      fill(
        this.#collections,
        names.map((value) => h("option", { value })),
      );
  }

  /** @param {KnowledgeDocument[]} documents */
  #show(documents) {
    const shown = new Set(documents.map((d) => d.id));
    for (const [id, row] of this.#rows) {
      if (shown.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    documents.forEach((d, i) => {
      const row = this.#rows.get(d.id) ?? new Row(d, () => this.#readIn(0));
      this.#rows.set(d.id, row);
      row.show(d);
      if (this.#list.children[i] !== row.element) this.#list.insertBefore(row.element, this.#list.children[i] ?? null);
    });
    this.#list.hidden = documents.length === 0;
    const processed = documents.filter((d) => d.status === "processing").length;
    const filtered = Object.values(this.filters).some((value) => value !== "");
    const text =
      documents.length > 0
        ? processed > 0 && `${processed} of these ${processed === 1 ? "is" : "are"} being processed.`
        : filtered
          ? "No document matches."
          : undefined;
    fill(
      this.#state,
      text === undefined
        ? h(
            "div",
            { class: "empty" },
            h("h2", null, "There are no documents yet"),
            h(
              "p",
              { class: "hint" },
              "Agents search the documents of this namespace, and cite them in their replies.",
              may("post") && " Drop files here to add them.",
            ),
          )
        : text && h("p", { class: "hint" }, text),
    );
  }
}

/** A row of the list. Its elements stay, so that what has the focus keeps it. */
class Row {
  #text = "";
  #link = h("a", { class: "title" });
  #badge = h("span");
  #facts = h("span", { class: "hint figures" });
  #when = h("span", { class: "hint when" });
  #source = h("code", { class: "source" });
  #collection = h("span", { class: "badge" });
  #error = h("p", { class: "error" });
  #actions;

  /** @param {KnowledgeDocument} document @param {() => void} changed */
  constructor(document, changed) {
    this.document = document;
    /** @param {(control: HTMLElement, d: KnowledgeDocument) => Promise<unknown>} action */
    const on = (action) => async (/** @type {Event} */ e) => {
      if (await action(/** @type {HTMLElement} */ (e.currentTarget), this.document)) changed();
    };
    this.#actions = [button("Index again…", on(reindex), { class: "quiet" }), button("Remove…", on(remove), { class: "quiet danger" })];
    this.element = h(
      "li",
      null,
      h("div", { class: "name" }, this.#link, this.#badge),
      this.#facts,
      this.#when,
      h("div", { class: "name from" }, this.#source, this.#collection),
      may("operate") && h("div", { class: "actions" }, this.#actions),
      this.#error,
    );
  }

  /** @param {KnowledgeDocument} d */
  show(d) {
    const text = JSON.stringify(d);
    if (text === this.#text) return;
    this.#text = text;
    this.document = d;
    this.#actions.forEach((action, i) => action.setAttribute("aria-label", `${["Index again", "Remove"][i]}: ${documentName(d)}`));
    this.#link.href = documentAddress(d.id);
    fill(this.#link, documentName(d));
    fill(this.#badge, badge(d.status));
    fill(this.#facts, figures(d));
    fill(this.#when, time(d.updatedAt));
    fill(this.#source, d.title && d.source);
    fill(this.#collection, d.collection);
    fill(this.#error, d.error, d.status === "failed" && d.indexed && " The revision before is still found.");
    this.#error.hidden = !d.error;
  }
}

customElements.define("tm-documents", Documents);
