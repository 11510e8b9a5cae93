// The end of the card of a call: it sends what a person says, and keeps what they typed when somebody else was first.

import { button, copyButton, fill, h } from "./dom.js";
import { guard } from "./leaving.js";
import { person } from "./person.js";

/**
 * The card that ends.
 * @typedef {object} Card
 * @property {HTMLElement} element
 * @property {HTMLElement} choices Has its buttons.
 * @property {() => boolean} typed Whether the person has typed something.
 * @property {() => boolean} [writes] Whether the person is about to type, or has typed something.
 * @property {() => void} forget Forgets what the person typed.
 * @property {() => string} [copy] What the person typed, to be copied.
 */

/** The line of a card that says why what was sent does not count, and how the call was settled elsewhere. */
export class CardEnd extends HTMLElement {
  #card;
  #sending = false;
  /** Whether the person is asked for their name, which what they say needs. */
  #asking = false;
  #over = false;
  /** How the call was settled elsewhere. */
  #how = h("span");
  #unguard = () => {};

  /** @param {Card} card */
  constructor(card) {
    super();
    this.#card = card;
    this.hidden = true;
  }

  connectedCallback() {
    this.classList.add("error");
    this.setAttribute("role", "alert");
    this.#unguard = guard(() => this.#card.typed());
  }

  disconnectedCallback() {
    this.#unguard();
  }

  get sending() {
    return this.#sending;
  }

  /** Whether the call was settled elsewhere, and the card is kept. */
  get over() {
    return this.#over;
  }

  /** Whether something would be lost with the card. */
  get keeps() {
    return this.#sending || this.#asking || this.#over || (this.#card.writes ?? this.#card.typed)();
  }

  /**
   * Sends what the person says, under their name. The card stays until there is an answer.
   * @template T
   * @param {(by: string) => Promise<T>} request @param {(answer: T) => void} [sent] Shows the answer.
   */
  async send(request, sent = () => this.decided()) {
    this.#asking = true;
    const by = await person().catch(() => ""); // who gives no name gives it up
    this.#asking = false;
    if (by === "" || this.#sending || this.#over) return;
    this.hidden = true;
    this.#wait(true);
    try {
      const answer = await request(by);
      this.#wait(false);
      this.#card.forget();
      sent(answer);
      this.#card.element.dispatchEvent(new CustomEvent("decided", { bubbles: true }));
      if (this.#how.hasChildNodes()) this.dismiss();
    } catch (error) {
      this.#wait(false);
      const why = /** @type {Error} */ (error).message;
      if (this.#how.hasChildNodes()) return this.#keep(why);
      this.hidden = false;
      fill(this, why);
    }
  }

  /** Shows that the call needs nothing more. */
  decided() {
    this.#card.element.classList.add("decided");
    fill(this.#card.choices);
  }

  /**
   * Says that the call needs nothing of this person any more. What they were typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    if (!this.keeps) return false;
    fill(this.#how, how);
    if (!this.#sending && !this.#over) this.#keep(this.#asking ? "What you chose was not sent." : "Nothing that you typed here was sent.");
    return true;
  }

  /** @param {string} why What the person said does not count. */
  #keep(why) {
    const { element, copy } = this.#card;
    this.#over = true;
    element.toggleAttribute("data-kept", true);
    element.classList.add("decided");
    this.#showChoices(false);
    this.hidden = false;
    fill(
      this,
      this.#how,
      ` ${why} `,
      copy && copyButton("Copy what you typed", copy),
      button("Close", () => this.dismiss()),
    );
  }

  /** The call needs the person after all: it was asked again. */
  reopen() {
    fill(this.#how);
    if (!this.#over) return;
    this.#over = false;
    const { element } = this.#card;
    element.removeAttribute("data-kept");
    element.classList.remove("decided");
    this.#showChoices(true);
    this.hidden = true;
  }

  dismiss() {
    const { element, forget } = this.#card;
    forget();
    this.reopen();
    element.dispatchEvent(new CustomEvent("dismissed", { bubbles: true }));
    element.remove();
  }

  /** @param {boolean} is Whether there is no answer yet. */
  #wait(is) {
    this.#sending = is;
    for (const control of this.#card.choices.querySelectorAll("button")) control.disabled = is;
  }

  /** @param {boolean} are */
  #showChoices(are) {
    for (const control of this.#card.choices.querySelectorAll("button")) control.hidden = !are;
  }
}

customElements.define("tm-card-end", CardEnd);
