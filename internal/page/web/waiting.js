// What waits for people in all threads. All parts of the page that show it share one request.

import { client } from "./session.js";

/** @import { Waiting } from "./client/threadmill.js" */

/** The least time between two requests, in milliseconds. */
const PACE = 1000;

/** The most threads that are asked. */
const THREADS = 200;

class WaitingCalls extends EventTarget {
  /** What the server has said last. @type {Waiting | undefined} */
  now;
  /** Why the last request failed, if it did. @type {Error | undefined} */
  error;
  #asked = -PACE;
  #asking = false;
  #timer = 0;

  /** Asks the server soon. The event "change" tells that it has answered. */
  refresh() {
    this.#timer ||= window.setTimeout(() => this.#ask(), this.#asked + PACE - performance.now());
  }

  async #ask() {
    this.#timer = 0;
    this.#asked = performance.now();
    if (this.#asking) return this.refresh();
    this.#asking = true;
    try {
      this.now = await client.waiting({ limit: THREADS });
      this.error = undefined;
    } catch (error) {
      this.error = /** @type {Error} */ (error);
    }
    this.#asking = false;
    this.dispatchEvent(new Event("change"));
  }
}

export const waiting = new WaitingCalls();
