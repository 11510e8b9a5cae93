// The card of a call that waits for a connected client. A person can give its result instead.

import { callView } from "./callview.js";
import { CardEnd } from "./cardend.js";
import { counter } from "./counter.js";
import { ago, button, fill, h } from "./dom.js";
import { client, may, server } from "./session.js";

/** @import { ClientCall } from "./timeline.js" */

export class ClientCard {
  element;
  #threadId;
  #call;
  #place = h("div", { class: "choice" });
  #text = h("textarea", { rows: 4, class: "code", spellcheck: false, "aria-label": "Result, as text or JSON" });
  #failed = h("input", { type: "checkbox" });
  #end;

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
    );
    this.#end = new CardEnd({
      element: this.element,
      choices: this.#place,
      typed: () => this.#text.value !== "",
      forget: () => (this.#text.value = ""),
      copy: () => this.#text.value,
    });
    this.element.append(this.#end);
    this.#offer();
  }

  /** Whether it has something that would be lost with it. */
  get open() {
    return this.#end.keeps;
  }

  /**
   * Says that the call needs no result any more. What the person was typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    return this.#end.end(how);
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
    const { agent, toolName, toolCallId } = this.#call;
    const output = this.#text.value,
      isError = this.#failed.checked;
    await this.#end.send((by) =>
      client.request("POST /v1/threads/{id}/tool-calls/{toolCallId}/result", {
        path: { id: this.#threadId, toolCallId },
        body: { output, isError, by, agent, toolName },
      }),
    );
  }
}
