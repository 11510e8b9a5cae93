// What waits for its turn: each event with what a person can do about it.

import { confirmed } from "./dialog.js";
import { act, button, cut, fill, h } from "./dom.js";
import { person } from "./person.js";
import { moved } from "./queueorder.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["QueueItem"]} QueueItem */

/** The most events that are shown; the others are counted. */
const MAX_SHOWN = 50;

/** The text of an event of the queue. @param {QueueItem} item */
export function itemText(item) {
  const { content } = /** @type {{ content?: unknown }} */ (item.payload ?? {});
  return typeof content === "string" ? content : item.type;
}

/** Who sent an event. @param {QueueItem} item */
function sender(item) {
  const { senderId } = /** @type {{ senderId?: unknown }} */ (item.payload ?? {});
  return typeof senderId === "string" ? senderId : "";
}

export class Queue extends HTMLElement {
  threadId = "";
  /** Is called after each change that a person has made. */
  changed = () => {};

  /** @type {QueueItem[]} */
  #items = [];
  /** The elements of the events, which keep the focus. @type {Map<string, HTMLElement>} */
  #rows = new Map();
  /** The event of each element. @type {WeakMap<Element, string>} */
  #ids = new WeakMap();
  #list = h("ol", { class: "queued" });
  #title = h("h2");
  #status = h("p", { class: "unseen", role: "status" });

  connectedCallback() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Queue");
    this.hidden = this.#items.length === 0;
    fill(this, this.#title, this.#list, this.#status);
    this.#list.addEventListener("keydown", (e) => this.#key(e));
  }

  /** Shows the events that wait, the next one first. @param {QueueItem[]} items */
  show(items) {
    const focused = document.activeElement;
    this.#items = items;
    this.hidden = items.length === 0;
    fill(this.#title, `Queued (${items.length})`);
    const rows = items.slice(0, MAX_SHOWN).map((item) => this.#row(item));
    this.#rows = new Map(rows.map((row, i) => [items[i].id, row]));
    fill(this.#list, rows, items.length > MAX_SHOWN && h("li", { class: "hint" }, `… and ${items.length - MAX_SHOWN} more`));
    if (focused !== document.activeElement && this.contains(focused)) /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
  }

  /** @param {QueueItem} item */
  #row(item) {
    const known = this.#rows.get(item.id);
    if (known) return known;
    const text = itemText(item);
    const name = `“${cut(text, 40)}”`;
    const row = h(
      "li",
      { tabIndex: 0, "aria-keyshortcuts": may("operate") ? "Alt+ArrowUp Alt+ArrowDown Delete" : undefined },
      h("p", { class: "queued-text" }, h("strong", null, sender(item) || item.type), " ", cut(text, 600)),
      may("operate") &&
        h(
          "span",
          { class: "queued-actions" },
          button("↑", () => this.#move(item.id, -1), { class: "quiet", title: "Earlier (Alt+↑)", "aria-label": `Move ${name} up` }),
          button("↓", () => this.#move(item.id, 1), { class: "quiet", title: "Later (Alt+↓)", "aria-label": `Move ${name} down` }),
          button("Drop…", () => this.#drop(item), { class: "quiet danger", title: "Drop (Delete)", "aria-label": `Drop ${name}` }),
        ),
    );
    this.#ids.set(row, item.id);
    return row;
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const row = /** @type {Element} */ (e.target).closest("li");
    const item = this.#items.find(({ id }) => row && id === this.#ids.get(row));
    if (!item || e.repeat || !may("operate") || e.ctrlKey || e.metaKey || e.shiftKey) return;
    if (e.altKey && e.key === "ArrowUp") this.#move(item.id, -1);
    else if (e.altKey && e.key === "ArrowDown") this.#move(item.id, 1);
    else if (!e.altKey && e.key === "Delete") this.#drop(item);
    else return;
    e.preventDefault();
  }

  /** @param {string} id @param {1 | -1} by */
  async #move(id, by) {
    await act(null, async () => {
      const who = await person();
      const from = this.#items.findIndex((item) => item.id === id);
      const to = from + by;
      if (from < 0 || to < 0 || to >= this.#items.length) return;
      for (const { id: eventId, priority } of moved(this.#items, from, to)) {
        await client.request("PATCH /v1/threads/{id}/queue/{eventId}", {
          path: { id: this.threadId, eventId },
          body: { status: "pending", priority, by: who },
        });
      }
      fill(this.#status, `Moved to place ${to + 1} of ${this.#items.length}`);
    });
    this.changed();
  }

  /** @param {QueueItem} item */
  async #drop(item) {
    if (!(await confirmed("Drop it from the queue?", `“${cut(itemText(item), 200)}” is never processed.`, "Drop it"))) return;
    await act(null, async () => {
      const by = await person();
      // An interruption of an event that has begun would stop its turn.
      if (!this.#items.some(({ id }) => id === item.id)) throw new Error("It has begun meanwhile, and was not dropped.");
      await client.interrupt(this.threadId, { eventId: item.id, by, reason: "dropped from the queue" });
      fill(this.#status, "Dropped");
    });
    this.changed();
  }
}

customElements.define("tm-queue", Queue);
