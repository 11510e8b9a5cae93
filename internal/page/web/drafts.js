// What a person has typed in a thread: the draft of the next message, and the messages that the server has not confirmed.
// The tabs of this browser share it. It stays until it is sent or the person signs out.

/**
 * A message that the server has not confirmed. It keeps its id, so that the thread gets it once, however often it is sent.
 * @typedef {object} Unsent
 * @property {string} id @property {string} content @property {"enqueue" | "steer" | "interrupt"} [onBusy]
 * @property {string} [error] Why it was not sent, as far as this browser knows.
 * @property {boolean} [unknown] The server may have received it.
 */
/** @typedef {{ text: string, unsent: Unsent[] }} Typed */

const PREFIX = "threadmill.draft.";

/** What the browser does not store. @type {Map<string, Typed>} */
const unstored = new Map();

export class Draft {
  /** The key under which the browser stores it. */
  key;
  /** The text as this tab has seen it last. */
  #seen;

  /** @param {string} namespace @param {string} person @param {string} thread */
  constructor(namespace, person, thread) {
    this.key = PREFIX + JSON.stringify([namespace, person, thread]);
    this.#seen = this.#stored.text;
  }

  /** @returns {Typed} */
  get #stored() {
    const kept = unstored.get(this.key);
    if (kept) return kept;
    try {
      const stored = JSON.parse(localStorage.getItem(this.key) ?? "null");
      if (typeof stored?.text === "string" && Array.isArray(stored.unsent)) return stored;
    } catch {
      // The browser stores nothing, or somebody else wrote it.
    }
    return { text: "", unsent: [] };
  }

  /** @param {Typed} typed */
  #store(typed) {
    this.#seen = typed.text;
    unstored.delete(this.key);
    try {
      if (typed.text === "" && typed.unsent.length === 0) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify(typed));
    } catch {
      unstored.set(this.key, typed); // the storage is full or off
    }
  }

  /** The text as it is stored now. */
  read() {
    this.#seen = this.#stored.text;
    return this.#seen;
  }

  /** Stores the text of this tab. @param {string} mine @returns {string} The text, with what another tab has written since this one looked. */
  write(mine) {
    const { text, unsent } = this.#stored;
    this.#store({ text: joined(this.#seen, mine, text), unsent });
    return this.#seen;
  }

  /** The messages that the server has not confirmed, the first one first. */
  get unsent() {
    return this.#stored.unsent;
  }

  /** Makes the text a message that is to be sent. @param {Unsent} message */
  send(message) {
    this.#store({ text: "", unsent: [...this.unsent, message] });
  }

  /** @param {string} id @param {Partial<Unsent>} change */
  update(id, change) {
    const { text, unsent } = this.#stored;
    this.#store({ text, unsent: unsent.map((one) => (one.id === id ? { ...one, ...change } : one)) });
  }

  /** Forgets messages: the thread has them, or the person does not want them. @param {(id: string) => boolean} which */
  settle(which) {
    const { text, unsent } = this.#stored;
    const left = unsent.filter(({ id }) => !which(id));
    if (left.length < unsent.length) this.#store({ text, unsent: left });
  }
}

/** Forgets what was typed in all threads. */
export function forgetDrafts() {
  unstored.clear();
  for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
}

/** A text that two tabs have changed since both had the same. @param {string} seen @param {string} mine @param {string} theirs */
export function joined(seen, mine, theirs) {
  if (theirs === seen || theirs === "" || theirs === mine) return mine;
  return mine === seen || mine === "" ? theirs : `${theirs}\n${mine}`;
}
