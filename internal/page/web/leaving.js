// What is typed and not saved: asks before the address, or the browser, leaves it.

import { placeOf } from "./addresses.js";
import { confirmed } from "./dialog.js";

/** What says whether it has something that is not saved. @type {Set<() => boolean>} */
const guards = new Set();

/** Asks before people leave while it is true. @param {() => boolean} unsaved @returns {() => void} Ends it. */
export function guard(unsaved) {
  guards.add(unsaved);
  return () => guards.delete(unsaved);
}

/** Whether something is typed that is not saved. */
export const unsaved = () => [...guards].some((one) => one());

/** Whether people agree to lose what is not saved, if there is anything. */
export async function mayLeave() {
  return !unsaved() || (await confirmed("Leave without saving?", "What you have changed here is lost.", "Leave"));
}

/** Loads the page again without asking: people have agreed. */
export function reload() {
  guards.clear();
  location.reload();
}

/** The address to which people have agreed to go. */
let agreed = "";

/** Goes to an address of the page, if people agree to leave what is not saved. @param {string} address @returns {Promise<boolean>} Whether they do. */
export async function goTo(address) {
  if (!(await mayLeave())) return false;
  const to = new URL(address, location.href).href;
  if (to !== location.href) location.href = agreed = to;
  return true;
}

// This module's listener is called before those of the modules that import it.
addEventListener("hashchange", async (e) => {
  const mayGo = !unsaved() || location.href === agreed || placeOf(e.newURL) === placeOf(e.oldURL);
  agreed = "";
  if (mayGo) return;
  e.stopImmediatePropagation();
  const { oldURL, newURL } = e;
  history.replaceState(null, "", oldURL);
  if (document.querySelector("dialog[open]") || !(await mayLeave())) return;
  agreed = newURL;
  location.href = newURL;
});

addEventListener("beforeunload", (e) => unsaved() && e.preventDefault());
