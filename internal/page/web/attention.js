// Whether a person has had the time to read what a key or a click would decide.

/** How long something has to be in view, and focused, before it can be decided, in milliseconds. */
export const READING = 400;

export class Attention {
  /** @type {number | undefined} */
  #visible;
  /** @type {number | undefined} */
  #focused;
  #now;

  /** @param {() => number} [now] A clock that only goes forward, in milliseconds. */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** @param {boolean} is */
  setVisible(is) {
    this.#visible = is ? (this.#visible ?? this.#now()) : undefined;
  }

  /** @param {boolean} is */
  setFocused(is) {
    this.#focused = is ? (this.#focused ?? this.#now()) : undefined;
  }

  /** Begins again, because what there is to read has changed. */
  restart() {
    if (this.#visible !== undefined) this.#visible = this.#now();
  }

  /** Whether a click counts. */
  get seen() {
    return lasted(this.#visible, this.#now());
  }

  /** Whether a key counts. */
  get read() {
    return this.seen && lasted(this.#focused, this.#now());
  }

  /** Whether this press of a key counts: a key that is held never does. @param {{ repeat: boolean }} key */
  accepts(key) {
    return !key.repeat && this.read;
  }
}

/** @param {number | undefined} since @param {number} now */
function lasted(since, now) {
  return since !== undefined && now - since >= READING;
}
