// The threads of a list and their order. While a person points at the list or moves in it, rows stay where they are.

/** @import { Thread } from "./client/threadmill.js" */

/** The activities that come first, as in the API's sort=attention. */
const FIRST = ["waiting", "failing"];

/** @param {Thread} t */
const group = (t) => {
  const at = t.status === "open" ? FIRST.indexOf(t.activity ?? "") : -1;
  return at < 0 ? FIRST.length : at;
};

/** The order of sort=attention: waiting threads, then failing ones, the longest first; then the most recently active. @param {Thread} a @param {Thread} b */
export function byAttention(a, b) {
  const one = group(a);
  if (one !== group(b)) return one - group(b);
  if (one < FIRST.length) return ascending(moment(a.activitySince), moment(b.activitySince)) || ascending(a.id, b.id);
  return ascending(moment(b.updatedAt), moment(a.updatedAt)) || ascending(b.id, a.id);
}

/** What a thread is called: its title, or how it begins. @param {Thread} t */
export function nameOf(t) {
  return t.title || t.preview || t.id;
}

/** A time as a text that sorts: the API leaves out zeros at its end, before the Z. @param {string | undefined} time */
function moment(time) {
  return time?.replace("Z", "") ?? "";
}

/** @param {string} a @param {string} b */
function ascending(a, b) {
  return a === b ? 0 : a < b ? -1 : 1;
}

export class ThreadList {
  /** What is known of the threads that are listed or shown. @type {Map<string, Thread>} */
  #threads = new Map();
  /** Threads that are shown and listed no more. @type {Set<string>} */
  #gone = new Set();
  /** Threads that have changed while the order was held. @type {Set<string>} */
  #touched = new Set();
  #held = false;
  /** The last thread of the pages that were loaded, unless they are all. @type {Thread | undefined} */
  #last;
  /** @type {string[]} */
  #shown = [];
  #changed = 0;
  /** Whether something has changed since the order was found: a burst of changes is sorted once. */
  #stale = false;

  /** The ids of the threads, as they are shown. */
  get shown() {
    this.#settle();
    return this.#shown;
  }

  /** How many threads are not shown where they belong. */
  get changed() {
    this.#settle();
    return this.#changed;
  }

  /** Whether the server has more threads. */
  get partial() {
    return this.#last !== undefined;
  }

  get size() {
    return this.#threads.size - this.#gone.size;
  }

  /** @param {string} id */
  get(id) {
    return this.#threads.get(id);
  }

  /** Forgets everything. */
  clear() {
    this.#threads.clear();
    this.#last = undefined;
    this.apply();
  }

  /** Adds a page, in the order of the server. @param {Thread[]} threads @param {boolean} more Whether others follow. */
  add(threads, more) {
    const known = new Set(this.shown);
    for (const t of threads) this.#put(t);
    this.#last = more ? (threads.at(-1) ?? this.#last) : undefined;
    if (this.#held) this.#shown = [...this.#shown, ...threads.map((t) => t.id).filter((id) => !known.has(id))];
    this.#stale = true;
  }

  /** Replaces the beginning by a page that was read again. @param {Thread[]} threads @param {boolean} more */
  replaceFirst(threads, more) {
    const ids = new Set(threads.map((t) => t.id));
    const end = threads.at(-1);
    for (const [id, t] of this.#threads) if (!ids.has(id) && (!more || (end && byAttention(t, end) < 0))) this.#remove(id);
    for (const t of threads) {
      if (this.#threads.get(t.id)?.updatedAt !== t.updatedAt || this.#gone.has(t.id)) this.#touched.add(t.id);
      this.#put(t);
    }
    if (!more) this.#last = undefined;
    else if (this.#last && end && byAttention(this.#last, end) < 0) this.#last = end;
    this.#stale = true;
  }

  /**
   * Notes a change of a thread.
   * @param {Thread} t
   * @param {boolean} fits Whether it belongs to the list.
   */
  change(t, fits) {
    const before = this.#threads.get(t.id);
    if (!fits || (this.#last && byAttention(t, this.#last) > 0)) {
      if (before) this.#threads.set(t.id, t);
      this.#remove(t.id);
    } else {
      this.#put(t);
      this.#touched.add(t.id);
    }
    this.#stale = true;
  }

  /** Keeps rows where they are, or applies what has changed meanwhile. @param {boolean} held */
  hold(held) {
    if (held === this.#held) return;
    this.#settle();
    this.#held = held;
    if (held) this.#touched.clear();
    else this.apply();
  }

  /** Shows the threads where they belong now. */
  apply() {
    for (const id of this.#gone) this.#threads.delete(id);
    this.#gone.clear();
    this.#touched.clear();
    this.#shown = this.#sorted();
    this.#changed = 0;
    this.#stale = false;
  }

  /** @param {Thread} t */
  #put(t) {
    this.#threads.set(t.id, t);
    this.#gone.delete(t.id);
  }

  /** @param {string} id */
  #remove(id) {
    if (!this.#threads.has(id)) return;
    this.#gone.add(id);
    this.#touched.add(id);
  }

  #settle() {
    if (!this.#stale) return;
    this.#stale = false;
    if (!this.#held) return this.apply();
    const shown = new Set(this.#shown);
    for (const id of this.#gone) if (!shown.has(id)) this.#threads.delete(id) && this.#gone.delete(id);
    const sorted = this.#sorted();
    const before = this.#places(this.#shown);
    const after = this.#places(sorted);
    const moved = [...this.#touched].filter((id) => before.get(id) !== after.get(id)).length;
    // Threads may also have changed their places among those that have changed.
    this.#changed = moved || Number(sorted.some((id, i) => id !== this.#shown[i]));
  }

  /** The threads where they belong. They are nearly sorted already, which takes one pass. */
  #sorted() {
    const known = new Set(this.#shown);
    const threads = [...this.#shown, ...[...this.#threads.keys()].filter((id) => !known.has(id))];
    return threads
      .flatMap((id) => (this.#gone.has(id) ? [] : (this.#threads.get(id) ?? [])))
      .sort(byAttention)
      .map((t) => t.id);
  }

  /** After how many threads that have not changed each changed one comes. @param {string[]} ids */
  #places(ids) {
    /** @type {Map<string, number>} */
    const places = new Map();
    let unchanged = 0;
    for (const id of ids) {
      if (this.#touched.has(id)) places.set(id, unchanged);
      else unchanged++;
    }
    return places;
  }
}
