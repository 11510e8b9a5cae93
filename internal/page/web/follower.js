// A stream that a part of the page follows.

import { APIError } from "./client/threadmill.js";

/** @typedef {import("./client/threadmill.js").StreamState} StreamState */

/** How long a hidden page keeps its stream, in milliseconds. */
const KEEP = 10_000;

/** How many streams all tabs of the page have together. Browsers permit six connections to one server over HTTP/1.1. */
const STREAMS = 4;

/** How often a part without a stream asks what is new, in milliseconds. */
const ASK = 1500;

/**
 * @template E
 * @typedef {{ lastEventId: string, signal: AbortSignal, onEvent: (e: E, id: string) => void, onState: (s: StreamState, error?: Error) => void }} Following
 */

/**
 * Follows a stream while the page is visible. Browsers permit six connections to one server, so a page
 * gives its own back when it has been hidden for a while, and at once when another page replaces it:
 * the back/forward cache would keep it. The stream resumes exactly where it was. While other tabs have
 * all streams, it asks for what is new instead.
 * @template E
 */
export class Follower {
  lastEventId = "";
  #timer = 0;
  /** @type {AbortController | undefined} */
  #running;
  #over = new AbortController();

  /**
   * @param {(options: Following<E>) => Promise<void>} open Follows the stream.
   * @param {(options: Following<E>) => Promise<void>} ask Asks once for what follows the last event.
   * @param {(e: E, id: string) => void} onEvent
   * @param {(s: StreamState, error?: Error) => void} onState
   */
  constructor(open, ask, onEvent, onState) {
    this.open = open;
    this.ask = ask;
    this.onEvent = onEvent;
    this.onState = onState;
  }

  /** @param {string} lastEventId */
  start(lastEventId) {
    this.lastEventId = lastEventId;
    const { signal } = this.#over;
    document.addEventListener("visibilitychange", () => this.#visibility(), { signal });
    addEventListener("pagehide", () => this.#pause(), { signal });
    addEventListener("pageshow", () => this.#visibility(), { signal });
    this.#visibility();
  }

  /** Ends the stream for good. */
  stop() {
    this.#over.abort();
    this.#pause();
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#running = undefined;
  }

  #visibility() {
    clearTimeout(this.#timer);
    if (document.visibilityState === "hidden") this.#timer = window.setTimeout(() => this.#pause(), KEEP);
    else if (!this.#running) this.#run();
  }

  async #run() {
    const running = (this.#running = new AbortController());
    const { signal } = running;
    /** @type {() => Following<E>} */
    const following = () => ({
      lastEventId: this.lastEventId,
      signal,
      onEvent: (e, id) => {
        if (signal.aborted) return;
        if (id !== "") this.lastEventId = id;
        this.onEvent(e, id);
      },
      onState: (state, error) => {
        if (signal.aborted) return;
        if (state === "closed") {
          this.#over.abort();
          running.abort();
        }
        this.onState(state, error);
      },
    });
    while (!signal.aborted && !(await withStream(() => this.open(following()).catch(() => {})))) {
      // onState was called with the error
      const { onState } = following();
      try {
        await this.ask(following());
        onState("open");
      } catch (error) {
        const refused = error instanceof APIError && error.status >= 400 && error.status < 500 && error.status !== 429;
        onState(refused ? "closed" : "waiting", /** @type {Error} */ (error));
      }
      await new Promise((resolve) => setTimeout(resolve, ASK));
    }
  }
}

/**
 * Follows a stream if other tabs leave one. Without locks, which browsers have for https and localhost only, it always does.
 * @param {() => Promise<void>} follow
 * @returns {Promise<boolean>} Whether it has.
 */
async function withStream(follow) {
  const locks = /** @type {LockManager | undefined} */ (navigator.locks);
  if (!locks) return follow().then(() => true);
  for (let i = 0; i < STREAMS; i++) {
    const followed = await locks.request(`threadmill stream ${i}`, { ifAvailable: true }, (lock) => lock !== null && follow().then(() => true));
    if (followed) return true;
  }
  return false;
}
