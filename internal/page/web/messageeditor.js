// The form in which people change a message of theirs that waits in the queue.

import { counter } from "./counter.js";
import { button, fill, h } from "./dom.js";
import { guard } from "./leaving.js";
import { messageBytes } from "./limits.js";
import { myName, person } from "./person.js";
import { client, server } from "./session.js";

export class MessageEditor extends HTMLElement {
  threadId = "";
  messageId = "";
  /** The text of the message in the queue. */
  original = "";
  /** Is called when the form is to be closed. */
  closed = () => {};

  #saving = false;
  /** The text that was sent to be saved. */
  #sent = "";
  /** Whether the message has left the queue. */
  #over = false;
  #release = () => {};
  #news = h("p", { class: "hint", role: "status" });
  #refusal = h("p", { class: "error", role: "alert", hidden: true });

  connectedCallback() {
    this.#release = guard(() => this.#isChanged);
    if (this.text) return;
    this.text = h("textarea", {
      value: this.original,
      rows: 3,
      "aria-label": "Message in the queue",
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.#key(e),
    });
    this.save = button("Save", () => this.#save(), { class: "primary", title: "Save (Ctrl+Enter)" });
    const size = (/** @type {string} */ content) => messageBytes({ threadId: this.threadId, sender: myName(), content });
    const limit = counter(this.text, server.limits.message, { size, button: this.save });
    this.cancel = button("Cancel", () => this.closed(), { title: "Cancel (Escape)" });
    fill(this, this.text, limit.line, this.#news, this.#refusal, h("div", { class: "row" }, this.save, this.cancel));
  }

  disconnectedCallback() {
    this.#release();
  }

  focus() {
    this.text?.focus({ preventScroll: true });
  }

  get #isChanged() {
    return this.text !== undefined && this.text.value !== this.original;
  }

  /** Notes the text of the message as it is in the queue. @param {string} text */
  show(text) {
    if (this.#over) this.#setOver(false);
    if (text === this.original || this.#saving) return;
    if (text === this.#sent) return this.closed(); // the answer was lost
    if (this.text && !this.#isChanged) this.text.value = text;
    else fill(this.#news, `It was changed elsewhere meanwhile, to “${text}”. Saving replaces that.`);
    this.original = text;
  }

  /** Says that the message has left the queue. What is typed stays, so that it can be copied. */
  end() {
    if (this.#over || this.#saving) return;
    if (this.#isChanged) this.#setOver(true);
    else this.closed();
  }

  /** @param {boolean} is */
  #setOver(is) {
    this.#over = is;
    if (this.save) this.save.hidden = is;
    if (this.cancel) fill(this.cancel, is ? "Close" : "Cancel");
    this.#refuse(is ? "The message has left the queue, so this was not saved. Copy what you need from it." : "");
  }

  /** @param {string} problem */
  #refuse(problem) {
    this.#refusal.hidden = problem === "";
    fill(this.#refusal, problem);
  }

  async #save() {
    const content = this.text?.value ?? "";
    if (this.#saving || this.#over || this.save?.disabled) return;
    if (content.trim() === "") return this.#refuse("A message needs a text. To take it from the queue, drop it.");
    if (content === this.original) return this.closed();
    let by = "";
    try {
      by = await person();
    } catch {
      return; // they gave no name
    }
    this.#saving = true;
    this.#sent = content;
    this.#refuse("");
    try {
      await client.request("PATCH /v1/threads/{id}/queue/{eventId}", {
        path: { id: this.threadId, eventId: this.messageId },
        body: { status: "pending", content, by },
      });
      this.original = content;
      this.closed();
    } catch (error) {
      this.#refuse(/** @type {Error} */ (error).message);
    } finally {
      this.#saving = false;
    }
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    e.stopPropagation();
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.repeat) this.#save();
    else if (e.key === "Escape") this.closed();
    else return;
    e.preventDefault();
  }
}

customElements.define("tm-message-editor", MessageEditor);

/** @param {string} threadId @param {string} messageId @param {string} text @param {() => void} closed Is called when the form is to be closed. */
export function messageEditor(threadId, messageId, text, closed) {
  return /** @type {MessageEditor} */ (h("tm-message-editor", { threadId, messageId, original: text, closed }));
}
