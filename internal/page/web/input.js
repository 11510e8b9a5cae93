// The card of a call that asks a person for input.

import { button, fill, h, time } from "./dom.js";
import { fields } from "./field.js";
import { loginChoice } from "./login.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { InputRequest } from "./timeline.js" */

/** The address of a question, if a browser may open it. @param {string | undefined} address */
function address(address) {
  try {
    const url = new URL(address ?? "");
    return url.protocol === "https:" || url.protocol === "http:" ? url : undefined;
  } catch {
    return undefined;
  }
}

export class InputCard extends HTMLElement {
  threadId = "";
  /** @type {InputRequest | undefined} */
  request;
  #refusal = h("p", { class: "error", role: "alert", hidden: true });
  #choices = h("div", { class: "row choice" });
  /** @type {{ question: InputRequest["questions"][number], fields: import("./field.js").Field[] }[]} */
  #asked = [];
  #typed = false;
  #sending = false;

  connectedCallback() {
    if (this.firstChild) return; // it has only moved
    const request = /** @type {InputRequest} */ (this.request);
    this.classList.add("approval", "input");
    this.tabIndex = -1;
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", `Input for ${request.toolName}`);
    this.#asked = request.questions.map((question) => ({ question, fields: question.kind === "form" ? fields(question.schema) : [] }));
    const logsIn = request.questions.every((q) => q.login);
    const visits = request.questions.every((q) => q.kind === "url");
    const form = h(
      "form",
      {
        oninput: () => (this.#typed = true),
        onsubmit: (/** @type {Event} */ e) => {
          e.preventDefault();
          void this.#send("accept");
        },
      },
      h("header", null, h("code", null, request.toolName), " of ", h("strong", null, request.agent), " asks"),
      this.#asked.map(({ question, fields }) => {
        const url = question.kind === "url" && !question.login ? address(question.url) : undefined;
        return h(
          "div",
          { class: "question" },
          h("p", { class: "reason" }, question.message),
          url &&
            h(
              "p",
              null,
              h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, "Open ", h("strong", null, url.host)),
              h("br"),
              h("code", { class: "hint" }, url.href),
            ),
          question.login && loginChoice(question.login),
          fields.map((f) => f.element),
        );
      }),
      h(
        "p",
        { class: "hint" },
        "Asked ",
        time(request.requestedAt),
        logsIn ? ". The call goes on by itself after the login." : ". Give no passwords: the answer is kept in the thread.",
      ),
      this.#choices,
      this.#refusal,
    );
    fill(
      this.#choices,
      may("post")
        ? [
            h("button", { class: logsIn ? "" : "primary" }, logsIn ? "I have logged in" : visits ? "I have done this" : "Send"),
            button("Decline", () => this.#send("decline"), { class: "danger" }),
          ]
        : h("p", { class: "hint" }, "Your key does not allow you to answer."),
    );
    fill(this, form);
  }

  /**
   * Says that the question needs no answer of this person any more. What they have typed stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    if (!this.#typed || this.#sending) return false;
    const text = `${how} Nothing that you typed here was sent. `;
    this.classList.add("decided");
    this.toggleAttribute("data-kept", true);
    this.#choices.hidden = true;
    this.#refusal.hidden = false;
    if (this.#refusal.firstChild?.textContent === text) return true;
    const close = button("Close", () => {
      this.#typed = false;
      this.dispatchEvent(new CustomEvent("dismissed", { bubbles: true }));
      this.remove();
    });
    fill(this.#refusal, text, close);
    return true;
  }

  /** @param {"accept" | "decline"} action */
  async #send(action) {
    if (this.#sending || this.#choices.hidden) return;
    const { toolCallId, round } = /** @type {InputRequest} */ (this.request);
    this.#refusal.hidden = true;
    this.#enable(false);
    /** @type {import("./client/api.js").components["schemas"]["InputAnswers"]["answers"]} */
    const answers = {};
    for (const { question, fields } of this.#asked) {
      const values = fields.map((f) => [f.name, f.value()]).filter(([, value]) => value !== undefined);
      answers[question.id] = action === "accept" && question.kind === "form" ? { action, content: Object.fromEntries(values) } : { action };
    }
    try {
      const result = await client.answerInput(this.threadId, toolCallId, { round, answers, by: await person() });
      this.#typed = false;
      this.classList.add("decided");
      fill(this.#choices);
      this.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: result }));
    } catch (error) {
      if (/** @type {Error} */ (error).name === "AbortError") return;
      this.#refusal.hidden = false;
      fill(this.#refusal, /** @type {Error} */ (error).message);
    } finally {
      this.#enable(true);
    }
  }

  /** @param {boolean} is */
  #enable(is) {
    this.#sending = !is;
    for (const control of this.#choices.querySelectorAll("button")) control.disabled = !is;
  }
}

/** @param {string} threadId @param {InputRequest} request */
export function inputCard(threadId, request) {
  return /** @type {InputCard} */ (h("tm-input", { threadId, request }));
}

customElements.define("tm-input", InputCard);
