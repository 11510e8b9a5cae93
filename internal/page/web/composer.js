// Where a person writes.

import { button, fill, h } from "./dom.js";
import { draftOf, keepDraft } from "./drafts.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** What a message does to a turn in progress. */
const ON_BUSY = /** @type {const} */ ({
  enqueue: ["Queue", "It waits for its turn"],
  steer: ["Steer", "It joins the turn before its next model call"],
  interrupt: ["Interrupt", "It stops the turn"],
});

export class Composer extends HTMLElement {
  threadId = "";
  #busy = false;
  /** @type {string[]} */
  #agents = [];
  /** @type {keyof typeof ON_BUSY} */
  #onBusy = "enqueue";
  #selected = 0;
  /** What could not be sent. @type {{ content: string, id: string } | undefined} */
  failed;

  connectedCallback() {
    const draft = draftOf(this.threadId);
    this.failed = draft.failed;
    this.text = h("textarea", {
      rows: 1,
      placeholder: "Write a message",
      "aria-label": "Message",
      value: draft.text,
      "aria-autocomplete": "list",
      "aria-controls": "mentions",
      oninput: () => this.#input(),
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.#key(e),
      onblur: () => setTimeout(() => this.#complete([]), 150),
    });
    this.list = h("ul", { class: "mentions", id: "mentions", role: "listbox", "aria-label": "Agents", hidden: true });
    this.modes = h("fieldset", { class: "modes", hidden: true });
    this.button = button("Send", () => this.#send(), { class: "primary" });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    fill(this, this.error, this.modes, h("div", { class: "row compose" }, h("div", { class: "grow" }, this.list, this.text), this.button));
    fill(
      this.modes,
      h("legend", null, "While the thread is busy"),
      Object.entries(ON_BUSY).map(([value, [label, hint]]) =>
        h(
          "label",
          { title: hint },
          h("input", {
            type: "radio",
            name: "onBusy",
            value,
            checked: value === this.#onBusy,
            onchange: () => (this.#onBusy = /** @type {keyof typeof ON_BUSY} */ (value)),
          }),
          label,
        ),
      ),
    );
    this.#size();
    this.#enable();
  }

  focus() {
    this.text?.focus({ preventScroll: true });
  }

  /** @param {string[]} names */
  set agents(names) {
    this.#agents = names;
  }

  /** @param {boolean} closed */
  set closed(closed) {
    this.shut = closed;
    this.#enable();
  }

  #enable() {
    if (!this.text || !this.button) return;
    const reason = this.shut ? "The thread is closed" : may("post") ? "" : "Your key does not allow you to post";
    this.text.disabled = this.button.disabled = reason !== "";
    this.text.placeholder = reason || "Write a message, or @agent";
  }

  /** @param {boolean} busy */
  showBusy(busy) {
    if (busy === this.#busy || !this.modes) return;
    this.#busy = busy;
    this.modes.hidden = !busy;
  }

  #input() {
    this.#keep();
    this.#size();
    const before = this.text?.value.slice(0, this.text.selectionStart) ?? "";
    const mention = /(?:^|\s)@([\w-]*)$/.exec(before);
    this.#complete(mention ? this.#agents.filter((a) => a.toLowerCase().startsWith(mention[1].toLowerCase())).slice(0, 8) : []);
  }

  #size() {
    if (!this.text) return;
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, 240)}px`;
  }

  /** @param {string[]} names */
  #complete(names) {
    if (!this.list || !this.text) return;
    this.#selected = 0;
    this.list.hidden = names.length === 0;
    fill(
      this.list,
      names.map((name, i) =>
        h(
          "li",
          {
            role: "option",
            id: `mention-${i}`,
            "aria-selected": String(i === 0),
            onmousedown: (/** @type {Event} */ e) => {
              e.preventDefault();
              this.#mention(name);
            },
          },
          `@${name}`,
        ),
      ),
    );
    this.#select(0);
  }

  /** @param {number} i */
  #select(i) {
    const options = [...(this.list?.children ?? [])];
    this.#selected = options.length === 0 ? 0 : (i + options.length) % options.length;
    options.forEach((o, at) => o.setAttribute("aria-selected", String(at === this.#selected)));
    if (options.length > 0) this.text?.setAttribute("aria-activedescendant", `mention-${this.#selected}`);
    else this.text?.removeAttribute("aria-activedescendant");
  }

  /** @param {string} name */
  #mention(name) {
    const text = /** @type {HTMLTextAreaElement} */ (this.text);
    const before = text.value.slice(0, text.selectionStart).replace(/@[\w-]*$/, `@${name} `);
    text.value = before + text.value.slice(text.selectionStart);
    text.selectionStart = text.selectionEnd = before.length;
    this.#complete([]);
    this.#input();
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    if (e.isComposing) return;
    if (this.list && !this.list.hidden) {
      const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (move) this.#select(this.#selected + move);
      else if (e.key === "Enter" || e.key === "Tab") this.#mention(this.list.children[this.#selected].textContent?.slice(1) ?? "");
      else if (e.key === "Escape") this.#complete([]);
      else return;
      e.preventDefault();
      return;
    }
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      if (!e.repeat) this.#send();
    }
  }

  /** @param {string} value */
  #set(value) {
    if (this.text) this.text.value = value;
    this.#keep();
    this.#size();
  }

  #keep() {
    // What is being sent counts as not sent until the server has answered.
    const unsent = this.sending ? this.failed?.content : undefined;
    keepDraft(this.threadId, { text: [unsent, this.text?.value].filter(Boolean).join("\n"), failed: this.failed });
  }

  async #send() {
    const text = /** @type {HTMLTextAreaElement} */ (this.text);
    const content = text.value;
    if (content.trim() === "" || this.sending) return;
    this.sending = true;
    // A repeated attempt has the same id, so that the message is posted once.
    if (this.failed?.content !== content) this.failed = { content, id: crypto.randomUUID?.() ?? `page-${Date.now()}-${Math.random().toString(36).slice(2)}` };
    this.#set(""); // what is written meanwhile is the next message
    /** @type {HTMLButtonElement} */ (this.button).disabled = true;
    try {
      await client.post(this.threadId, { id: this.failed.id, content, sender: await person(), onBusy: this.#busy ? this.#onBusy : undefined });
      this.failed = undefined;
      this.#keep();
      /** @type {HTMLElement} */ (this.error).hidden = true;
      this.dispatchEvent(new CustomEvent("posted"));
    } catch (error) {
      this.sending = false;
      this.#set([content, text.value].filter(Boolean).join("\n"));
      if (/** @type {Error} */ (error).name === "AbortError") return;
      fill(/** @type {Element} */ (this.error), `Not sent: ${/** @type {Error} */ (error).message}`);
      /** @type {HTMLElement} */ (this.error).hidden = false;
    } finally {
      this.sending = false;
      this.#enable();
      text.focus();
    }
  }
}

customElements.define("tm-composer", Composer);
