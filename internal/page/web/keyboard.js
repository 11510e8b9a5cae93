// The keys of the page at work: they run commands, can be turned off, and are listed in a dialog.

import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { commandOf, KEYS, keyName, PLACES } from "./keys.js";

/** @import { Command } from "./keys.js" */

const OFF = "threadmill.keys";

/** Whether keys without Ctrl do anything. This browser keeps it. */
export function keysAreOn() {
  return localStorage.getItem(OFF) !== "off";
}

/** @param {boolean} on */
export function turnKeys(on) {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "off");
}

/** Runs commands as their keys are pressed. @param {Record<Command, () => void>} commands @param {() => boolean} listed Whether the list of threads is shown. */
export function listenToKeys(commands, listed) {
  document.addEventListener("keydown", (e) => {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.defaultPrevented || e.isComposing || document.querySelector("dialog[open]")) return;
    const list = !listed() ? "none" : target.closest(".approval") ? "card" : target.closest(".threads") ? "row" : "other";
    const field = target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    const command = commandOf(e, { list, field, off: !keysAreOn() });
    if (command === undefined || (command === "leave" && target.matches("[type=search]:not(:placeholder-shown)"))) return; // Escape clears a search first
    e.preventDefault();
    commands[command]();
  });
}

const apple = /Mac|iP(hone|ad)/.test(navigator.platform);

/** A key, as the keyboard shows it. @param {string} name */
export function kbd(name) {
  return h("kbd", null, keyName(name, apple));
}

/** Lists all keys, and turns them off and on. */
export function showKeys() {
  const groups = Object.entries(PLACES).map(([where, label]) => [label, KEYS.filter((key) => key.where === where)]);
  return ask(
    h(
      "dialog",
      { class: "keys", "aria-label": "Keys" },
      h(
        "form",
        { method: "dialog" },
        h("h2", null, "Keys"),
        h(
          "div",
          { class: "key-groups" },
          /** @type {[string, typeof KEYS[number][]][]} */ (groups).map(([label, keys]) => group(label, keys)),
        ),
        h(
          "label",
          { class: "row" },
          h("input", {
            type: "checkbox",
            checked: keysAreOn(),
            onchange: (/** @type {Event} */ e) => turnKeys(/** @type {HTMLInputElement} */ (e.target).checked),
          }),
          "Single keys are on",
        ),
        h("div", { class: "row" }, h("button", { class: "primary", autofocus: true }, "Close")),
      ),
    ),
  );
}

/** @param {string} label @param {typeof KEYS[number][]} keys */
function group(label, keys) {
  return h(
    "section",
    null,
    h("h3", null, label),
    h(
      "dl",
      { class: "facts" },
      keys.flatMap((key) => [
        h(
          "dt",
          null,
          key.keys.flatMap((name, i) => [i > 0 && " ", kbd(name)]),
        ),
        h("dd", null, key.label),
      ]),
    ),
  );
}
