// A stream that a part of the page follows.

/** @typedef {import("./client/threadmill.js").StreamState} StreamState */

/** How long a hidden page keeps its stream, in milliseconds. */
const KEEP = 10_000;

/**
 * Follows a stream while the page is visible. Browsers permit six connections to one server, so a page
 * gives its own back when it has been hidden for a while, and at once when another page replaces it:
 * the back/forward cache would keep it. The stream resumes exactly where it was.
 */
export class Follower {
  #lastEventId = "";
  #timer = 0;
  /** @type {AbortController | undefined} */
  #running;
  #over = new AbortController();

  /**
   * @param {(options: { lastEventId: string, signal: AbortSignal, onEvent: (e: any, id: string) => void, onState: (s: StreamState, error?: Error) => void }) => Promise<void>} open
   * @param {(e: any, id: string) => void} onEvent
   * @param {(s: StreamState, error?: Error) => void} onState
   */
  constructor(open, onEvent, onState) {
    this.open = open;
    this.onEvent = onEvent;
    this.onState = onState;
  }

  /** @param {string} lastEventId */
  start(lastEventId) {
    this.#lastEventId = lastEventId;
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
        if (running.signal.aborted) return;
        if (state === "closed") this.#over.abort();
        this.onState(state, error);
      },
    }).catch(() => {}); // onState was called with the error
  }
}
