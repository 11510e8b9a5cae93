// Requests that follow changes: soon after the first one, and not more often than their pace.

export class Paced {
  #ask;
  #pace;
  #asked;
  #asking = false;
  #timer = 0;

  /** @param {() => Promise<void>} ask @param {number} pace The least time between two requests, in milliseconds. */
  constructor(ask, pace) {
    this.#ask = ask;
    this.#pace = pace;
    this.#asked = -pace;
  }

  /** Asks soon. */
  refresh() {
    this.#timer ||= window.setTimeout(() => this.#run(), this.#asked + this.#pace - performance.now());
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  async #run() {
    this.#timer = 0;
    this.#asked = performance.now();
    if (this.#asking) return this.refresh();
    this.#asking = true;
    try {
      await this.#ask();
    } finally {
      this.#asking = false;
    }
  }
}
