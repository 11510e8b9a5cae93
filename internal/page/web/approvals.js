// The list of what waits in all threads.

import { approvalCard } from "./approval.js";
import { isCovered } from "./dialog.js";
import { ago, fill, h, pretty } from "./dom.js";
import { inputCard } from "./input.js";
import { keysAreOn } from "./keyboard.js";
import { answered, decided } from "./outcome.js";
import { empty, failure, loading } from "./states.js";
import { waiting } from "./waiting.js";

/** @import { ApprovalCard } from "./approval.js" */
/** @import { InputCard } from "./input.js" */
/** @import { Waiting } from "./client/threadmill.js" */

/**
 * @typedef {object} Item
 * @property {HTMLElement} element
 * @property {(() => Promise<string>)} [outcome] What has become of the call.
 * @property {ApprovalCard | InputCard} [card]
 * @property {string} [how] What has become of it, once that is known.
 */

/** How often the list is read again, since the change of a thread may be told before the list has it. In milliseconds. */
const AGAIN = 15_000;

class Approvals extends HTMLElement {
  #timer = 0;
  /** What waits, by thread and call, and what the person writes about although it does not wait any more. @type {Map<string, Item>} */
  #waiting = new Map();
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
    this.list.addEventListener("dismissed", (e) => {
      for (const [key, { element }] of this.#waiting) {
        if (!element.contains(/** @type {Node} */ (e.target))) continue;
        this.#waiting.delete(key);
        element.remove();
      }
    });
    this.list.addEventListener("decided", (e) => {
      this.#decidedAt = this.#elements().findIndex((item) => item.contains(/** @type {Node} */ (e.target)));
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
    this.#show(this.#items(waiting.now));
  }

  /** The items of what waits now. @param {Waiting} now @returns {Map<string, Item>} */
  #items({ approvals, clientCalls, inputs }) {
    /** @type {Map<string, Item>} */
    const items = new Map();
    for (const { threadId, title, request } of approvals) {
      const key = JSON.stringify([threadId, request.toolCallId]);
      const known = this.#waiting.get(key);
      if (known) /** @type {ApprovalCard} */ (known.card).show(request);
      const card = /** @type {ApprovalCard} */ (known?.card ?? approvalCard(threadId, request));
      items.set(key, { element: known?.element ?? article(threadId, title, card), card, outcome: () => decided(threadId, request) });
    }
    for (const { threadId, title, request } of inputs) {
      const key = JSON.stringify([threadId, request.toolCallId, "input", request.round]);
      const card = inputCard(threadId, request);
      items.set(key, this.#waiting.get(key) ?? { element: article(threadId, title, card), card, outcome: () => answered(threadId, request) });
    }
    for (const { threadId, title, call } of clientCalls) {
      const key = JSON.stringify([threadId, call.toolCallId, "client"]);
      items.set(key, this.#waiting.get(key) ?? { element: article(threadId, title, clientCall(call)) });
    }
    return items;
  }

  /** @param {Map<string, Item>} now */
  #show(now) {
    const list = /** @type {HTMLElement} */ (this.list);
    const at = this.#decidedAt;
    const shown = [...now];
    let place = 0;
    for (const [key, item] of this.#waiting) {
      if (now.has(key)) place = shown.findIndex(([other]) => other === key) + 1;
      else if (!item.card?.end(item.how ?? "The call does not wait any more.")) item.element.remove();
      else {
        // What somebody writes about stays at its place.
        shown.splice(place++, 0, [key, item]);
        if (item.how === undefined) void this.#explain(item);
      }
    }
    this.#waiting = new Map(shown);
    shown.forEach(([, { element }], i) => {
      if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    });
    // The card on which the person decided is gone: the next one takes its place.
    if (at < 0 || list.querySelector(".decided:not([data-kept])")) return;
    this.#decidedAt = -1;
    if (document.activeElement === document.body) this.#focus(Math.min(at, shown.length - 1));
  }

  /** Says who has decided or answered meanwhile. @param {Item} item */
  async #explain(item) {
    try {
      item.how = await item.outcome?.();
      item.card?.end(item.how ?? "");
    } catch {
      return; // it says already that the call does not wait
    }
  }

  #elements() {
    return /** @type {HTMLElement[]} */ ([...(this.list?.children ?? [])]);
  }

  /** @param {number} i */
  #focus(i) {
    const card = /** @type {HTMLElement | null | undefined} */ (this.#elements()[i]?.querySelector(".approval"));
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select") || isCovered()) return;
    if ((e.key !== "j" && e.key !== "k") || !keysAreOn()) return;
    const items = this.#elements();
    const at = items.findIndex((card) => card.contains(document.activeElement));
    this.#focus(Math.max(0, Math.min(items.length - 1, at + (e.key === "j" ? 1 : -1))));
    e.preventDefault();
  }
}

/** @param {Waiting["clientCalls"][number]["call"]} call */
function clientCall(call) {
  return h(
    "section",
    { class: "approval", tabIndex: -1 },
    h("header", null, h("strong", null, call.agent), " waits for a connected client to run ", h("code", null, call.toolName)),
    h("pre", { class: "code args", tabIndex: 0 }, pretty(call.arguments)),
    h("p", { class: "hint" }, "Expires ", ago(call.expiresAt)),
  );
}

/** @param {string} threadId @param {string | undefined} title @param {HTMLElement} card */
function article(threadId, title, card) {
  return h(
    "article",
    { class: "waiting" },
    h("p", { class: "origin" }, h("a", { href: `#/threads/${encodeURIComponent(threadId)}` }, title || threadId)),
    card,
  );
}

customElements.define("tm-approvals", Approvals);
