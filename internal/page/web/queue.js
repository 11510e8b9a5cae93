// What waits for its turn: each event with what a person can do about it.

import { confirmed } from "./dialog.js";
import { act, button, cut, fill, h } from "./dom.js";
import { keysAreOn } from "./keyboard.js";
import { myName, person } from "./person.js";
import { moved } from "./queueorder.js";
import { client, may } from "./session.js";
import { samePerson } from "./timeline.js";

/** @import { components } from "./client/api.js" */
/** @import { MessageEditor } from "./messageeditor.js" */
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

/** Whether the person can change the text of an event: it is a message of theirs. @param {QueueItem} item */
function isMine(item) {
  const { senderType } = /** @type {{ senderType?: unknown }} */ (item.payload ?? {});
  return item.type === "message" && senderType === "user" && samePerson(sender(item), myName());
}

/** @typedef {{ element: HTMLElement, item: QueueItem, editor?: MessageEditor }} Row */

export class Queue extends HTMLElement {
  threadId = "";
  /** Is called after each change that a person has made. */
  changed = () => {};

  /** @type {QueueItem[]} */
  #items = [];
  /** The rows of the events, which keep the focus and what is typed. @type {Map<string, Row>} */
  #rows = new Map();
  #list = h("ol", { class: "queued" });
  #title = h("h2");
  #more = h("p", { class: "hint", hidden: true });
  #status = h("p", { class: "unseen", role: "status" });

  connectedCallback() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Queue");
    this.hidden = this.#items.length === 0;
    fill(this, this.#title, this.#list, this.#more, this.#status);
    this.#list.addEventListener("keydown", (e) => this.#key(e));
  }

  /**
   * Shows the events that wait, the next one first.
   * @param {QueueItem[]} items @param {boolean} [aside] Whether people look at an older part of the thread.
   */
  show(items, aside = false) {
    const focused = document.activeElement;
    this.#items = items;
    fill(this.#title, `Queued (${items.length})`);
    const waiting = new Set(items.map(({ id }) => id));
    for (const { item, editor } of this.#rows.values()) if (!waiting.has(item.id)) editor?.end();
    const first = items.slice(0, MAX_SHOWN);
    const kept = [...this.#rows.values()].filter(({ item, editor }) => editor && !first.some(({ id }) => id === item.id));
    const rows = [...kept, ...first.map((item) => this.#row(item))];
    this.#rows = new Map(rows.map((row) => [row.item.id, row]));
    const elements = rows.map(({ element }) => element);
    // People may be typing in one of them.
    if (elements.length !== this.#list.children.length || elements.some((element, i) => element !== this.#list.children[i])) fill(this.#list, elements);
    const more = items.length - MAX_SHOWN;
    this.#more.hidden = more <= 0;
    fill(this.#more, `… and ${more} more`);
    this.hidden = aside || rows.length === 0;
    if (focused !== document.activeElement && this.contains(focused)) /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
  }

  /** The row of an event, as it is now. @param {QueueItem} item @returns {Row} */
  #row(item) {
    const known = this.#rows.get(item.id);
    const row = known ?? { item, element: h("li", { tabIndex: 0 }) };
    const isChanged = itemText(row.item) !== itemText(item);
    row.item = item;
    if (row.editor) row.editor.show(itemText(item));
    else if (!known || isChanged) this.#draw(row);
    return row;
  }

  /** @param {Row} row */
  #draw({ element, item }) {
    const text = itemText(item);
    const name = `“${cut(text, 40)}”`;
    const keys = ["Alt+ArrowUp", "Alt+ArrowDown", "Delete", isMine(item) && "e"].filter(Boolean).join(" ");
    if (may("operate")) element.setAttribute("aria-keyshortcuts", keys);
    fill(
      element,
      h("p", { class: "queued-text" }, h("strong", null, sender(item) || item.type), " ", cut(text, 600)),
      may("operate") &&
        h(
          "span",
          { class: "queued-actions" },
          isMine(item) && button("Edit…", () => this.#edit(item.id), { class: "quiet", title: "Edit (e)", "aria-label": `Edit ${name}` }),
          button("↑", () => this.#move(item.id, -1), { class: "quiet", title: "Earlier (Alt+↑)", "aria-label": `Move ${name} up` }),
          button("↓", () => this.#move(item.id, 1), { class: "quiet", title: "Later (Alt+↓)", "aria-label": `Move ${name} down` }),
          button("Drop…", () => this.#drop(item), { class: "quiet danger", title: "Drop (Delete)", "aria-label": `Drop ${name}` }),
        ),
    );
  }

  /** Opens the form of a message in its row. @param {string} id */
  async #edit(id) {
    const { messageEditor } = await import("./messageeditor.js");
    const row = this.#rows.get(id);
    if (!row || row.editor) return;
    const editor = messageEditor(this.threadId, id, itemText(row.item), () => {
      const hadFocus = row.element.contains(document.activeElement);
      row.editor = undefined;
      this.#draw(row);
      if (hadFocus) row.element.focus({ preventScroll: true });
      this.changed();
    });
    row.editor = editor;
    fill(row.element, editor);
    editor.focus();
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const element = /** @type {Element} */ (e.target).closest("li");
    const { item, editor } = [...this.#rows.values()].find((row) => row.element === element) ?? {};
    if (!item || editor || e.repeat || !may("operate") || e.ctrlKey || e.metaKey || e.shiftKey) return;
    if (e.altKey && e.key === "ArrowUp") this.#move(item.id, -1);
    else if (e.altKey && e.key === "ArrowDown") this.#move(item.id, 1);
    else if (!e.altKey && e.key === "Delete") this.#drop(item);
    else if (!e.altKey && e.key === "e" && isMine(item) && keysAreOn()) this.#edit(item.id);
    else return;
    e.preventDefault();
    e.stopPropagation();
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
