// Agents in the API: found, also if they are deleted, and stored if nobody else has stored another version.

import { APIError } from "./client/threadmill.js";
import { ChangedMeanwhile } from "./draft.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @import { Doc } from "./draft.js" */
/** @import { Version, Versioned } from "./versions.js" */
/** @typedef {components["schemas"]["AgentDetail"]} AgentDetail */
/** @typedef {components["schemas"]["AgentDefinition"]} AgentDefinition */
/** @typedef {components["schemas"]["AgentVersion"]} AgentVersion */

/** An agent, or the newest versions of one that is deleted. @param {string} name @returns {Promise<{ detail: AgentDetail } | { detail: undefined, versions: AgentVersion[] }>} */
export async function find(name) {
  try {
    return { detail: await client.request("GET /v1/agents/{name}", { path: { name } }) };
  } catch (error) {
    if (!(error instanceof APIError && error.status === 404)) throw error;
    const { versions } = await client.request("GET /v1/agents/{name}/versions", { path: { name }, query: { limit: 1 } }).catch(() => {
      throw error; // there never was one
    });
    return { detail: undefined, versions };
  }
}

/**
 * Stores a definition if a version is still the newest.
 * @param {string} name @param {Doc} doc @param {number} version 0: if none is stored.
 */
export async function store(name, doc, version) {
  try {
    const body = /** @type {AgentDefinition} */ (/** @type {unknown} */ (doc)); // the server checks it
    await client.request("PUT /v1/agents/{name}", { path: { name }, body, query: { by: await person(), ifVersion: String(version) } });
  } catch (error) {
    if (!(error instanceof APIError && error.status === 409)) throw error;
    const { versions } = await client.request("GET /v1/agents/{name}/versions", { path: { name }, query: { limit: 1 } });
    const [newest] = versions;
    throw new ChangedMeanwhile({
      doc: newest.deleted ? undefined : /** @type {Doc} */ ({ ...newest.definition }),
      version: newest.deleted ? 0 : newest.version,
      by: newest.by,
      at: newest.at,
    });
  }
}

/** How many versions are read at a time. */
const PAGE = 50;

/** The versions of a stored agent. @param {string} name @returns {Versioned} */
export const versionsOf = (name) => ({
  load: async (before) => {
    const page = await client.request("GET /v1/agents/{name}/versions", { path: { name }, query: { limit: PAGE, before } });
    return { ...page, versions: /** @type {Version[]} */ (page.versions) };
  },
  store: may("admin") ? (doc, version) => store(name, doc, version) : undefined,
  restored: "The agent answers again.",
  rolledBack: "It applies from the next model call on, also in threads that run.",
});
