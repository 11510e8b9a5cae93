// Where the focus goes when what has it is shown anew or goes: without it, keys would begin at the top of the page again.

/** Keeps the focus in a part of the page. @param {HTMLElement} part It can have the focus itself. */
export function keepFocusIn(part) {
  /** @type {Element | undefined} */
  let last;
  document.addEventListener("focusin", (e) => {
    const target = /** @type {Element} */ (e.target);
    if (!target.closest("dialog")) last = part.contains(target) ? target : undefined;
  });
  new MutationObserver(() => {
    if (!last || last.isConnected || document.activeElement !== document.body) return;
    last = undefined;
    part.focus({ preventScroll: true });
  }).observe(part, { childList: true, subtree: true });
}
