// The form that adds documents: files, an address or a text.

import { addDocument, addFiles, additions, again, changes, forgetEnded, hasEnded } from "./additions.js";
import { documentAddress } from "./addresses.js";
import { counter, offWhileLong } from "./counter.js";
import { badge, plural } from "./documentparts.js";
import { act, button, fill, h } from "./dom.js";
import { droppedFiles, named } from "./files.js";
import { textBytes } from "./limits.js";
import { server } from "./session.js";

/** @import { Addition } from "./additions.js" */

/** What a row of the additions shows now. @type {WeakMap<Element, string>} */
const shown = new WeakMap();

/** What can be added: value, label. */
const KINDS = /** @type {const} */ ([
  ["files", "Files"],
  ["address", "Address"],
  ["text", "Text"],
]);

/** @typedef {typeof KINDS[number][0]} Kind */

/** A field, and the line that tells its length. @param {HTMLInputElement | HTMLTextAreaElement} control @param {number} limit @param {Parameters<typeof counter>[2]} options */
const counted = (control, limit, options) => ({ control, ...counter(control, limit, options) });

export class Adding extends HTMLElement {
  /** @type {Kind} */
  #kind = "files";
  /** @type {HTMLElement | undefined} */
  #opener;

  #collection = h("input", { name: "collection", list: "collections", placeholder: "default", autocomplete: "off" });
  #source = h("input", { name: "source", required: true, autocomplete: "off" });
  #title = h("input", { name: "title", autocomplete: "off" });
  #text = h("textarea", { name: "text", rows: 8, required: true });
  #files = h("input", { type: "file", multiple: true, class: "unseen", onchange: () => this.#chosen() });
  #add = h("button", { class: "primary" }, "Add");
  #sending = false;
  #fields = h("div");
  #error = h("p", { class: "error", role: "alert", hidden: true });
  #limits;
  #form = h("form", { class: "card wide", hidden: true, onsubmit: (/** @type {SubmitEvent} */ e) => this.#submit(e) });
  #added = h("section", { class: "card wide", hidden: true, "aria-label": "Documents that you added" });
  #show = () => showAdditions(this.#added);

  constructor() {
    super();
    const { limits } = server;
    const trimmed = { size: (/** @type {string} */ text) => textBytes(text.trim()) };
    this.#limits = {
      collection: counted(this.#collection, limits.documentCollection, trimmed),
      source: counted(this.#source, limits.documentSource, trimmed),
      title: counted(this.#title, limits.documentTitle, trimmed),
      text: counted(this.#text, limits.body, { size: () => textBytes(JSON.stringify(this.#document)) }),
    };
    this.#form.addEventListener("input", () => this.#tellLengths());
  }

  connectedCallback() {
    fill(
      this.#form,
      h(
        "fieldset",
        { class: "kinds" },
        h("legend", null, "Add documents"),
        KINDS.map(([value, label]) =>
          h("label", null, h("input", { type: "radio", name: "kind", value, checked: value === this.#kind, onchange: () => this.#choose(value) }), label),
        ),
      ),
      this.#fields,
      this.#error,
    );
    fill(this, this.#form, this.#added);
    changes.addEventListener("change", this.#show);
    this.#show();
  }

  disconnectedCallback() {
    changes.removeEventListener("change", this.#show);
  }

  /** Shows the form, or hides it. @param {HTMLElement} opener The button, which has the focus again when the form is closed. */
  toggle(opener) {
    this.#opener = opener;
    if (!this.#form.hidden) return this.#close();
    this.#form.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    this.#choose(this.#kind);
    /** @type {HTMLElement} */ (this.#form.querySelector("input:checked")).focus();
  }

  #close() {
    this.#form.hidden = true;
    this.#opener?.setAttribute("aria-expanded", "false");
    this.#opener?.focus();
  }

  /** The document of the form. */
  get #document() {
    return {
      source: this.#source.value.trim(),
      title: this.#title.value.trim(),
      collection: this.#collection.value.trim(),
      ...(this.#kind === "text" && { text: this.#text.value }),
    };
  }

  /** Counts the text again, whose request has the other fields too, and turns adding off while something is too long. */
  #tellLengths() {
    this.#limits.text.count();
    if (!this.#sending) offWhileLong(this.#add, /** @type {NodeListOf<HTMLInputElement>} */ (this.#fields.querySelectorAll("input, textarea")));
  }

  /** The collection of files that are added. It fails while its name is too long. */
  get #collectionOfFiles() {
    const { validationMessage, value } = this.#collection;
    if (validationMessage !== "") throw new Error(`Collection: ${validationMessage}`);
    return value.trim();
  }

  /** @param {Kind} kind */
  #choose(kind) {
    this.#kind = kind;
    this.#error.hidden = true;
    this.#source.type = kind === "address" ? "url" : "text";
    this.#source.placeholder = kind === "address" ? "The address of a page or a file" : "notes/vacation.md";
    const buttons = h(
      "div",
      { class: "row" },
      kind !== "files" && this.#add,
      button("Close", () => this.#close()),
    );
    const field = (/** @type {string} */ label, /** @type {"collection" | "source" | "title" | "text"} */ name) => {
      const { control, line } = this.#limits[name];
      return h("div", null, h("label", null, label, control), line);
    };
    const collection = field("Collection", "collection"),
      title = field("Title (optional)", "title");
    fill(
      this.#fields,
      ...(kind === "files"
        ? [
            collection,
            h(
              "label",
              { class: "drop" },
              h("strong", null, "Choose files"),
              " or drop files and folders anywhere on this page",
              this.#files,
              h("span", { class: "hint" }, "Text, Markdown, HTML, PDF, DOCX, CSV and source code, at most 32 MiB each"),
            ),
          ]
        : kind === "address"
          ? [field("Address", "source"), h("div", { class: "pair" }, title, collection)]
          : [field("Text, as Markdown", "text"), field("Name", "source"), h("div", { class: "pair" }, title, collection)]),
      h("p", { class: "hint" }, "A document with the same name in the collection is replaced."),
      buttons,
    );
    this.#tellLengths();
  }

  #chosen() {
    const files = named([...(this.#files.files ?? [])]);
    this.#files.value = "";
    return act(null, async () => addFiles(files, this.#collectionOfFiles));
  }

  /** Adds what was dropped. @param {DataTransfer} dropped */
  drop(dropped) {
    const found = droppedFiles(dropped); // now: the drop does not last
    return act(null, async () => addFiles(await found, this.#collectionOfFiles));
  }

  /** @param {SubmitEvent} e */
  async #submit(e) {
    e.preventDefault();
    if (this.#kind === "files") return;
    this.#sending = this.#add.disabled = true;
    this.#error.hidden = true;
    try {
      await addDocument(this.#document);
      for (const { control, count } of [this.#limits.source, this.#limits.title, this.#limits.text]) {
        control.value = "";
        count();
      }
      this.#source.focus();
    } catch (problem) {
      this.#error.hidden = false;
      fill(this.#error, /** @type {Error} */ (problem).message);
    } finally {
      this.#sending = false;
      this.#tellLengths();
    }
  }
}

/** Shows what was added, and what has become of it. @param {HTMLElement} element */
function showAdditions(element) {
  element.hidden = additions.length === 0;
  const ended = additions.filter(hasEnded),
    failed = ended.filter((a) => a.state === "failed").length;
  const text = `${ended.length - failed} of ${plural(additions.length, "document")} indexed${failed > 0 ? `, ${failed} failed` : ""}`;
  const heading = element.querySelector("h2") ?? h("h2");
  if (heading.textContent !== text) fill(heading, text);
  if (!heading.isConnected) {
    fill(
      element,
      h(
        "header",
        { class: "row" },
        h("div", { class: "grow", role: "status" }, heading),
        button("Clear", () => forgetEnded(), { class: "quiet", "aria-label": "Clear what has ended" }),
      ),
      h("ul", { class: "plain additions" }),
    );
  }
  const list = /** @type {Element} */ (element.querySelector("ul"));
  additions.forEach((a, i) => {
    const row = list.children[i] ?? list.appendChild(h("li"));
    const shows = JSON.stringify([a.name, a.state, a.sent, a.error]);
    if (shown.get(row) === shows) return;
    shown.set(row, shows);
    fill(row, ...rowOf(a));
  });
  while (list.children.length > additions.length) list.lastElementChild?.remove();
}

/** @param {Addition} a */
function rowOf(a) {
  const { document } = a;
  return [
    h(
      "div",
      { class: "row" },
      h("span", { class: "grow" }, document ? h("a", { href: documentAddress(document.id) }, a.name) : a.name),
      a.state === "sending"
        ? h("progress", { max: 1, value: a.sent, "aria-label": `Sent of ${a.name}` })
        : a.state === "waiting"
          ? h("span", { class: "badge" }, "waiting")
          : badge(a.state),
      a.state === "failed" && button("Try again", () => again(a), { class: "quiet", "aria-label": `Try again: ${a.name}` }),
    ),
    a.error && h("p", { class: "error" }, a.error),
  ];
}

customElements.define("tm-adding", Adding);
