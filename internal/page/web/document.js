// One document with its chunks, in their order.

import { documentAddress, documentsAddress } from "./addresses.js";
import { APIError } from "./client/threadmill.js";
import { badge, documentName, figures, reindex, remove } from "./documentparts.js";
import { act, button, copyButton, fill, h, pretty, time } from "./dom.js";
import { client, may } from "./session.js";
import { loading } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @import { KnowledgeDocument } from "./documentparts.js" */
/** @typedef {components["schemas"]["Chunk"]} Chunk */
/** @typedef {{ index?: number, passage: string }} Place A chunk, and the id of the passage that leads to it. */

/** How often the document is read: while it is processed, and otherwise. In milliseconds. */
const SOON = 1000,
  LATER = 10_000;

/** Chunks of a page. */
const PAGE = 50;

export class DocumentView extends HTMLElement {
  /** The id of the document. */
  document = "";
  /** @type {Place} */
  at = { passage: "" };

  #text = "";
  /** @type {KnowledgeDocument | undefined} */
  #document;
  /** The revision whose chunks are shown. @type {number | undefined} */
  #shown;
  #timer = 0;
  #aborted = new AbortController();
  /** How often the chunks were shown from another place: what was asked for before does not count any more. */
  #place = 0;
  /** The chunks that are shown: the first, and the one after the last. */
  #from = 0;
  #to = 0;

  #head = h("div");
  #controls = h("div", { class: "row" });
  #state = h("div", { role: "status" });
  #changed = h("p", { class: "warning", role: "status" });
  #earlier = button("Show earlier", () => act(this.#earlier, () => this.#before()), { class: "quiet", hidden: true });
  #list = h("ol", { class: "chunks", "aria-label": "Chunks" });
  #later = button("Show more", () => act(this.#later, () => this.#after()), { class: "quiet", hidden: true });

  connectedCallback() {
    fill(
      this,
      h("p", null, h("a", { href: documentsAddress() }, "‹ Documents")),
      h("section", { class: "card wide" }, this.#head, this.#state, this.#controls),
      this.#earlier,
      this.#list,
      this.#later,
    );
    fill(this.#state, loading());
    this.#read();
  }

  disconnectedCallback() {
    this.#aborted.abort();
    clearTimeout(this.#timer);
  }

  /** Shows another chunk of the same document. @param {Place} at */
  async show(at) {
    this.at = at;
    await act(null, () => this.#find());
  }

  /** Reads the document again, and its chunks if others are found now. */
  async #read() {
    clearTimeout(this.#timer);
    const { signal } = this.#aborted;
    try {
      if (!document.hidden) {
        /** @type {KnowledgeDocument} */
        const now = await client.request("GET /v1/knowledge/documents/{id}", { path: { id: this.document }, signal });
        const before = this.#document;
        this.#document = now;
        this.#showHead(now);
        if (!before) this.#showControls();
        const found = now.indexed ?? 0;
        if (this.#shown !== found) {
          await this.#find();
          this.#shown = found;
        }
        fill(this.#state);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof APIError && error.status === 404) return this.#removed();
      this.#failed(/** @type {Error} */ (error));
    }
    if (!signal.aborted) this.#timer = window.setTimeout(() => this.#read(), this.#document?.status === "processing" ? SOON : LATER);
  }

  #removed() {
    this.#document = undefined;
    fill(
      this,
      h("p", null, h("a", { href: documentsAddress() }, "‹ Documents")),
      h(
        "div",
        { class: "empty", role: "status" },
        h("h2", null, "This document does not exist any more"),
        h("p", { class: "hint" }, "Somebody removed it, or the link is wrong. Threads keep the passages that they were shown."),
      ),
    );
  }

  /** @param {Error} error */
  #failed(error) {
    if (!this.#document) fill(this.#head);
    fill(
      this.#state,
      h(
        "p",
        { class: "error", role: "alert" },
        error.message,
        " ",
        button("Try again", () => this.#read(), { class: "quiet" }),
      ),
    );
  }

  /** @param {KnowledgeDocument} d */
  #showHead(d) {
    const text = JSON.stringify(d);
    if (text === this.#text) return;
    this.#text = text;
    document.title = `${documentName(d)} · Threadmill`;
    fill(
      this.#head,
      h("h2", null, documentName(d), " ", badge(d.status)),
      d.error && h("p", { class: "error" }, d.error),
      d.status === "processing" && !d.indexed && h("p", { class: "hint" }, "Its chunks appear here when it is indexed."),
      d.status !== "indexed" && d.indexed && h("p", { class: "hint" }, "Until a newer revision is indexed, agents find the one before."),
      h(
        "p",
        null,
        /^https?:\/\//i.test(d.source) ? h("a", { href: d.source, target: "_blank", rel: "noopener noreferrer" }, d.source) : h("code", null, d.source),
        h("span", { class: "badge" }, d.collection),
      ),
      h(
        "p",
        { class: "hint" },
        [d.format, figures(d), `revision ${d.revision}`].filter(Boolean).join(" · "),
        " · added ",
        time(d.createdAt),
        d.revision > 1 && [" · changed ", time(d.updatedAt)],
        d.by && ` by ${d.by}`,
        d.thread && [" in ", h("a", { href: `#/threads/${encodeURIComponent(d.thread)}` }, d.thread)],
      ),
      d.metadata !== undefined && h("details", null, h("summary", null, "Metadata"), h("pre", { class: "code", tabIndex: 0 }, pretty(d.metadata))),
    );
  }

  #showControls() {
    fill(
      this.#controls,
      copyButton("Copy link", () => location.href),
      may("operate") &&
        button(
          "Index again…",
          async (e) => {
            if (this.#document && (await reindex(/** @type {HTMLElement} */ (e.currentTarget), this.#document))) this.#read();
          },
          { class: "quiet" },
        ),
      may("operate") &&
        button(
          "Remove…",
          async (e) => {
            if (this.#document && (await remove(/** @type {HTMLElement} */ (e.currentTarget), this.#document))) location.hash = documentsAddress();
          },
          { class: "quiet danger" },
        ),
    );
  }

  /** Shows the chunks from the one that the address names, or from the first. */
  async #find() {
    const { index = 0, passage } = this.at;
    const place = ++this.#place;
    this.#from = this.#to = Math.floor(index / PAGE) * PAGE;
    fill(this.#list);
    this.#changed.remove();
    await this.#after();
    if (place !== this.#place || this.at.index === undefined) return;
    const one = this.#chunk(index);
    if (!one || (passage !== "" && one.dataset.id !== passage)) {
      fill(this.#changed, "The document has changed since. ", one ? "This chunk is in the place of the passage now." : "The passage is not in it any more.");
      if (one) one.prepend(this.#changed);
      else this.#earlier.before(this.#changed);
    }
    this.#target(one);
    if (this.#to === this.#from && this.#from > 0) {
      // there are fewer now
      this.#from = this.#to = 0;
      await this.#after();
    }
  }

  /** @param {number} index */
  #chunk(index) {
    return /** @type {HTMLElement | undefined} */ (this.#list.children[index - this.#from]);
  }

  /** Marks a chunk as the one that the address names. @param {HTMLElement | undefined} one */
  #target(one) {
    this.#list.querySelector(".target")?.classList.remove("target");
    one?.classList.add("target");
    one?.scrollIntoView({ block: "start" });
    one?.focus({ preventScroll: true });
  }

  /** @param {number} from @param {number} limit @returns {Promise<components["schemas"]["ChunkPage"]>} */
  #page(from, limit) {
    return client.request("GET /v1/knowledge/documents/{id}/chunks", { path: { id: this.document }, query: { from, limit }, signal: this.#aborted.signal });
  }

  /** Shows the page after the last chunk. */
  async #after() {
    const place = this.#place;
    const { chunks, next } = await this.#page(this.#to, PAGE);
    if (place !== this.#place) return;
    this.#list.append(...chunks.map((c) => this.#element(c)));
    this.#to += chunks.length;
    this.#later.hidden = !next;
    this.#earlier.hidden = this.#from === 0;
  }

  /** Shows the page before the first chunk. */
  async #before() {
    const place = this.#place,
      from = Math.max(0, this.#from - PAGE);
    const { chunks } = await this.#page(from, this.#from - from);
    if (place !== this.#place) return;
    this.#list.prepend(...chunks.map((c) => this.#element(c)));
    this.#from = from;
    this.#earlier.hidden = from === 0;
  }

  /** @param {Chunk} c */
  #element(c) {
    return h(
      "li",
      { class: "chunk", tabIndex: -1, "data-id": c.id },
      h(
        "header",
        { class: "row" },
        h("a", { href: documentAddress(this.document, c.index), class: "number", title: "A link to this chunk" }, `#${c.index}`),
        h("strong", { class: "grow" }, (c.path ?? []).join(" › ")),
        h("span", { class: "hint" }, [c.page && `page ${c.page}`, `${c.tokens.toLocaleString()} tokens`].filter(Boolean).join(" · ")),
      ),
      c.context && h("p", { class: "hint" }, `Written by a model: ${c.context}`),
      h("div", { class: "chunk-text" }, c.text),
      h(
        "p",
        { class: "hint" },
        c.next ? ["Continues in ", h("a", { href: documentAddress(this.document, c.index + 1) }, `#${c.index + 1}`)] : "The end of the document.",
      ),
    );
  }
}

customElements.define("tm-document", DocumentView);
