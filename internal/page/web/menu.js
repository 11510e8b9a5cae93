// A menu of actions, which closes when one is chosen, with Escape, and when the person goes elsewhere.

import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** @param {string} label @param {() => (Child | Child[])[]} items What it has when it opens. */
export function menu(label, items) {
  const summary = h("summary", { "aria-label": label }, "⋮");
  const list = h("div", { class: "menu-items" });
  const details = h(
    "details",
    {
      class: "menu",
      ontoggle: () =>
        details.open &&
        list.replaceChildren(
          ...items()
            .flat()
            .filter((item) => item instanceof Node),
        ),
      onfocusout: (/** @type {FocusEvent} */ e) => {
        if (e.relatedTarget instanceof Node && !details.contains(e.relatedTarget)) details.open = false;
      },
      onkeydown: (/** @type {KeyboardEvent} */ e) => {
        if (e.key !== "Escape" || !details.open) return;
        e.preventDefault();
        details.open = false;
        summary.focus();
      },
      onclick: (/** @type {Event} */ e) => {
        if (list.contains(/** @type {Node} */ (e.target))) details.open = false;
      },
    },
    summary,
    list,
  );
  return details;
}
