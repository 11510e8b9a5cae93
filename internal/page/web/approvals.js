// The list of what waits in all threads.

import { ApprovalCard, approvalCard } from "./approval.js";
import { ClientCard } from "./clientcard.js";
import { isCovered } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { InputCard } from "./input.js";
import { keysAreOn } from "./keyboard.js";
import { goTo } from "./leaving.js";
import { outcomeOf } from "./outcome.js";
import { renew } from "./renew.js";
import { may } from "./session.js";
import { empty, failure, loading } from "./states.js";
import { arrange } from "./virtuallist.js";
import { waiting } from "./waiting.js";
import { entriesOf, groupOf, ordered, SHOWN, windowFrom } from "./waitinglist.js";

/** @import { Waiting } from "./client/threadmill.js" */
/** @import { Entry, Grouping } from "./waitinglist.js" */

/** @typedef {ApprovalCard | InputCard | ClientCard} Card */
/** @typedef {{ element: HTMLElement, origin: HTMLElement, card: Card }} Item The place of an entry, and its card. */

/** How often the list is read again, since the change of a thread may be told before the list has it. In milliseconds. */
const AGAIN = 15_000;

/** What this browser keeps: by what the calls are grouped. */
const GROUPING = "threadmill.approvals.grouping";

class Approvals extends HTMLElement {
  #timer = 0;
  /** What is listed, in order. @type {Entry[]} */
  #entries = [];
  /** What is in the document. @type {Map<string, Item>} */
  #items = new Map();
  /** The headings of groups in the document. @type {Map<string, HTMLElement>} */
  #headings = new Map();
  /** The entries that no longer wait, whose card has what the person typed. @type {Set<string>} */
  #kept = new Set();
  /** The first entry that is shown. */
  #from = 0;
  /** The place of the card on which a decision was made last, until the next one has the focus. */
  #decidedAt = -1;
  #by = /** @type {Grouping} */ (localStorage.getItem(GROUPING) === "call" ? "call" : "thread");

  connectedCallback() {
    this.list = h("div", { class: "cards" });
    this.state = h("div", { class: "hint", role: "status" }, loading());
    this.earlier = button("", () => this.#show(this.#entries[Math.max(0, this.#from - SHOWN)].key), { hidden: true });
    this.later = button("", () => this.#show(this.#entries[this.#from + SHOWN].key), { hidden: true });
    const keys = [
      ["j", ""],
      ["k", "move"],
      ["Enter", "open the thread"],
      ["a", "approve"],
      ["s", "for session"],
      ["p", "pattern"],
      ["e", "edit"],
      ["d", "deny"],
    ];
    const grouping = h(
      "select",
      {
        onchange: () => {
          this.#by = /** @type {Grouping} */ (grouping.value);
          localStorage.setItem(GROUPING, this.#by);
          this.#answered();
        },
      },
      h("option", { value: "thread" }, "thread"),
      h("option", { value: "call" }, "equal calls"),
    );
    grouping.value = this.#by;
    fill(
      this,
      h(
        "header",
        { class: "page-header" },
        h("h1", null, "Approvals"),
        h(
          "p",
          { class: "hint keys" },
          keys.flatMap(([key, label], i) => [h("kbd", null, key), ` ${label}`, label !== "" && i < keys.length - 1 && " · "]),
        ),
      ),
      h("div", { class: "row" }, this.state, h("label", { class: "row grouping" }, "Group by", grouping)),
      this.earlier,
      this.list,
      this.later,
    );
    this.changed = () => this.#answered();
    waiting.addEventListener("change", this.changed);
    this.keys = (/** @type {KeyboardEvent} */ e) => this.#key(e);
    document.addEventListener("keydown", this.keys);
    this.list.addEventListener("dismissed", (e) => this.#dismissed(/** @type {Node} */ (e.target)));
    this.list.addEventListener("decided", (e) => {
      this.#decidedAt = this.#indexOf(/** @type {Node} */ (e.target));
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
    this.#showState(waiting.now);
    this.#list(entriesOf(waiting.now));
  }

  /** @param {Waiting} waiting */
  #showState({ approvals, clientCalls, inputs, more }) {
    fill(
      /** @type {Element} */ (this.state),
      approvals.length + clientCalls.length + inputs.length === 0
        ? empty("Nothing waits for you.", "Calls of tools that need a person's approval or input appear here, from all threads.")
        : `${approvals.length} ${approvals.length === 1 ? "call waits" : "calls wait"} for a decision.`,
      inputs.length > 0 && ` ${inputs.length} ${inputs.length === 1 ? "call asks" : "calls ask"} for input.`,
      more && " More wait than one list can hold: they appear as these are decided.",
    );
  }

  /** Lists what waits, and what is kept. @param {Entry[]} now */
  #list(now) {
    const waits = new Set(now.map((e) => e.key));
    for (const key of this.#kept) if (waits.has(key)) this.#kept.delete(key);
    this.#entries.forEach((entry, i) => {
      const item = this.#items.get(entry.key);
      if (!item || waits.has(entry.key) || this.#kept.has(entry.key)) return;
      if (item.card.end("It was decided elsewhere, or is not needed any more.")) this.#keep(entry, item.card);
      else if (item.element.contains(document.activeElement)) this.#decidedAt = i;
    });
    this.#entries = ordered(now, this.#entries, this.#kept, this.#by);
    this.#draw();
    this.#goOn();
  }

  /** Gives the focus to the card that takes the place of the one on which the person decided, once that is gone. */
  #goOn() {
    const at = this.#decidedAt;
    if (at < 0 || this.list?.querySelector(".decided:not([data-kept])")) return;
    this.#decidedAt = -1;
    if (document.activeElement?.matches("body, #main")) this.#focus(Math.min(at, this.#entries.length - 1));
  }

  /** Keeps a card with what the person typed, and says how the call was settled. @param {Entry} entry @param {Card} card */
  async #keep(entry, card) {
    this.#kept.add(entry.key);
    if (entry.kind === "client") return;
    const how = await outcomeOf(entry.kind, entry.threadId, entry.request).catch(() => undefined);
    if (how && this.#kept.has(entry.key)) card.end(how);
  }

  /** @param {Node} target */
  #dismissed(target) {
    const at = this.#indexOf(target);
    if (at < 0) return;
    this.#kept.delete(this.#entries[at].key);
    this.#entries = this.#entries.toSpliced(at, 1);
    this.#decidedAt = at;
    this.#draw();
    this.#goOn();
  }

  /** Puts the cards near the person into the document, and those that have what they typed. */
  #draw() {
    const total = this.#entries.length;
    this.#from = Math.max(0, Math.min(this.#from, total - SHOWN));
    /** @type {Map<string, Item>} */
    const items = new Map();
    /** @type {Map<string, HTMLElement>} */
    const headings = new Map();
    /** @type {HTMLElement[]} */
    const children = [];
    /** @type {Map<string, number>} */
    const sizes = new Map();
    const groups = this.#entries.map((entry) => groupOf(entry, this.#by));
    for (const group of groups) sizes.set(group, (sizes.get(group) ?? 0) + 1);
    this.#entries.forEach((entry, i) => {
      let item = this.#items.get(entry.key);
      if ((i < this.#from || i >= this.#from + SHOWN) && !item?.card?.open) return;
      if (!item) item = itemOf(entry);
      else if (entry.kind === "approval" && item.card instanceof ApprovalCard && !this.#kept.has(entry.key)) item.card.show(entry.request);
      item.origin.hidden = this.#by === "thread";
      items.set(entry.key, item);
      const group = groups[i];
      if (!headings.has(group)) {
        const heading = this.#headings.get(group) ?? h("div", { class: "call-group row" });
        const size = sizes.get(group) ?? 0;
        this.#head(heading, entry, size);
        headings.set(group, heading);
        children.push(heading);
      }
      children.push(item.element);
    });
    const list = /** @type {HTMLElement} */ (this.list);
    /** @type {Set<Element>} */
    const stay = new Set(children);
    for (const child of [...list.children]) if (!stay.has(child)) child.remove();
    this.#items = items;
    this.#headings = headings;
    arrange(list, children);
    const after = total - this.#from - SHOWN;
    const [earlier, later] = /** @type {HTMLElement[]} */ ([this.earlier, this.later]);
    earlier.hidden = this.#from === 0;
    later.hidden = after <= 0;
    fill(earlier, `Show ${Math.min(SHOWN, this.#from)} of ${this.#from} earlier calls`);
    fill(later, `Show ${Math.min(SHOWN, after)} of ${after} more calls`);
  }

  /** Shows what a group has in common. @param {HTMLElement} heading @param {Entry} entry One of the group. @param {number} size */
  #head(heading, entry, size) {
    const byCall = this.#by === "call";
    const calls = byCall && may("approve") ? this.#equal(entry).length : 0;
    renew(
      heading,
      h(
        "h2",
        null,
        byCall ? h("code", null, entry.request.toolName) : threadLink(entry.threadId, entry.name),
        size > 1 && h("span", { class: "hint" }, byCall ? ` ${size} equal calls` : ` ${size} calls`),
      ),
      calls > 1 && [
        button(`Approve all ${calls}…`, () => this.#decideAll("approve", entry), { name: "approve" }),
        button(`Deny all ${calls}…`, () => this.#decideAll("deny", entry), { name: "deny", class: "danger" }),
      ],
    );
  }

  /** The calls that wait for a decision and are equal to one. @param {Entry} one */
  #equal(one) {
    const group = groupOf(one, "call");
    return this.#entries.filter((e) => e.kind === "approval").filter((e) => !this.#kept.has(e.key) && groupOf(e, "call") === group);
  }

  /** Decides on all calls that are equal to one. @param {"approve" | "deny"} decision @param {Entry} one */
  async #decideAll(decision, one) {
    const { decideAll } = await import("./equalcalls.js");
    if (await decideAll(decision, this.#equal(one))) waiting.refresh();
  }

  /** Shows the cards around one, which gets the focus. @param {string} key */
  #show(key) {
    this.#focus(this.#entries.findIndex((e) => e.key === key));
  }

  /** The place of the entry in whose card a node is. @param {Node | null} node */
  #indexOf(node) {
    return this.#entries.findIndex((e) => this.#items.get(e.key)?.element.contains(node));
  }

  /** @param {number} i */
  #focus(i) {
    const entry = this.#entries[i];
    if (!entry) return;
    const from = windowFrom(this.#from, i, this.#entries.length);
    if (from !== this.#from || !this.#items.has(entry.key)) {
      this.#from = from;
      this.#draw();
    }
    const card = /** @type {HTMLElement | null | undefined} */ (this.#items.get(entry.key)?.element.querySelector(".approval"));
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select") || isCovered()) return;
    const at = this.#indexOf(document.activeElement);
    if (e.key === "Enter" && !e.repeat && at >= 0 && target.matches(".approval")) {
      e.preventDefault();
      goTo(threadAddress(this.#entries[at].threadId));
      return;
    }
    if ((e.key !== "j" && e.key !== "k") || !keysAreOn()) return;
    this.#focus(Math.max(0, Math.min(this.#entries.length - 1, at + (e.key === "j" ? 1 : -1))));
    e.preventDefault();
  }
}

/** @param {string} id */
const threadAddress = (id) => `#/threads/${encodeURIComponent(id)}`;

/** @param {string} id @param {string} name */
const threadLink = (id, name) => h("a", { href: threadAddress(id) }, name);

/** @param {Entry} entry */
function cardOf({ kind, threadId, request }) {
  switch (kind) {
    case "approval":
      return approvalCard(threadId, request);
    case "input":
      return new InputCard(threadId, request);
    case "client":
      return new ClientCard(threadId, request);
  }
}

/** @param {Entry} entry @returns {Item} */
function itemOf(entry) {
  const card = cardOf(entry);
  const origin = h("p", { class: "origin" }, threadLink(entry.threadId, entry.name));
  return { element: h("article", { class: "waiting" }, origin, card instanceof ApprovalCard ? card : card.element), origin, card };
}

customElements.define("tm-approvals", Approvals);
