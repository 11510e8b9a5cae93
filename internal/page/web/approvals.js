// The list of what waits in all threads.

import { approvalCard } from "./approval.js";
import { ago, fill, h, pretty } from "./dom.js";
import { inputCard } from "./input.js";
import { keysAreOn } from "./keyboard.js";
import { empty, failure, loading } from "./states.js";
import { waiting } from "./waiting.js";

/** @import { ApprovalCard } from "./approval.js" */

/** How often the list is read again, since the change of a thread may be told before the list has it. In milliseconds. */
const AGAIN = 15_000;

class Approvals extends HTMLElement {
  #timer = 0;
  /** The cards, by thread and call. @type {Map<string, HTMLElement>} */
  #cards = new Map();
  /** The place of the card on which a decision was made last, until the next one has the focus. */
  #decidedAt = -1;

  connectedCallback() {
    this.list = h("div", { class: "cards" });
    this.state = h("div", { class: "hint", role: "status" }, loading());
    fill(
      this,
      h(
        "header",
        { class: "page-header" },
        h("h1", null, "Approvals"),
        h(
          "p",
          { class: "hint keys" },
          h("kbd", null, "j"),
          " ",
          h("kbd", null, "k"),
          " move · ",
          h("kbd", null, "a"),
          " approve · ",
          h("kbd", null, "s"),
          " for session · ",
          h("kbd", null, "p"),
          " pattern · ",
          h("kbd", null, "e"),
          " edit · ",
          h("kbd", null, "d"),
          " deny",
        ),
      ),
      this.state,
      this.list,
    );
    this.changed = () => this.#answered();
    waiting.addEventListener("change", this.changed);
    this.keys = (/** @type {KeyboardEvent} */ e) => this.#key(e);
    document.addEventListener("keydown", this.keys);
    this.list.addEventListener("dismissed", (e) => /** @type {Element} */ (e.target).closest(".waiting")?.remove());
    this.list.addEventListener("decided", (e) => {
      this.#decidedAt = this.#items().findIndex((item) => item.contains(/** @type {Node} */ (e.target)));
      waiting.refresh();
    });
    if (waiting.now || waiting.error) {
      // otherwise the first answer is on its way: see inbox.js
      this.#answered();
      waiting.refresh();
    }
    this.#timer = window.setInterval(() => waiting.refresh(), AGAIN);
  }

  disconnectedCallback() {
    waiting.removeEventListener("change", /** @type {() => void} */ (this.changed));
    document.removeEventListener("keydown", /** @type {(e: KeyboardEvent) => void} */ (this.keys));
    clearInterval(this.#timer);
  }

  #answered() {
    if (waiting.error) {
      const failed = failure(waiting.error, () => waiting.refresh());
      return fill(/** @type {Element} */ (this.state), failed);
    }
    if (!waiting.now) return;
    const { approvals, clientCalls, inputs, unanswered } = waiting.now;
    fill(
      /** @type {Element} */ (this.state),
      approvals.length + clientCalls.length + inputs.length === 0
        ? empty("Nothing waits for you.", "Calls of tools that need a person's approval or input appear here, from all threads.")
        : `${approvals.length} ${approvals.length === 1 ? "call waits" : "calls wait"} for a decision.`,
      inputs.length > 0 && ` ${inputs.length} ${inputs.length === 1 ? "call asks" : "calls ask"} for input.`,
      unanswered && unanswered.length > 0 && ` ${unanswered.length} threads did not answer.`,
    );
    /** @type {Map<string, HTMLElement>} */
    const cards = new Map();
    for (const { threadId, title, request } of approvals) {
      const key = JSON.stringify([threadId, request.toolCallId, request.round]);
      const known = this.#cards.get(key);
      if (known) /** @type {ApprovalCard} */ (known.querySelector("tm-approval")).show(request);
      cards.set(key, known ?? item(threadId, title, approvalCard(threadId, request)));
    }
    for (const { threadId, title, request } of inputs) {
      const key = JSON.stringify([threadId, request.toolCallId, "input", request.round]);
      cards.set(key, this.#cards.get(key) ?? item(threadId, title, inputCard(threadId, request)));
    }
    for (const { threadId, title, call } of clientCalls) {
      const key = JSON.stringify([threadId, call.toolCallId]);
      cards.set(
        key,
        this.#cards.get(key) ??
          item(
            threadId,
            title,
            h(
              "section",
              { class: "approval", tabIndex: -1 },
              h("header", null, h("strong", null, call.agent), " waits for a connected client to run ", h("code", null, call.toolName)),
              h("pre", { class: "code args", tabIndex: 0 }, pretty(call.arguments)),
              h("p", { class: "hint" }, "Expires ", ago(call.expiresAt)),
            ),
          ),
      );
    }
    this.#show(cards);
  }

  /** @param {Map<string, HTMLElement>} cards */
  #show(cards) {
    const list = /** @type {HTMLElement} */ (this.list);
    const at = this.#decidedAt;
    for (const [key, card] of this.#cards) {
      const approval = /** @type {ApprovalCard | null} */ (card.querySelector("tm-approval"));
      if (!cards.has(key) && !approval?.end("The call was decided elsewhere, or is not needed any more.")) card.remove();
    }
    this.#cards = cards;
    [...cards.values()].forEach((card, i) => {
      if (list.children[i] !== card) list.insertBefore(card, list.children[i] ?? null);
    });
    // The card on which the person decided is gone: the next one takes its place.
    if (at < 0 || list.querySelector(".decided:not([data-kept])")) return;
    this.#decidedAt = -1;
    if (document.activeElement === document.body) this.#focus(Math.min(at, cards.size - 1));
  }

  #items() {
    return /** @type {HTMLElement[]} */ ([...(this.list?.children ?? [])]);
  }

  /** @param {number} i */
  #focus(i) {
    const card = /** @type {HTMLElement | null | undefined} */ (this.#items()[i]?.querySelector(".approval"));
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
    if ((e.key !== "j" && e.key !== "k") || !keysAreOn()) return;
    const items = this.#items();
    const at = items.findIndex((card) => card.contains(document.activeElement));
    this.#focus(Math.max(0, Math.min(items.length - 1, at + (e.key === "j" ? 1 : -1))));
    e.preventDefault();
  }
}

/** @param {string} threadId @param {string | undefined} title @param {HTMLElement} card */
function item(threadId, title, card) {
  return h(
    "article",
    { class: "waiting" },
    h("p", { class: "origin" }, h("a", { href: `#/threads/${encodeURIComponent(threadId)}` }, title || threadId)),
    card,
  );
}

customElements.define("tm-approvals", Approvals);
