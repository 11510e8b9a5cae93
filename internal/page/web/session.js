// What all parts of the page share: the client, who the person is, what the server can do.

import { Client } from "./client/threadmill.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["ServerInfo"]} ServerInfo */

const KEY = "threadmill.key", NAME = "threadmill.name";

export const client = new Client({ token: () => sessionStorage.getItem(KEY) ?? undefined });

/** @type {ServerInfo} */
export let server = { version: "", namespace: "default", roles: [] };

/** Loads what the server says of itself. It fails with status 401 until there is a valid key. */
export async function load() {
  server = await client.request("GET", "/v1/server");
}

/** Keeps the API key until the tab is closed. @param {string} key */
export function signIn(key) {
  sessionStorage.setItem(KEY, key);
}

export function signOut() {
  sessionStorage.removeItem(KEY);
}

export function signedIn() {
  return sessionStorage.getItem(KEY) !== null;
}

/** The person's name: that of the key, or else the one that was chosen. */
export function myName() {
  return server.name || localStorage.getItem(NAME) || "";
}

/** @param {string} name */
export function setMyName(name) {
  localStorage.setItem(NAME, name);
}

/** @param {ServerInfo["roles"][number]} role */
export function may(role) {
  return server.roles.includes(role);
}

/** The address of a thread in Temporal's Web UI. @param {string} id */
export function workflowURL(id) {
  return server.workflows && `${server.workflows}/${encodeURIComponent(`thread/${server.namespace}/${id}`)}`;
}

/** @typedef {import("./client/threadmill.js").StreamState} StreamState */

/**
 * Follows a stream while the page is visible. Hidden pages give their connection back, because browsers
 * permit six for one server; the stream resumes exactly where it was.
 */
export class Follower {
  #lastEventId = "";
  #hidden = 0;
  /** @type {AbortController | undefined} */
  #running;

  /**
   * @param {(options: { lastEventId: string, signal: AbortSignal, onEvent: (e: any, id: string) => void, onState: (s: StreamState, error?: Error) => void }) => Promise<void>} open
   * @param {(e: any, id: string) => void} onEvent
   * @param {(s: StreamState, error?: Error) => void} onState
   */
  constructor(open, onEvent, onState) {
    this.open = open;
    this.onEvent = onEvent;
    this.onState = onState;
    this.visibility = () => this.#visibility();
  }

  /** @param {string} lastEventId */
  start(lastEventId) {
    this.#lastEventId = lastEventId;
    document.addEventListener("visibilitychange", this.visibility);
    this.#run();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.visibility);
    clearTimeout(this.#hidden);
    this.#running?.abort();
    this.#running = undefined;
  }

  #visibility() {
    clearTimeout(this.#hidden);
    if (document.visibilityState === "visible") {
      if (!this.#running) this.#run();
      return;
    }
    this.#hidden = window.setTimeout(() => {
      this.#running?.abort();
      this.#running = undefined;
    }, 10_000);
  }

  #run() {
    const running = (this.#running = new AbortController());
    this.open({
      lastEventId: this.#lastEventId,
      signal: running.signal,
      onEvent: (e, id) => {
        if (running.signal.aborted) return;
        if (id !== "") this.#lastEventId = id;
        this.onEvent(e, id);
      },
      onState: (state, error) => {
        if (!running.signal.aborted) this.onState(state, error);
      },
    }).catch(() => {}); // onState has told
  }
}
