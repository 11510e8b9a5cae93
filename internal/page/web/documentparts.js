// What lists and views of documents share: their states, figures and actions.

import { confirmed } from "./dialog.js";
import { act, h, notify } from "./dom.js";
import { client } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["KnowledgeDocument"]} KnowledgeDocument */

/** Classes of badges. */
const KIND = { processing: "processing", indexed: "completed", failed: "failed" };

/** @param {KnowledgeDocument} d */
export const documentName = (d) => d.title || d.source;

/** @param {KnowledgeDocument["status"]} status */
export const badge = (status) => h("span", { class: `badge ${KIND[status]}` }, status);

/** @param {number} n @param {string} what */
export const plural = (n, what) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;

/** A number of bytes. @param {number} n */
export function size(n) {
  const units = /** @type {const} */ (["byte", "kilobyte", "megabyte"]);
  const at = n < 1000 ? 0 : n < 1e6 ? 1 : 2;
  return new Intl.NumberFormat(undefined, {
    style: "unit",
    unit: units[at],
    unitDisplay: at === 0 ? "long" : "short",
    maximumSignificantDigits: at === 0 ? undefined : 3,
  }).format(n / 1000 ** at);
}

/** What of a document is found. @param {KnowledgeDocument} d */
export function figures(d) {
  return [d.chunks && plural(d.chunks, "chunk"), d.bytes && size(d.bytes)].filter(Boolean).join(" · ");
}

/** Indexes a document again, after a confirmation. @param {HTMLElement} control @param {KnowledgeDocument} d @returns {Promise<KnowledgeDocument | undefined>} */
export async function reindex(control, d) {
  const how = /^https?:/i.test(d.source) ? "It is fetched again if it came from its address." : "It is read again from the store.";
  if (!(await confirmed(`Index ${documentName(d)} again?`, `${how} Until that has ended, agents find it as it is now.`, "Index it again"))) return undefined;
  return act(control, async () => client.request("POST /v1/knowledge/documents/{id}/reindex", { path: { id: d.id } }));
}

/** Removes a document, after a confirmation. @param {HTMLElement} control @param {KnowledgeDocument} d @returns {Promise<boolean>} Whether it was removed. */
export async function remove(control, d) {
  if (!(await confirmed(`Remove ${documentName(d)}?`, "Agents do not find it any more. Threads keep the passages that they were shown.", "Remove it")))
    return false;
  const removed = await act(control, async () => {
    await client.request("DELETE /v1/knowledge/documents/{id}", { path: { id: d.id } });
    notify("The document is removed.");
    return true;
  });
  return removed === true;
}
