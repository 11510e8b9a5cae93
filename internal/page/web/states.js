// What a view shows while it loads, when that fails, and when there is nothing to show.

import { button, fill, h } from "./dom.js";

/** Says that something is loaded, unless that is quick: forms.css shows it after a moment. */
export const loading = () => h("p", { class: "hint soon", role: "status" }, "Loading…");

/** @typedef {Error & { status?: number }} Failure */

/** What an error means to people. @param {Failure} error */
const meaning = ({ status }) =>
  status === 0
    ? "The server cannot be reached."
    : status === 403
      ? "Your key does not permit this."
      : status === 404
        ? "It does not exist."
        : "It could not be loaded.";

/**
 * Loads what a place shows, at once and again. An error is shown whole, with a way to try again; what the place shows already stays while it loads.
 * @param {Element} place @param {() => Promise<void>} load Fills the place.
 * @returns {Promise<void>} Once it is shown, or why not.
 */
export async function shows(place, load) {
  const note = loading();
  if (place.childElementCount === 0) place.append(note);
  try {
    await load();
  } catch (error) {
    fill(
      place,
      failure(/** @type {Failure} */ (error), () => shows(place, load)),
    );
  } finally {
    note.remove();
  }
}

/** An error with a way to try again. @param {Failure} error @param {() => unknown} again */
export function failure(error, again) {
  const means = meaning(error);
  return h(
    "section",
    { class: "empty failure", role: "alert" },
    h("p", null, h("strong", null, means)),
    error.message.replace(/\.$/, "") !== means.replace(/\.$/, "") && h("p", { class: "error" }, error.message),
    button(
      "Try again",
      (e) => {
        /** @type {HTMLButtonElement} */ (e.currentTarget).disabled = true;
        again();
      },
      { class: "primary" },
    ),
  );
}

/** @typedef {import("./dom.js").Child} Child */

/** What a view shows that has nothing: what would be here, and how to make it. @param {string} title @param {string} text @param {...Child} actions */
export function empty(title, text, ...actions) {
  return h("section", { class: "empty" }, h("h2", null, title), h("p", { class: "hint" }, text), actions.some(Boolean) && h("div", { class: "row" }, actions));
}
