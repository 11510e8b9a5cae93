// What waits for people in all threads. All parts of the page that show it share one request.

import { Paced } from "./paced.js";
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
  #paced = new Paced(() => this.#ask(), PACE);

  /** Asks the server soon. The event "change" tells that it has answered. */
  refresh() {
    this.#paced.refresh();
  }

  async #ask() {
    try {
      this.now = await client.waiting({ limit: THREADS });
      this.error = undefined;
    } catch (error) {
      this.error = /** @type {Error} */ (error);
    }
    this.dispatchEvent(new Event("change"));
  }
}

export const waiting = new WaitingCalls();
