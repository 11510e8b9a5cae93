// What a call reports while it runs.

import { h } from "./dom.js";

/** @import { Line } from "./timeline.js" */

export class ProgressView {
  element = h("pre", { class: "progress", tabIndex: 0, "aria-label": "Progress", hidden: true });
  /** How many pieces of progress were shown. */
  #shown = 0;

  /** Adds the pieces that are new. @param {Pick<Line, "progress" | "progressed">} line */
  show({ progress = [], progressed = 0 }) {
    const place = this.element;
    if (progressed === this.#shown) return;
    place.hidden = false;
    const added = progress.slice(Math.max(0, progress.length - (progressed - this.#shown)));
    place.append(...added.map((p) => h("span", { class: p.error ? "stderr" : undefined }, p.text)));
    while (place.childElementCount > progress.length) place.firstElementChild?.remove();
    this.#shown = progressed;
    place.scrollTop = place.scrollHeight;
  }
}
