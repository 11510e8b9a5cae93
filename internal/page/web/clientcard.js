// The card of a call that waits for a connected client. A person can give its result instead.

import { callView } from "./callview.js";
import { counter } from "./counter.js";
import { ago, button, copyButton, fill, h } from "./dom.js";
import { person } from "./person.js";
import { client, may, server } from "./session.js";

/** @import { ClientCall } from "./timeline.js" */

export class ClientCard {
  element;
  #threadId;
  #call;
  #place = h("div", { class: "choice" });
  #refusal = h("p", { class: "error", role: "alert", hidden: true });
  #text = h("textarea", { rows: 4, class: "code", spellcheck: false, "aria-label": "Result, as text or JSON" });
  #failed = h("input", { type: "checkbox" });
  #sending = false;
  #over = false;

  /** @param {string} threadId @param {ClientCall} call */
  constructor(threadId, call) {
    this.#threadId = threadId;
    this.#call = call;
    this.element = h(
      "section",
      { class: "approval client", tabIndex: -1, "aria-label": `Call of ${call.toolName} for a client` },
      h("header", null, h("strong", null, call.agent), " waits for a connected client to run ", h("code", null, call.toolName)),
      callView(call.toolName, call.arguments).element,
      h("p", { class: "hint" }, "Expires ", ago(call.expiresAt)),
      this.#place,
      this.#refusal,
    );
    this.#offer();
  }

  /** Whether it has something that would be lost with it. */
  get open() {
    return this.#text.value !== "" && !this.#sending;
  }

  /**
   * Says that the call needs no result any more. What the person was typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    if (!this.open) return false;
    if (this.#over) return true;
    this.#over = true;
    this.element.toggleAttribute("data-kept", true);
    this.element.classList.add("decided");
    for (const control of this.#place.querySelectorAll("button")) control.hidden = true;
    this.#refusal.hidden = false;
    fill(
      this.#refusal,
      `${how} Nothing that you typed here was sent. `,
      copyButton("Copy what you typed", () => this.#text.value),
      button("Close", () => {
        this.#text.value = "";
        this.element.dispatchEvent(new CustomEvent("dismissed", { bubbles: true }));
        this.element.remove();
      }),
    );
    return true;
  }

  #offer() {
    fill(this.#place, may("post") && button("Give its result…", () => this.#write()));
  }

  /** Opens the form. */
  #write() {
    const send = button("Send the result", () => this.#send(), { class: "primary" });
    const limit = counter(this.#text, server.limits.message, { button: send });
    const cancel = button("Cancel", () => {
      this.#text.value = "";
      this.#offer();
      this.#place.querySelector("button")?.focus();
    });
    fill(
      this.#place,
      h("p", { class: "hint" }, "The first result counts: a client that answers later is refused."),
      this.#text,
      limit.line,
      h("label", { class: "row" }, this.#failed, "The call failed: the result says why"),
      h("div", { class: "row" }, send, cancel),
    );
    this.#text.focus();
  }

  async #send() {
    if (this.#sending || this.#over) return;
    const { agent, toolName, toolCallId } = this.#call;
    this.#refusal.hidden = true;
    this.#enable(false);
    try {
      await client.request("POST /v1/threads/{id}/tool-calls/{toolCallId}/result", {
        path: { id: this.#threadId, toolCallId },
        body: { output: this.#text.value, isError: this.#failed.checked, by: await person(), agent, toolName },
      });
      this.element.classList.add("decided");
      fill(this.#place);
      this.element.dispatchEvent(new CustomEvent("decided", { bubbles: true }));
    } catch (error) {
      this.#enable(true);
      if (/** @type {Error} */ (error).name === "AbortError") return;
      this.#refusal.hidden = false;
      fill(this.#refusal, /** @type {Error} */ (error).message);
    }
  }

  /** @param {boolean} is */
  #enable(is) {
    this.#sending = !is;
    for (const control of this.#place.querySelectorAll("button")) control.disabled = !is;
  }
}
