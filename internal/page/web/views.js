// What the list of threads shows, as its address has it: a tab, a search and filters.

/** @import { Thread } from "./client/threadmill.js" */

/** The tabs: what the address calls them, what people read, and which threads they have. The counts of the API have the same names. */
export const TABS = /** @type {const} */ ([
  { tab: "open", label: "Open" },
  { tab: "waiting", label: "Needs me" },
  { tab: "failing", label: "Failing" },
  { tab: "unanswered", label: "Unanswered" },
  { tab: "running", label: "Running" },
  { tab: "idle", label: "Idle" },
  { tab: "closed", label: "Closed" },
]);

/** @typedef {typeof TABS[number]["tab"]} Tab */

/** The filters of the API, as the address has them. */
const FILTERS = /** @type {const} */ (["q", "agent", "tool", "olderThan", "newerThan", "expiresBefore"]);

/** @typedef {typeof FILTERS[number]} Filter */
/** @typedef {{ tab: Tab } & { [F in Filter]?: string }} View */

/** The most characters of a filter. */
const LONGEST = 200;

/** The view that the query of an address describes. What it cannot mean is left out. @param {URLSearchParams} query @returns {View} */
export function viewOf(query) {
  /** @type {View} */
  const view = { tab: TABS.find(({ tab }) => tab === query.get("tab"))?.tab ?? "open" };
  for (const name of FILTERS) {
    const value = query.get(name)?.trim().slice(0, LONGEST);
    if (value) view[name] = value;
  }
  return view;
}

/** The query of the address of a view, with its question mark, or "". The same view has one address. @param {View} view */
export function viewQuery(view) {
  const query = new URLSearchParams();
  if (view.tab !== "open") query.set("tab", view.tab);
  for (const name of FILTERS) if (view[name]) query.set(name, view[name]);
  return query.size > 0 ? `?${query}` : "";
}

/** The address of a list, or of a thread beside it. @param {View} view @param {string} [thread] */
export function viewAddress(view, thread) {
  return `#/${thread ? `threads/${encodeURIComponent(thread)}` : ""}${viewQuery(view)}`;
}

/** The filters without the tab, as the API takes them. @param {View} view @returns {{ [F in Filter]?: string }} */
export function filtersOf({ tab: _, ...filters }) {
  return filters;
}

/** Which threads of the filters the tab has, as the API takes it. @param {Tab} tab */
export function selectionOf(tab) {
  return tab === "open" || tab === "closed" ? { status: tab } : { activity: tab };
}

/** Whether a tab has a thread. @param {Tab} tab @param {Thread} t */
export function has(tab, t) {
  return tab === "open" || tab === "closed" ? t.status === tab : t.status === "open" && t.activity === tab;
}

/** Whether only the server can tell which threads the view has. @param {View} view */
export function isFiltered(view) {
  return FILTERS.some((name) => view[name] !== undefined);
}

/** @typedef {{ name: string, query: string }} NamedView */

/** The most views that are kept: each is counted. */
const MOST_VIEWS = 12;

/** The views in a text that was stored, without those that cannot be read. @param {string} text @returns {NamedView[]} */
export function namedViews(text) {
  /** @type {unknown} */
  let stored;
  try {
    stored = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(stored)) return [];
  return stored
    .filter((one) => typeof one?.name === "string" && one.name !== "" && typeof one.query === "string")
    .map((one) => ({ name: one.name, query: viewQuery(viewOf(new URLSearchParams(one.query))) }))
    .slice(-MOST_VIEWS);
}
