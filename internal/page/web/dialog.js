// Questions to the person, in modal dialogs.

import { h } from "./dom.js";

/** Whether a dialog or the sign-in lies over the page, whose keys then do nothing. */
export const isCovered = () => document.querySelector("dialog[open], tm-sign-in") !== null;

/**
 * Shows a dialog until it is closed. A key that was held when it opened neither writes into it nor
 * answers it.
 * @param {HTMLDialogElement} dialog
 * @returns {Promise<string>} The value of the button that closed it, or "".
 */
export function ask(dialog) {
  let pressed = false;
  dialog.addEventListener(
    "keydown",
    (e) => {
      if (!e.repeat) pressed = true;
      else if (!pressed || e.key === "Enter") e.preventDefault();
    },
    true,
  );
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Asks before something that cannot be undone.
 * @param {string} title @param {string} text @param {string} verb Of the button that confirms.
 */
export async function confirmed(title, text, verb) {
  return (
    (await ask(
      h(
        "dialog",
        { "aria-label": title },
        h(
          "form",
          { method: "dialog" },
          h("h2", null, title),
          h("p", null, text),
          h("div", { class: "row" }, h("button", { value: "yes", class: "danger" }, verb), h("button", { value: "", autofocus: true }, "Cancel")),
        ),
      ),
    )) === "yes"
  );
}
