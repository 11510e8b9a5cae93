// How many calls wait, in the title of the tab and in its icon.

const title = /** @type {HTMLTitleElement} */ (document.querySelector("title"));
const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
const calm = icon.href;

let count = 0;
/** The title without the number, and with it. */
let base = document.title,
  shown = base;

function show() {
  document.title = count > 0 ? `(${count}) ${base}` : base;
  shown = document.title;
}

// Each part of the page sets the title when it shows something else.
new MutationObserver(() => {
  if (document.title === shown) return;
  base = document.title;
  show();
}).observe(title, { childList: true });

/** @param {number} n */
export function showWaitingCount(n) {
  if (n === count) return;
  count = n;
  show();
  icon.href = n > 0 ? calm.replace("icon.svg", "icon-waiting.svg") : calm;
}
