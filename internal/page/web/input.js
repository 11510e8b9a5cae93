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

/** @param {string} threadId @param {InputRequest} request */
export function inputCard(threadId, request) {
  const refusal = h("p", { class: "error", role: "alert", hidden: true });
  const asked = request.questions.map((question) => ({ question, fields: question.kind === "form" ? fields(question.schema) : [] }));
  const choices = h("div", { class: "row choice" });

  /** @param {"accept" | "decline"} action */
  const send = async (action) => {
    refusal.hidden = true;
    for (const control of choices.querySelectorAll("button")) control.disabled = true;
    /** @type {import("./client/api.js").components["schemas"]["InputAnswers"]["answers"]} */
    const answers = {};
    for (const { question, fields } of asked) {
      const values = fields.map((f) => [f.name, f.value()]).filter(([, value]) => value !== undefined);
      answers[question.id] = action === "accept" && question.kind === "form" ? { action, content: Object.fromEntries(values) } : { action };
    }
    try {
      const result = await client.answerInput(threadId, request.toolCallId, { round: request.round, answers, by: await person() });
      form.classList.add("decided");
      fill(choices);
      form.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: result }));
    } catch (error) {
      for (const control of choices.querySelectorAll("button")) control.disabled = false;
      if (/** @type {Error} */ (error).name === "AbortError") return;
      refusal.hidden = false;
      fill(refusal, /** @type {Error} */ (error).message);
    }
  };

  const logsIn = request.questions.every((q) => q.login);
  const visits = request.questions.every((q) => q.kind === "url");
  const form = h(
    "form",
    {
      class: "approval input",
      tabIndex: -1,
      "aria-label": `Input for ${request.toolName}`,
      onsubmit: (/** @type {Event} */ e) => {
        e.preventDefault();
        void send("accept");
      },
    },
    h("header", null, h("code", null, request.toolName), " of ", h("strong", null, request.agent), " asks"),
    asked.map(({ question, fields }) => {
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
    choices,
    refusal,
  );
  fill(
    choices,
    may("post")
      ? [
          h("button", { class: logsIn ? "" : "primary" }, logsIn ? "I have logged in" : visits ? "I have done this" : "Send"),
          button("Decline", () => send("decline"), { class: "danger" }),
        ]
      : h("p", { class: "hint" }, "Your key does not allow you to answer."),
  );
  return form;
}
