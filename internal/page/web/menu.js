// A menu of actions, made when it opens. menus.js closes it.

import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** @param {string} label @param {() => (Child | Child[])[]} items What it has when it opens. */
export function menu(label, items) {
  const summary = h("summary", { "aria-label": label }, "⋮");
  const list = h("div", { class: "menu-items" });
  /** @type {HTMLDetailsElement} */
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
    },
    summary,
    list,
  );
  return details;
}
