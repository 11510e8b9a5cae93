// The card of a call that asks a person for input.

import { button, fill, h, time } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { InputRequest } from "./timeline.js" */
/** @typedef {InputRequest["questions"][number]} Question */

/**
 * A field of a question's schema.
 * @typedef {object} Field
 * @property {string} name
 * @property {HTMLElement} element
 * @property {() => unknown} value The value, undefined if there is none.
 */

/** @param {unknown} value @returns {Record<string, any>} */
function object(value) {
  return typeof value === "object" && value !== null ? /** @type {Record<string, any>} */ (value) : {};
}

/** Makes the control of a field. @param {string} name @param {Record<string, any>} schema @param {boolean} required @returns {Field} */
function field(name, schema, required) {
  const label = String(schema.title ?? name);
  const hint = schema.description ? h("span", { class: "hint" }, String(schema.description)) : undefined;
  /** @type {any[]} */
  const options = schema.enum ?? (Array.isArray(schema.oneOf) ? schema.oneOf.map((one) => object(one).const) : undefined);
  /** @type {string[]} */
  const titles = schema.enumNames ?? (Array.isArray(schema.oneOf) ? schema.oneOf.map((one) => String(object(one).title ?? object(one).const)) : []);
  if (options) {
    const select = h("select", { required }, !required && h("option", { value: "" }, "—"), options.map((value, i) => h("option", { value: String(i) }, titles[i] ?? String(value))));
    const at = options.indexOf(schema.default);
    if (at >= 0) select.value = String(at);
    return { name, element: h("label", null, label, select, hint), value: () => (select.value === "" ? undefined : options[Number(select.value)]) };
  }
  switch (schema.type) {
    case "boolean": {
      const box = h("input", { type: "checkbox", checked: schema.default === true });
      return { name, element: h("label", { class: "row" }, box, label, hint), value: () => box.checked };
    }
    case "integer":
    case "number": {
      const number = h("input", { type: "number", required, step: schema.type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum, value: schema.default ?? "" });
      return { name, element: h("label", null, label, number, hint), value: () => (number.value === "" ? undefined : number.valueAsNumber) };
    }
    case "array": {
      /** @type {any[]} */
      const items = object(schema.items).enum ?? [];
      const boxes = items.map((value) => ({ value, box: h("input", { type: "checkbox" }) }));
      return {
        name, element: h("fieldset", null, h("legend", null, label), boxes.map(({ value, box }) => h("label", { class: "row" }, box, String(value))), hint),
        value: () => boxes.filter(({ box }) => box.checked).map(({ value }) => value),
      };
    }
  }
  const kind = { email: "email", uri: "url", date: "date" }[String(schema.format)] ?? "text";
  const text = h("input", { type: kind, required, maxLength: schema.maxLength ?? 4096, value: schema.default ?? "", autocomplete: "off" });
  if (schema.minLength) text.minLength = schema.minLength;
  return { name, element: h("label", null, label, text, hint), value: () => (text.value === "" && !required ? undefined : text.value) };
}

/** Makes the fields of a question. @param {Question} question @returns {Field[]} */
function fields(question) {
  const schema = object(question.schema);
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(object(schema.properties)).map(([name, one]) => field(name, object(one), required.includes(name)));
}

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
  const asked = request.questions.map((question) => ({ question, fields: question.kind === "form" ? fields(question) : [] }));
  const choices = h("div", { class: "row choice" });

  /** @param {"accept" | "decline"} action */
  const send = async (action) => {
    refusal.hidden = true;
    for (const control of choices.querySelectorAll("button")) control.disabled = true;
    /** @type {Record<string, any>} */
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

  const visits = request.questions.every((q) => q.kind === "url");
  const form = h("form", {
    class: "approval input", tabIndex: -1, "aria-label": `Input for ${request.toolName}`,
    onsubmit: (/** @type {Event} */ e) => {
      e.preventDefault();
      void send("accept");
    },
  },
  h("header", null, h("code", null, request.toolName), " of ", h("strong", null, request.agent), " asks"),
  asked.map(({ question, fields }) => {
    const url = question.kind === "url" ? address(question.url) : undefined;
    return h("div", { class: "question" }, h("p", { class: "reason" }, question.message),
      url && h("p", null, h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, "Open ", h("strong", null, url.host)), h("br"), h("code", { class: "hint" }, url.href)),
      fields.map((f) => f.element));
  }),
  h("p", { class: "hint" }, "Asked ", time(request.requestedAt), ". Give no passwords: the answer is kept in the thread."),
  choices, refusal);
  fill(choices, may("post")
    ? [h("button", { class: "primary" }, visits ? "I have done this" : "Send"), button("Decline", () => send("decline"), { class: "danger" })]
    : h("p", { class: "hint" }, "Your key does not allow you to answer."));
  return form;
}
