// The bar that finds text in a thread. The browser's own search sees only the lines near the window.

import { button, fill, h } from "./dom.js";

/** Marks a text in an element, in browsers that can do so without other elements. @param {Element | undefined} element @param {string} text */
export function markText(element, text) {
  if (!("highlights" in CSS)) return;
  const ranges = [];
  const texts = document.createTreeWalker(element ?? document.createElement("p"), NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const content = /** @type {Text} */ (node).data.toLowerCase();
    for (let at = content.indexOf(text.toLowerCase()); text !== "" && at >= 0; at = content.indexOf(text.toLowerCase(), at + text.length)) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + text.length, /** @type {Text} */ (node).data.length));
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

/** @typedef {"found" | "none" | "more"} Outcome What came of a search. more: it has ended at its limit. */

export class FindBar extends HTMLElement {
  /** Shows the next line with a text: an earlier one, or with a step of 1 a later one. It loads what is not loaded yet, up to a limit. @type {(text: string, step: 1 | -1, signal: AbortSignal) => Promise<Outcome>} */
  find = async () => "none";
  /** What happens when the bar was closed. */
  closed = () => {};

  #running = new AbortController();
  #input = h("input", { type: "search", "aria-label": "Find in this thread", placeholder: "Find in this thread", maxLength: 200 });
  #state = h("span", { class: "hint", role: "status" });

  connectedCallback() {
    this.setAttribute("role", "search");
    this.hidden = true;
    fill(
      this,
      this.#input,
      button("↑", () => this.#next(-1), { class: "quiet", "aria-label": "Earlier match", title: "Earlier (Enter)" }),
      button("↓", () => this.#next(1), { class: "quiet", "aria-label": "Later match", title: "Later (Shift+Enter)" }),
      button("×", () => this.#close(), { class: "quiet", "aria-label": "Close the search" }),
      this.#state,
    );
    this.addEventListener("keydown", (e) => {
      if (e.key === "Escape") this.#close();
      else if (e.key === "Enter" && e.target === this.#input && !e.repeat && !e.isComposing) this.#next(e.shiftKey ? 1 : -1);
      else return;
      e.preventDefault();
    });
  }

  disconnectedCallback() {
    this.#running.abort();
  }

  open() {
    this.hidden = false;
    this.#input.select();
    this.#input.focus();
  }

  #close() {
    this.#running.abort();
    this.hidden = true;
    fill(this.#state);
    this.closed();
  }

  /** @param {1 | -1} step */
  async #next(step) {
    this.#running.abort();
    const { signal } = (this.#running = new AbortController());
    const text = this.#input.value.trim();
    if (text === "") return;
    fill(this.#state, "Searching…");
    const outcome = await this.find(text, step, signal);
    if (signal.aborted) return;
    const none = step < 0 ? "Nothing earlier" : "Nothing later";
    fill(
      this.#state,
      outcome === "none" && none,
      outcome === "more" && [`${none} in the records that were loaded `, button("Search further", () => this.#next(step), { class: "quiet" })],
    );
  }
}

customElements.define("tm-find", FindBar);
