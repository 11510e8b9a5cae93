// A list of which only the rows near the window are in the document. What is in view stays where it is while rows change,
// come and go.

import { h } from "./dom.js";
import { Rows } from "./rows.js";

/**
 * @typedef {object} VirtualListOptions
 * @property {HTMLElement} list The element whose children are the rows. They may have margins below, but none above.
 * @property {HTMLElement} scroller The element that scrolls, which is above the list.
 * @property {number} estimate The height of a row that was not shown yet, in pixels.
 * @property {number} overscan How far beyond the window there are rows, in pixels.
 * @property {(key: string) => HTMLElement} make Makes the element of a row.
 * @property {(element: HTMLElement, key: string) => void} show Shows the row as it is now.
 * @property {boolean} [log] Whether new rows come at the end, which stays in view while it is, and earlier ones at the beginning.
 * @property {boolean} [stateless] Whether rows show nothing that would be lost with them, so that those that a person has acted on need not stay.
 * @property {() => void} [moved] Is called when the person has scrolled.
 */

/** How near the end, in pixels, new rows keep it in view. */
const NEAR = 80;

/** How long nobody scrolls, in milliseconds, until the scroll position is corrected. Correcting it earlier would stop a scroll in progress. */
const REST = 150;

/** How often rows are added because those before were lower than estimated. */
const PASSES = 6;

/** The most rows of a selection that stay. */
const SELECTED = 500;

export class VirtualList {
  #options;
  #rows;
  /** Whether rows follow, or precede, those that are known. */
  #partial = false;
  /** @type {Map<string, HTMLElement>} */
  #elements = new Map();
  /** @type {WeakMap<Node, string>} */
  #keys = new WeakMap();
  /** The empty space before a row, and after the last one. @type {Map<string, HTMLElement>} */
  #spaces = new Map();
  #end;
  /** The rows in the document, in order. @type {string[]} */
  #shown = [];
  /** Rows that the person has acted on: what is open in them, or was written, stays. @type {Set<string>} */
  #touched = new Set();
  /** A row in view, which stays where it is. @type {string | undefined} */
  #anchor;
  /** How much further down the rows are than their heights say. */
  #drift = 0;
  /** The scroll position that was set here, and not by a person. */
  #set = 0;
  #resting = 0;
  #frame = 0;
  #over = new AbortController();

  /** @param {VirtualListOptions} options */
  constructor(options) {
    this.#options = options;
    this.#rows = new Rows(options.estimate);
    /** Whether the end stays in view once it is. */
    this.follows = options.log === true;
    /** Whether it is. */
    this.stuck = this.follows;
    const { list, scroller } = options;
    const { signal } = this.#over;
    scroller.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    const touch = (/** @type {Event} */ e) => {
      const target = /** @type {Element} */ (e.target);
      if (e.type === "click" && !target.closest("summary, button, input, textarea, select")) return;
      const key = this.keyOf(target) ?? "";
      this.#touched.add(key);
      if (this.#anchor !== undefined) this.#anchor = key;
    };
    if (!options.stateless) for (const type of ["click", "input"]) list.addEventListener(type, touch, { signal });
    this.resized = new ResizeObserver(() => {
      this.#measure();
      this.#stick();
      this.refresh();
    });
    this.resized.observe(scroller);
    this.#end = spaceIn(list);
    list.replaceChildren(this.#end);
  }

  stop() {
    this.#over.abort();
    this.resized.disconnect();
    clearTimeout(this.#resting);
    cancelAnimationFrame(this.#frame);
  }

  get length() {
    return this.#rows.keys.length;
  }

  /** Replaces the rows. @param {readonly string[]} keys @param {boolean} [partial] Whether there are more, that are not known yet. */
  set(keys, partial = false) {
    this.#partial = partial;
    this.#shift(this.#rows.set(keys, this.#anchor));
    this.render();
  }

  /** Renders with the next frame. */
  refresh() {
    this.#frame ||= requestAnimationFrame(() => this.render());
  }

  /** Shows what is near the window as it is now. */
  render() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    for (let i = 0; i < PASSES; i++) {
      this.#build();
      const changed = this.#measure();
      this.#stick();
      if (!changed) return;
    }
  }

  /** Shows the end, and keeps it in view. */
  toEnd() {
    this.stuck = true;
    this.#anchor = undefined;
    this.render();
  }

  /** Shows a row in the middle of the window, and keeps it there. @param {string} key @returns {HTMLElement | undefined} */
  show(key) {
    const index = this.#rows.indexOf(key);
    if (index < 0) return undefined;
    const { list, scroller } = this.#options;
    this.stuck = false;
    this.#anchor = key;
    this.#drift = 0;
    this.#space();
    this.#scrollTo(
      scroller.scrollTop + list.getBoundingClientRect().top - scroller.getBoundingClientRect().top + this.#rows.top(index) - scroller.clientHeight / 2,
    );
    this.render();
    this.#settle();
    const element = this.#elements.get(key);
    element?.scrollIntoView({ block: "center" });
    this.#set = scroller.scrollTop;
    this.render();
    return element;
  }

  /** Scrolls as little as needed to have a row in view. @param {string} key @returns {HTMLElement | undefined} */
  reveal(key) {
    const index = this.#rows.indexOf(key);
    if (index < 0) return undefined;
    const { scroller } = this.#options;
    const { top, bottom } = this.#window;
    const above = this.#rows.top(index) - top,
      below = this.#rows.top(index + 1) - bottom;
    if (above < 0 || below > 0) this.#scrollTo(scroller.scrollTop + (above < 0 ? above : below));
    this.render();
    return this.#elements.get(key);
  }

  /** The row that a node is in. @param {Node | null} node */
  keyOf(node) {
    while (node && node.parentNode !== this.#options.list) node = node.parentNode;
    return node ? this.#keys.get(node) : undefined;
  }

  /** Where the window is in the list, by the heights of the rows. */
  get #window() {
    const { list, scroller } = this.#options;
    const top = scroller.getBoundingClientRect().top - list.getBoundingClientRect().top - this.#drift;
    return { top, bottom: top + scroller.clientHeight };
  }

  #scrolled() {
    const { scroller, log, moved } = this.#options;
    if (Math.abs(scroller.scrollTop - this.#set) >= 1) {
      const up = scroller.scrollTop < this.#set;
      this.#set = scroller.scrollTop;
      this.stuck = this.follows && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
      const { top, bottom } = this.#window;
      const inList = log || (top > 0 && top < this.#rows.total); // at the beginning, new rows are to be seen
      // The rows that come into view may still change. They move what has yet to come, and not what is there.
      this.#anchor = inList && !this.stuck ? this.#rows.keys[this.#rows.at(up ? bottom - 1 : top)] : undefined;
      this.#rest();
    }
    this.render();
    moved?.();
  }

  /** The places of the rows that are in the document: those near the window and those that a person uses. */
  #wanted() {
    const { overscan, scroller } = this.#options;
    const { total } = this.#rows;
    const { top, bottom } = this.stuck ? { top: total - scroller.clientHeight, bottom: total } : this.#window;
    const [first, end] = this.#rows.range(top - overscan, bottom + overscan);
    /** @type {Set<number>} */
    const wanted = new Set();
    /** @param {number} from @param {number} to */
    const add = (from, to) => {
      for (let i = from; i < to; i++) wanted.add(i);
    };
    add(first, end);
    for (const key of [...this.#touched, this.keyOf(document.activeElement), ...this.#selected()]) {
      const index = this.#rows.indexOf(key ?? "");
      if (index >= 0) add(...this.#rows.beside(index)); // a row without those beside it would have another height
    }
    return [...wanted].sort((a, b) => a - b);
  }

  /** The rows of the selection, or its ends if it is long. */
  #selected() {
    const selection = getSelection();
    if (!selection || selection.isCollapsed) return [];
    const ends = [selection.anchorNode, selection.focusNode].map((node) => this.#rows.indexOf(this.keyOf(node) ?? "")).sort((a, b) => a - b);
    if (ends[1] < 0) return [];
    const first = Math.max(ends[0], 0);
    return ends[1] - first > SELECTED ? [this.#rows.keys[first], this.#rows.keys[ends[1]]] : this.#rows.keys.slice(first, ends[1] + 1);
  }

  /** Puts the wanted rows into the document, with space where others are. */
  #build() {
    const { list, make, show } = this.#options;
    const wanted = this.#wanted();
    const keys = wanted.map((i) => this.#rows.keys[i]);
    const stay = new Set(keys);
    for (const [key, element] of this.#elements) {
      if (stay.has(key)) continue;
      this.resized.unobserve(element);
      element.remove();
      this.#elements.delete(key);
    }
    /** @type {Map<string, HTMLElement>} */
    const spaces = new Map();
    /** @type {HTMLElement[]} */
    const children = [];
    keys.forEach((key, i) => {
      if (i === 0 || wanted[i - 1] !== wanted[i] - 1) {
        const space = this.#spaces.get(key) ?? spaceIn(list);
        spaces.set(key, space);
        children.push(space);
      }
      let element = this.#elements.get(key);
      if (!element) {
        element = make(key);
        this.#elements.set(key, element);
        this.#keys.set(element, key);
        this.resized.observe(element);
      } else show(element, key);
      attribute(element, "aria-posinset", String(wanted[i] + 1));
      attribute(element, "aria-setsize", this.#partial ? "-1" : String(this.#rows.keys.length));
      children.push(element);
    });
    for (const [key, space] of this.#spaces) if (!spaces.has(key)) space.remove();
    this.#spaces = spaces;
    this.#shown = keys;
    arrange(list, [...children, this.#end]);
    this.#space(); // before the browser lays it out: it would cut the scroll position to what there is
  }

  /** Measures the rows in the document. @returns {boolean} Whether the height of any has changed. */
  #measure() {
    if (this.#options.scroller.clientHeight === 0) return false; // it is not shown now; the observer tells when it is
    /** @type {[string, number][]} */
    const heights = [];
    for (const [key, element] of this.#elements) {
      const next = element.nextElementSibling;
      if (next) heights.push([key, next.getBoundingClientRect().top - element.getBoundingClientRect().top]);
    }
    const shift = this.#rows.measure(heights, this.#anchor);
    if (shift === undefined) return false;
    this.#shift(shift);
    this.#space();
    return true;
  }

  /** Keeps what is in view where it is after it has moved down in the list. @param {number} shift */
  #shift(shift) {
    if (this.#anchor === undefined || shift === 0) return;
    this.#drift -= shift;
    if (!this.#resting) this.#rest();
  }

  /** Corrects the scroll position once nobody has scrolled for a while. */
  #rest() {
    clearTimeout(this.#resting);
    this.#resting = window.setTimeout(() => {
      this.#resting = 0;
      this.#settle();
    }, REST);
  }

  /** Gives the space between the rows its height. */
  #space() {
    if (this.stuck) this.#drift = 0;
    /** @type {[HTMLElement, number][]} */
    const sizes = [];
    let above = -this.#drift;
    for (const key of this.#shown) {
      const index = this.#rows.indexOf(key);
      const space = this.#spaces.get(key);
      if (space) sizes.push([space, this.#rows.top(index) - above]);
      above = this.#rows.top(index + 1);
    }
    sizes.push([this.#end, this.#rows.total - above]);
    if (sizes[0][1] < 0) return this.#settle();
    for (const [space, height] of sizes) space.style.height = `${height}px`;
  }

  /** Keeps the end in view. */
  #stick() {
    if (this.stuck) this.#scrollTo(this.#options.scroller.scrollHeight);
  }

  /** Corrects the scroll position by what the rows are too far down. */
  #settle() {
    if (this.#drift === 0) return;
    const to = this.#options.scroller.scrollTop - this.#drift;
    this.#drift = 0;
    this.#space();
    this.#scrollTo(to);
    this.refresh(); // at an end of the list, the scroll position may be the same, and other rows in view
  }

  /** @param {number} top */
  #scrollTo(top) {
    const { scroller } = this.#options;
    scroller.scrollTop = top;
    this.#set = scroller.scrollTop;
  }
}

/** @param {HTMLElement} list */
function spaceIn(list) {
  return h(list.localName === "ul" ? "li" : "div", { "aria-hidden": "true" });
}

/** @param {Element} element @param {string} name @param {string} value */
function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * Makes the children of an element those of a list, which all others have left already.
 * @param {Element & { moveBefore?: (node: Node, before: Node | null) => void }} parent @param {Element[]} children
 */
export function arrange(parent, children) {
  let at = parent.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else if (child.parentNode === parent && parent.moveBefore)
      parent.moveBefore(child, at); // it keeps the focus
    else parent.insertBefore(child, at);
  }
}
