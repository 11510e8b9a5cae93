// Where a person writes.

import { counter } from "./counter.js";
import { confirmed } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { Draft } from "./drafts.js";
import { messageBytes } from "./limits.js";
import { myName, person } from "./person.js";
import { client, may, newId, server } from "./session.js";

/** @import { Unsent } from "./drafts.js" */

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
  /** @type {Draft | undefined} */
  #draft;
  #sending = false;
  #left = new AbortController();

  connectedCallback() {
    const draft = (this.#draft = new Draft(server.namespace, server.name ?? "", this.threadId));
    this.text = h("textarea", {
      rows: 1,
      placeholder: "Write a message",
      "aria-label": "Message",
      value: draft.read(),
      "aria-autocomplete": "list",
      "aria-controls": "mentions",
      oninput: () => this.#input(),
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.#key(e),
      onblur: () => setTimeout(() => this.#complete([]), 150),
    });
    this.list = h("ul", { class: "mentions", id: "mentions", role: "listbox", "aria-label": "Agents", hidden: true });
    this.modes = h("fieldset", { class: "modes", hidden: true });
    this.button = button("Send", () => this.#send(), { class: "primary" });
    const size = (/** @type {string} */ content) => messageBytes({ threadId: this.threadId, sender: myName() || "x".repeat(server.limits.name), content });
    this.limit = counter(this.text, server.limits.message, { size });
    this.unsent = h("ol", { class: "unsent", "aria-label": "Messages that are not sent" });
    fill(this, this.unsent, this.modes, h("div", { class: "row compose" }, h("div", { class: "grow" }, this.list, this.text, this.limit.line), this.button));
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
    addEventListener("storage", (e) => (e.key === draft.key || e.key === null) && this.#show(), { signal: this.#left.signal });
    this.#show();
  }

  disconnectedCallback() {
    this.#left.abort();
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
    this.text.disabled = reason !== "";
    this.text.placeholder = reason || "Write a message, or @agent";
    this.limit?.count();
    this.button.title = reason || this.text.validationMessage;
    this.button.disabled = this.button.title !== "";
  }

  /** @param {boolean} busy */
  showBusy(busy) {
    if (busy === this.#busy || !this.modes) return;
    this.#busy = busy;
    this.modes.hidden = !busy;
  }

  #input() {
    const mine = this.text?.value ?? "";
    if (this.#draft?.write(mine) !== mine) this.#show();
    this.#size();
    this.#enable();
    const before = this.text?.value.slice(0, this.text.selectionStart) ?? "";
    const mention = /(?:^|[\s\p{Cf}])[@＠]([\w-]*)$/u.exec(before);
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
    const before = text.value.slice(0, text.selectionStart).replace(/[@＠][\w-]*$/, `@${name} `);
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

  /** Shows what the tabs of this browser have typed. */
  #show() {
    const draft = /** @type {Draft} */ (this.#draft),
      text = /** @type {HTMLTextAreaElement} */ (this.text),
      typed = draft.read();
    if (text.value !== typed) text.value = typed;
    this.#size();
    this.#enable();
    const unsent = draft.unsent;
    // A first attempt that is on its way is shown by the thread in a moment.
    const shown = this.#sending && unsent.every((one) => one.error === undefined) ? [] : unsent;
    fill(
      /** @type {Element} */ (this.unsent),
      shown.map((one, i) => this.#unsent(one, i === 0)),
    );
  }

  /** @param {Unsent} message @param {boolean} first */
  #unsent(message, first) {
    const draft = /** @type {Draft} */ (this.#draft);
    const why = message.error ? `Not sent: ${message.error}` : first ? "The server has not confirmed it." : "It waits for the message above.";
    const edit = () => {
      this.#takeBack(message);
      this.focus();
    };
    const discard = async () => {
      const warning = message.unknown ? "The thread may get it all the same: the server may have received it." : "The thread does not get it.";
      if (!(await confirmed("Discard the message?", warning, "Discard it"))) return;
      draft.settle((id) => id === message.id);
      this.#show();
      this.focus();
    };
    return h(
      "li",
      null,
      h("p", { class: "text", tabIndex: 0 }, message.content),
      h("p", { class: message.error ? "error" : "hint", role: "alert" }, this.#sending ? "Sending…" : why),
      !this.#sending &&
        h("p", { class: "row" }, first && button("Send again", () => this.#flush()), !message.unknown && button("Edit", edit), button("Discard…", discard)),
    );
  }

  /** Forgets the messages that the thread has. @param {(id: string) => boolean} has */
  settle(has) {
    if (!this.#draft?.unsent.some(({ id }) => has(id))) return;
    this.#draft.settle(has);
    this.#show();
  }

  /** Makes a message part of the text again. @param {Unsent} message */
  #takeBack(message) {
    const draft = /** @type {Draft} */ (this.#draft);
    draft.settle((id) => id === message.id);
    draft.write([message.content, draft.read()].filter(Boolean).join("\n"));
    this.#show();
  }

  /** Sends the text, after the messages that are not sent yet. */
  #send() {
    const content = this.text?.value ?? "";
    if (this.text?.validationMessage) return;
    if (content.trim() !== "") {
      this.#draft?.send({ id: newId(), content, onBusy: this.#busy ? this.#onBusy : undefined });
    }
    this.#flush();
  }

  /** Sends the messages that are not sent yet, one after the other, until one fails. */
  async #flush() {
    if (this.#sending) return this.#show();
    this.#sending = true;
    const draft = /** @type {Draft} */ (this.#draft);
    for (let next = draft.unsent.at(0); next; next = draft.unsent.at(0)) {
      const { id, content, onBusy, unknown } = next;
      draft.update(id, { unknown: true });
      this.#show();
      try {
        await client.post(this.threadId, { id, content, sender: await person(), onBusy });
        draft.settle((one) => one === id);
        this.dispatchEvent(new CustomEvent("posted"));
      } catch (error) {
        const { name, message, status } = /** @type {import("./client/threadmill.js").APIError} */ (error);
        if (!draft.unsent.some((one) => one.id === id)) continue; // the answer is lost, but the thread has it
        if (name === "AbortError" && !unknown) this.#takeBack(next);
        else draft.update(id, { error: message, unknown: unknown || !(status >= 400 && status < 500) });
        break;
      }
    }
    this.#sending = false;
    this.#show();
    if (this.isConnected) this.focus();
  }
}

customElements.define("tm-composer", Composer);
