// Places whose content is read again while people look at it.

import { fill } from "./dom.js";

/** What can have the focus. */
const CONTROLS = "button, a[href], input, select, textarea, summary, [tabindex]";

/** What is inside an element, by a name that it keeps when it is made again. @param {Element} place @param {string} selector @returns {Map<string, HTMLElement>} */
function named(place, selector) {
  /** @type {Map<string, HTMLElement>} */
  const found = new Map();
  for (const element of place.querySelectorAll(selector)) {
    // An element belongs to the part that has an id; a second one with the same text has another number. What has a text that changes has a name.
    const text = element.getAttribute("name") ?? element.querySelector("summary")?.textContent ?? element.textContent;
    const name = `${element.closest("[id]")?.id} ${element.tagName} ${text}`;
    for (let n = 1; ; n++) {
      if (found.has(`${name} ${n}`)) continue;
      found.set(`${name} ${n}`, /** @type {HTMLElement} */ (element));
      break;
    }
  }
  return found;
}

/**
 * Shows other children. If they look the same, nothing happens; otherwise the control that has the focus keeps it, and open details stay open.
 * Parts that differ in what their buttons do have different ids.
 * @param {Element} place @param {...(import("./dom.js").Child | import("./dom.js").Child[])} children
 */
export function renew(place, ...children) {
  const next = /** @type {Element} */ (place.cloneNode(false));
  fill(next, ...children);
  for (const [name, details] of named(next, "details")) {
    const shown = /** @type {HTMLDetailsElement | undefined} */ (named(place, "details").get(name));
    if (shown) /** @type {HTMLDetailsElement} */ (details).open = shown.open;
  }
  if (next.isEqualNode(place)) return;
  const focused = [...named(place, CONTROLS)].find(([, element]) => element === document.activeElement)?.[0];
  place.replaceChildren(...next.childNodes);
  if (focused) named(place, CONTROLS).get(focused)?.focus({ preventScroll: true });
}
