// Menus close on Escape, on a click elsewhere, when the focus leaves them, once something is chosen, and when the address changes.

const OPEN = "details.menu[open]";

/** Closes the menus that do not contain an element. @param {Node | null} [inside] */
function close(inside = null) {
  for (const menu of /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll(OPEN))) if (!menu.contains(inside)) menu.open = false;
}

document.addEventListener("pointerdown", (e) => close(/** @type {Node} */ (e.target)), true);
document.addEventListener("focusin", (e) => close(/** @type {Node} */ (e.target)));
addEventListener("hashchange", () => close());
document.addEventListener("click", (e) => {
  const target = /** @type {Element} */ (e.target);
  if (target.closest(".menu-items :is(button, a)")) close();
});
document.addEventListener(
  "keydown",
  (e) => {
    const menu = /** @type {HTMLDetailsElement | null} */ (document.querySelector(OPEN));
    if (e.key !== "Escape" || !menu) return;
    menu.querySelector("summary")?.focus();
    menu.open = false;
    e.preventDefault();
    e.stopPropagation(); // it closes the menu only, not what is behind it
  },
  true,
);
