// The addresses of the parts of knowledge.

/** @import { components } from "./client/api.js" */

/** @param {string} path @param {Record<string, string | string[] | undefined>} [query] What is empty is left out. */
function address(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of [value ?? []].flat()) if (one !== "") params.append(name, one);
  return `#/knowledge/${path}${params.size > 0 ? `?${params}` : ""}`;
}

/** @typedef {{ collection?: string, status?: "processing" | "indexed" | "failed", search?: string }} DocumentFilters */

/** The list of documents. @param {DocumentFilters} [filters] */
export const documentsAddress = (filters) => address("documents", filters);

/**
 * A document, or one of its chunks. With the id of a passage, the page says if another text is in its place by now.
 * @param {string} id @param {number} [index] @param {string} [passage]
 */
export function documentAddress(id, index, passage) {
  return address(["documents", encodeURIComponent(id), ...(index === undefined ? [] : [index])].join("/"), { passage });
}

/** The chunk that a passage was made of. @param {components["schemas"]["Passage"]} p */
export const passageAddress = (p) => documentAddress(p.document, p.index, p.id);

/** A search. @param {string} [q] @param {string[]} [collection] */
export const searchAddress = (q, collection) => address("search", { q, collection });

/** @typedef {{ type?: string, search?: string }} EntityFilters */

/** The list of people and things. @param {EntityFilters} [filters] */
export const entitiesAddress = (filters) => address("entities", filters);

/** A person or a thing. @param {string} id */
export const entityAddress = (id) => address(`entities/${encodeURIComponent(id)}`);
