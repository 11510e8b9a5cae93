// Text that grows while it is read.

import { visible } from "./dom.js";

export class GrowingText {
  #element;
  #piece = document.createTextNode("");
  #written = "";

  /** @param {Element} element */
  constructor(element) {
    this.#element = element;
  }

  /** Shows a text. What it begins with is not built again. @param {string} text */
  show(text) {
    if (this.#piece.parentNode === this.#element && text.startsWith(this.#written)) this.#piece.appendData(visible(text.slice(this.#written.length)));
    else {
      this.#piece = document.createTextNode(visible(text));
      this.#element.replaceChildren(this.#piece);
    }
    this.#written = text;
  }
}
