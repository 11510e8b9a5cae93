// The arithmetic of a virtual list: the heights of its rows, measured or estimated, and what follows from them.

/** How many rows decide how far a change has moved what is in view: one of them may itself have moved in the list. */
const WITNESSES = 9;

export class Rows {
  /** @type {readonly string[]} */
  #keys = [];
  /** @type {Map<string, number>} */
  #index = new Map();
  /** The heights that were measured, also of rows that are not in the list now. @type {Map<string, number>} */
  #measured = new Map();
  #heights = new Float64Array();
  /** The tops of all rows, and the end of the last one. */
  #tops = new Float64Array(1);
  #stale = false;

  /** @param {number} estimate The height of a row that was not measured, in pixels. */
  constructor(estimate) {
    this.estimate = estimate;
  }

  get keys() {
    return this.#keys;
  }

  /** The height of all rows. */
  get total() {
    return this.top(this.#keys.length);
  }

  /** The place of a row in the list, or -1. @param {string} key */
  indexOf(key) {
    return this.#index.get(key) ?? -1;
  }

  /** The distance of a row from the top of the list. @param {number} index */
  top(index) {
    if (this.#stale) {
      this.#stale = false;
      for (let i = 0; i < this.#heights.length; i++) this.#tops[i + 1] = this.#tops[i] + this.#heights[i];
    }
    return this.#tops[index];
  }

  /** The row at a distance from the top of the list, or the nearest one. -1: there are no rows. @param {number} y */
  at(y) {
    this.top(0);
    let low = 0,
      high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#tops[middle + 1] > y) high = middle;
      else low = middle + 1;
    }
    return Math.min(low, this.#keys.length - 1);
  }

  /**
   * The rows between two distances from the top of the list, with those beside them: the first, and the one after the last.
   * @param {number} from @param {number} to
   * @returns {[number, number]}
   */
  range(from, to) {
    const first = this.at(from);
    if (first < 0 || to < 0 || from > this.total) return [0, 0];
    return [this.beside(first)[0], this.beside(this.at(to))[1]];
  }

  /** The rows that begin where a row does, because they are beside it: the first, and the one after the last. @param {number} index @returns {[number, number]} */
  beside(index) {
    const top = this.top(index);
    let first = index,
      end = index + 1;
    while (first > 0 && this.#tops[first - 1] === top) first--;
    while (end < this.#keys.length && this.#tops[end] === top) end++;
    return [first, end];
  }

  /**
   * Replaces the rows.
   * @param {readonly string[]} keys
   * @param {string} [anchor] A row in view.
   * @returns {number} How far what is in view has moved down.
   */
  set(keys, anchor) {
    const at = anchor === undefined ? -1 : this.indexOf(anchor);
    const before = at < 0 ? [] : this.#keys.slice(at, at + WITNESSES).map((key, i) => ({ key, top: this.top(at + i) }));
    this.#keys = keys;
    this.#index = new Map(keys.map((key, i) => [key, i]));
    this.#heights = Float64Array.from(keys, (key) => this.#measured.get(key) ?? this.estimate);
    this.#tops = new Float64Array(keys.length + 1);
    this.#stale = true;
    const moves = before
      .filter(({ key }) => this.#index.has(key))
      .map(({ key, top }) => this.top(this.indexOf(key)) - top)
      .sort((a, b) => a - b);
    return moves[moves.length >> 1] ?? 0;
  }

  /**
   * Notes the heights of rows.
   * @param {Iterable<[string, number]>} heights
   * @param {string} [anchor] A row in view.
   * @returns {number | undefined} How far what is in view has moved down; undefined: no height has changed.
   */
  measure(heights, anchor) {
    const at = anchor === undefined ? 0 : Math.max(0, this.indexOf(anchor));
    const before = this.top(at);
    let changed = false;
    for (const [key, height] of heights) {
      const index = this.indexOf(key);
      if (index < 0 || Math.abs(this.#heights[index] - height) < 0.1) continue;
      this.#heights[index] = height;
      this.#measured.set(key, height);
      changed = this.#stale = true;
    }
    return changed ? this.top(at) - before : undefined;
  }
}
