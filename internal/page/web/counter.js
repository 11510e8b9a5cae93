// The line that tells people how much of a limit is left while they type. It appears near the limit.

import { fill, h } from "./dom.js";
import { textBytes, toldOf } from "./limits.js";

/**
 * Makes the line of a field. The field is invalid while its text is too long, and the button that sends it is off and says why.
 * @param {HTMLInputElement | HTMLTextAreaElement} field @param {number} limit In bytes.
 * @param {{ size?: (text: string) => number, button?: HTMLButtonElement }} [options] How the text is counted. Default: its bytes.
 */
export function counter(field, limit, { size = textBytes, button } = {}) {
  const line = h("p", { class: "hint counter", id: `counter-${++made}`, role: "status" });
  field.setAttribute("aria-describedby", [field.getAttribute("aria-describedby"), line.id].filter(Boolean).join(" "));
  const count = () => {
    const { text, over } = toldOf(size(field.value), limit);
    if (line.textContent !== text) fill(line, text);
    line.classList.toggle("error", over);
    field.setCustomValidity(over ? text : "");
    field.setAttribute("aria-invalid", String(over));
    if (button) offWhileLong(button, [field]);
  };
  field.addEventListener("input", count);
  count();
  return { line, count };
}

/** Turns a button off while one of the fields is too long, and says why. @param {HTMLButtonElement} button @param {Iterable<HTMLInputElement | HTMLTextAreaElement>} fields */
export function offWhileLong(button, fields) {
  const why = [...fields].find((field) => field.validity.customError)?.validationMessage ?? "";
  button.disabled = why !== "";
  button.title = why;
}

let made = 0;
