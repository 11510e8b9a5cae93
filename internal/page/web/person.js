// Who the person is. Decisions and changes carry a name: that of the API key, or else one that the
// person gives once and this browser keeps.

import { counter } from "./counter.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { textBytes } from "./limits.js";
import { server } from "./session.js";

/** Where the browser keeps the name. */
export const NAME = "threadmill.name";

const TITLE = "What is your name?",
  WHY = "Messages, decisions and changes carry it, so that others see who acted.";

/** The person's name, or "" if nobody gave it yet. */
export function myName() {
  return server.name || localStorage.getItem(NAME) || "";
}

/** The question that is open, so that several actions ask once. @type {Promise<string> | undefined} */
let asking;

/**
 * The person's name, for an action. Asks for it if nobody gave it yet.
 * @returns {Promise<string>} Rejects with an AbortError if the person does not give it: then nothing is done.
 */
export async function person() {
  const name = myName() || (await (asking ??= askName(TITLE, WHY)));
  if (!name) throw new DOMException("Nothing was done, because nobody gave a name.", "AbortError");
  return name;
}

/** Asks for another name. */
export function changeName() {
  const why = myName() ? "What you did so far keeps the old one." : WHY;
  return (asking ??= askName(myName() ? "Change your name" : TITLE, why));
}

/** @param {string} title @param {string} why @returns {Promise<string>} The name, or "". */
async function askName(title, why) {
  const input = h("input", {
    value: myName(),
    required: true,
    autocomplete: "name",
    autofocus: true,
    "aria-describedby": "name-why",
  });
  const limit = counter(input, server.limits.name, { size: (text) => textBytes(tidy(text)) });
  try {
    const answer = await ask(
      h(
        "dialog",
        { class: "name", "aria-label": title },
        h(
          "form",
          {
            method: "dialog",
            onsubmit: (/** @type {SubmitEvent} */ e) => {
              if (/** @type {HTMLButtonElement} */ (e.submitter)?.value !== "save") return;
              input.value = tidy(input.value);
              limit.count();
              if (!input.reportValidity()) e.preventDefault();
            },
          },
          h("h2", null, title),
          h("p", { id: "name-why" }, why),
          h("label", null, "Name", input),
          limit.line,
          h("p", { class: "hint" }, "This browser keeps it."),
          h("div", { class: "row" }, h("button", { value: "save", class: "primary" }, "Save"), h("button", { value: "", formNoValidate: true }, "Cancel")),
        ),
      ),
    );
    if (answer !== "save") return "";
    localStorage.setItem(NAME, input.value);
    document.dispatchEvent(new CustomEvent("name-changed"));
    return input.value;
  } finally {
    asking = undefined;
  }
}

/** A name with single spaces and composed letters, as the API wants them. @param {string} text */
function tidy(text) {
  return text.normalize("NFKC").replace(/\s+/g, " ").trim();
}
