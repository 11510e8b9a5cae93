// What all parts of the page share: the client, what the server can do, what the key permits.

import { Client } from "./client/threadmill.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["ServerInfo"]} ServerInfo */

const KEY = "threadmill.key";

/** The API key of this tab, or "". */
export const storedKey = () => sessionStorage.getItem(KEY) ?? "";

export const client = new Client({ token: () => storedKey() || undefined });

/** @type {ServerInfo} */
export let server = { version: "", namespace: "default", roles: [], limits: /** @type {ServerInfo["limits"]} */ ({}) };

/** An id of what the page makes: repeated with it, a request does nothing again. Only pages of https and localhost have UUIDs. */
export const newId = () => crypto.randomUUID?.() ?? `page-${Date.now()}-${Math.random().toString(36).slice(2)}`;

/** Loads what the server says of itself. It fails with status 401 until there is a valid key. */
export async function load() {
  server = await client.request("GET /v1/server");
}

/** Keeps the API key until the tab is closed. @param {string} key */
export function signIn(key) {
  sessionStorage.setItem(KEY, key);
}

export function signOut() {
  sessionStorage.removeItem(KEY);
}

export function signedIn() {
  return storedKey() !== "";
}

/** @param {ServerInfo["roles"][number]} role */
export function may(role) {
  return server.roles.includes(role);
}

/** The address of a thread in Temporal's Web UI. @param {string} id */
export function workflowURL(id) {
  return server.workflows && `${server.workflows}/${encodeURIComponent(`thread/${server.namespace}/${id}`)}`;
}
