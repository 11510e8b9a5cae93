// The card of a call that asks a person for input.

import { CardEnd } from "./cardend.js";
import { button, cut, fill, h, pretty, time } from "./dom.js";
import { client, may } from "./session.js";

/** @import { InputReceived, InputRequest } from "./timeline.js" */

/** The address of a question, if a browser may open it. @param {string | undefined} address */
function address(address) {
  try {
    const url = new URL(address ?? "");
    return url.protocol === "https:" || url.protocol === "http:" ? url : undefined;
  } catch {
    return undefined;
  }
}

export class InputCard {
  element;
  #request;
  #threadId;
  /** @type {{ question: InputRequest["questions"][number], fields: import("./field.js").Field[] }[]} */
  #fields = [];
  #choices = h("div", { class: "row choice" });
  #typed = false;
  #end;

  /** @param {string} threadId @param {InputRequest} request */
  constructor(threadId, request) {
    this.#threadId = threadId;
    this.#request = request;
    const logsIn = request.questions.every((q) => q.login);
    const asked = request.questions.map((question) => ({ question, place: h("div") }));
    this.element = h(
      "form",
      {
        class: "approval input",
        tabIndex: -1,
        "aria-label": `Input for ${request.toolName}`,
        oninput: () => (this.#typed = true),
        onsubmit: (/** @type {Event} */ e) => {
          e.preventDefault();
          void this.#send("accept");
        },
      },
      h("header", null, h("code", null, request.toolName), " of ", h("strong", null, request.agent), " asks"),
      asked.map(({ question, place }) => {
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
          place,
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
    );
    this.#end = new CardEnd({
      element: this.element,
      choices: this.#choices,
      typed: () => this.#typed,
      forget: () => (this.#typed = false),
      copy: () => pretty(this.#contents()),
    });
    this.element.append(this.#end);
    void this.#complete(asked, logsIn);
  }

  /**
   * Adds fields and logins, whose modules few views need, and then the choices.
   * @param {{ question: InputRequest["questions"][number], place: Element }[]} asked @param {boolean} logsIn
   */
  async #complete(asked, logsIn) {
    try {
      const [{ fields }, { loginChoice }] = await Promise.all([import("./field.js"), import("./login.js")]);
      this.#fields = asked.map(({ question }) => ({ question, fields: question.kind === "form" ? fields(question.schema) : [] }));
      asked.forEach(({ question, place }, i) => {
        fill(
          place,
          question.login && loginChoice(question.login),
          this.#fields[i].fields.map((f) => f.element),
        );
      });
    } catch (error) {
      return fill(this.#choices, h("p", { class: "error", role: "alert" }, "The questions could not be loaded: ", /** @type {Error} */ (error).message));
    }
    const visits = asked.every(({ question }) => question.kind === "url");
    fill(
      this.#choices,
      may("post")
        ? [
            h("button", { class: logsIn ? "" : "primary" }, logsIn ? "I have logged in" : visits ? "I have done this" : "Send"),
            button("Decline", () => this.#send("decline"), { class: "danger" }),
          ]
        : h("p", { class: "hint" }, "Your key does not allow you to answer."),
    );
  }

  /** Whether it has something that would be lost with it. */
  get open() {
    return this.#end.keeps;
  }

  /**
   * Says that the question needs no answer of this person any more. What they were typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    return this.#end.end(how);
  }

  /** What the forms have, by question. */
  #contents() {
    return Object.fromEntries(
      this.#fields
        .filter(({ question }) => question.kind === "form")
        .map(({ question, fields }) => [question.id, Object.fromEntries(fields.map((f) => [f.name, f.value()]).filter(([, value]) => value !== undefined))]),
    );
  }

  /** @param {"accept" | "decline"} action */
  async #send(action) {
    if (!may("post")) return;
    const { toolCallId, round, questions } = this.#request;
    const contents = this.#contents();
    /** @type {import("./client/api.js").components["schemas"]["InputAnswers"]["answers"]} */
    const answers = {};
    for (const { id } of questions) answers[id] = action === "accept" && contents[id] ? { action, content: contents[id] } : { action };
    await this.#end.send((by) => client.answerInput(this.#threadId, toolCallId, { round, answers, by }));
  }
}

/** A sentence that says how a question was answered. @param {InputReceived} a */
export function answerText(a) {
  if (a.withdrawn) return "No answer is needed any more.";
  const said = Object.values(a.answers).map(({ action, content }) => (action === "accept" ? (content ? JSON.stringify(content) : "accepted") : `${action}d`));
  return `Answered by ${a.by}: ${cut(said.join(", "), 400)}.`;
}
