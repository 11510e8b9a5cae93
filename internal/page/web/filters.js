// The filters of the list of threads: a panel to choose them, and a chip for each that is on.

import { everyAgent } from "./agentlist.js";
import { button, h } from "./dom.js";
import { waiting } from "./waiting.js";

/** @import { Filter, View } from "./views.js" */

const AGES = /** @type {const} */ ([
  ["1h", "an hour"],
  ["24h", "a day"],
  ["168h", "a week"],
]);

const LEFT = /** @type {const} */ ([
  ["15m", "15 minutes"],
  ["1h", "an hour"],
  ["24h", "a day"],
]);

const TOKENS = /** @type {const} */ ([
  ["10000", "10,000"],
  ["100000", "100,000"],
  ["1000000", "1,000,000"],
  ["10000000", "10,000,000"],
]);

/** What the chips say. @type {Record<Exclude<Filter, "q">, (value: string) => string>} */
const CHIPS = {
  agent: (value) => `agent ${value}`,
  tool: (value) => `waits for ${value}`,
  olderThan: (value) => `no change for ${inWords(AGES, value)}`,
  newerThan: (value) => `changed within ${inWords(AGES, value)}`,
  minTokens: (value) => `${inWords(TOKENS, value)} tokens or more`,
  expiresBefore: (value) => `expires within ${inWords(LEFT, value)}`,
};

/** @param {readonly (readonly [string, string])[]} known @param {string} value */
function inWords(known, value) {
  return known.find(([one]) => one === value)?.[1] ?? value;
}

/** A chip for each filter of a view, which takes it away. @param {View} view @param {(view: View) => void} go */
export function chips(view, go) {
  return Object.entries(CHIPS).flatMap(([name, text]) => {
    const value = view[/** @type {Filter} */ (name)];
    if (value === undefined) return [];
    const label = text(value);
    return button(`${label} ×`, () => go({ ...view, [name]: undefined }), { class: "chip", "aria-label": `Remove the filter: ${label}` });
  });
}

/** The panel, which shows the filters of a view. @param {View} view @param {(view: View) => void} go */
export function filterPanel(view, go) {
  const set = (/** @type {Filter} */ name, /** @type {string} */ value) => go({ ...view, [name]: value.trim() || undefined });
  /** @param {string} label @param {Filter} name @param {string} any @param {readonly (readonly [string, string])[]} options */
  const choice = (label, name, any, options) => {
    const value = view[name] ?? "";
    const known = value === "" || options.some(([one]) => one === value) ? options : [...options, /** @type {const} */ ([value, value])];
    return h(
      "label",
      null,
      label,
      h(
        "select",
        { onchange: (/** @type {Event} */ e) => set(name, /** @type {HTMLSelectElement} */ (e.target).value) },
        h("option", { value: "" }, any),
        known.map(([one, text]) => h("option", { value: one, selected: one === value }, text)),
      ),
    );
  };
  const agents = choice("Agent", "agent", "any", []);
  everyAgent().then(
    // The choice itself stays: it may have the focus.
    (all) => agents.querySelector("select")?.append(...all.filter((a) => a.name !== view.agent).map((a) => h("option", { value: a.name }, a.name))),
    () => {}, // the agent of the view remains
  );
  const tools = [...new Set((waiting.now?.approvals ?? []).map(({ request }) => request.toolName))].sort();
  return h(
    "div",
    { class: "filter-panel", role: "group", "aria-label": "Filters" },
    agents,
    choice(
      "Waits for a call of",
      "tool",
      "any tool",
      tools.map((name) => [name, name]),
    ),
    choice("Time left under", "expiresBefore", "any", LEFT),
    choice("Changed within", "newerThan", "any", AGES),
    choice("No change for", "olderThan", "any", AGES),
    choice("Tokens, at least", "minTokens", "any", TOKENS),
  );
}
