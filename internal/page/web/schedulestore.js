// Schedules in the API: found, also if they are deleted, and stored if nobody else has stored another version.

import { APIError } from "./client/threadmill.js";
import { ChangedMeanwhile, same } from "./draft.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @import { Doc, Stored } from "./draft.js" */
/** @import { Version, Versioned } from "./versions.js" */
/** @typedef {components["schemas"]["Schedule"]} Schedule */
/** @typedef {components["schemas"]["NewSchedule"]} NewSchedule */

/** What people say of a schedule, without what the server adds. @param {Schedule} s @returns {Doc} */
export function definition(s) {
  const { failing, next, recent, runs, createdAt, updatedAt, done, lateRuns, overlappedRuns, version, ...spec } = s;
  return /** @type {Doc} */ (spec);
}

/** A schedule. Undefined if it is deleted. @param {string} id @returns {Promise<Schedule | undefined>} */
const present = (id) =>
  client.request("GET /v1/schedules/{id}", { path: { id } }).catch((error) => {
    if (error instanceof APIError && error.status === 404) return undefined;
    throw error;
  });

/** @param {string} id @returns {Promise<Version[]>} */
async function versions(id) {
  const found = await client.request("GET /v1/schedules/{id}/versions", { path: { id } });
  // Temporal itself deletes a schedule some time after its last run.
  const other = (/** @type {boolean | undefined} */ deleted) => (deleted ? "Temporal or another client of it" : "another client of Temporal");
  return found.versions.map((v) => /** @type {Version} */ ({ ...v, by: v.by ?? other(v.deleted) }));
}

/** A schedule, or the newest version of one that is deleted. @param {string} id @returns {Promise<{ schedule: Schedule } | { schedule: undefined, last: Version }>} */
export async function find(id) {
  const schedule = await present(id);
  return schedule ? { schedule } : { schedule, last: (await versions(id))[0] };
}

/**
 * Stores a schedule, unless another one is stored than the form knows.
 * @param {string} id @param {Doc} doc @param {Stored} known
 * @returns {Promise<string>} The id.
 */
export async function store(id, doc, known) {
  const body = /** @type {NewSchedule} */ (/** @type {unknown} */ (doc)); // the server checks it
  const by = await person();
  if (known.doc === undefined) return (await client.request("POST /v1/schedules", { body, query: { by } })).id ?? "";
  const stored = await present(id);
  // What a version does not have, such as a pause, can be another's too.
  if (!stored || !same(definition(stored), known.doc)) throw changed(stored);
  await replace(id, body, by, stored.version ?? 0);
  return id;
}

/** @param {string} id @param {NewSchedule} body @param {string} by @param {number} version */
async function replace(id, body, by, version) {
  try {
    await client.request("PUT /v1/schedules/{id}", { path: { id }, body, query: { by, ifVersion: String(version) } });
  } catch (error) {
    if (!(error instanceof APIError && (error.status === 409 || error.status === 404))) throw error;
    throw changed(await present(id));
  }
}

/** @param {Schedule | undefined} stored */
const changed = (stored) => new ChangedMeanwhile(stored ? { doc: definition(stored), at: stored.updatedAt } : { doc: undefined });

/** The versions of a schedule. @param {string} id @returns {Versioned} */
export const versionsOf = (id) => ({
  load: async () => ({ versions: await versions(id) }),
  store: may("operate") ? (doc, version) => storeAgain(id, doc, version) : undefined,
  restored: "It runs at its times from now on.",
  rolledBack: "It applies from the next run on. Whether it is paused, its note and its remaining runs stay as they are.",
});

/** @param {string} id @param {Doc} doc @param {number} version */
async function storeAgain(id, doc, version) {
  const by = await person();
  const body = /** @type {NewSchedule} */ (/** @type {unknown} */ (doc));
  const stored = await present(id);
  if (version > 0 && stored) {
    const { paused, note, remaining } = stored;
    return replace(id, { ...body, paused, note, remaining }, by, version);
  }
  if (version > 0 || stored) throw changed(stored);
  await client.request("POST /v1/schedules", { body, query: { by } });
}

/** Deletes a schedule. @param {string} id */
export async function remove(id) {
  await client.request("DELETE /v1/schedules/{id}", { path: { id }, query: { by: await person() } });
}
