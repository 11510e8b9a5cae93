// The addresses of threads and of the parts of knowledge.

/** @import { components } from "./client/api.js" */

/**
 * A line of a thread.
 * @param {string} thread @param {string} key @param {string} [place] The place of its first event. Without it, the server looks for the message or event.
 */
export const lineAddress = (thread, key, place) => `#/threads/${[thread, key, ...(place === undefined ? [] : [place])].map(encodeURIComponent).join("/")}`;

/** What an address leads to. In threads, the rest of it is a line of the same thread, or a view of the list beside it. @param {string} address */
export const placeOf = (address) => /#\/(threads\/[^/?]+|new(?=\?|$))/.exec(address)?.[0] ?? address;

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
