// Views of the list of threads that the person has named. This browser keeps them.

import { namedViews } from "./views.js";

/** @import { NamedView } from "./views.js" */

const VIEWS = "threadmill.views";

/** @returns {NamedView[]} */
export function savedViews() {
  return namedViews(localStorage.getItem(VIEWS) ?? "");
}

/** Keeps a view, instead of one with the same name or address. @param {NamedView} saved */
export function saveView(saved) {
  keep([...savedViews().filter(({ name, query }) => name !== saved.name && query !== saved.query), saved]);
}

/** @param {string} query */
export function removeView(query) {
  keep(savedViews().filter((one) => one.query !== query));
}

/** @param {NamedView[]} views */
function keep(views) {
  localStorage.setItem(VIEWS, JSON.stringify(views));
}
