// The command palette: one field that leads to every part of the page, to threads, and to what can be done now.

import { ask } from "./dialog.js";
import { fill, h } from "./dom.js";
import { matching } from "./palettematch.js";
import { client } from "./session.js";
import { nameOf } from "./threadlist.js";
import { viewAddress } from "./views.js";

/** @typedef {{ label: string, kind: string, run: () => void }} Entry Something that can be chosen: what it is called, what it is, and what it does. */

/** How long the person has to stop writing until threads are searched, in milliseconds. */
const PAUSE = 150;

/** The most threads and other entries that are shown. */
const THREADS = 8,
  ENTRIES = 12;

/** Opens the palette, and runs what the person chooses. @param {Entry[]} entries */
export async function openPalette(entries) {
  /** @type {Entry[]} */
  let threads = [];
  /** @type {Entry[]} */
  let found = [];
  let at = 0;
  let timer = 0;
  const closed = new AbortController();
  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Command or thread",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    placeholder: "Go to, do, or find a thread",
    maxLength: 200,
    oninput: () => {
      at = 0;
      show();
      clearTimeout(timer);
      timer = window.setTimeout(search, PAUSE);
    },
    onkeydown: (/** @type {KeyboardEvent} */ e) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (step) at = (at + step + found.length) % Math.max(1, found.length);
      else if (e.key === "Enter" && !e.isComposing) choose(found[at]);
      else return;
      e.preventDefault();
      show();
    },
  });
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Commands and threads" });
  const dialog = h("dialog", { class: "palette", "aria-label": "Command palette" }, input, list);
  /** @type {Entry | undefined} */
  let chosen;

  /** @param {Entry | undefined} entry */
  function choose(entry) {
    if (!entry) return;
    chosen = entry;
    dialog.close();
  }

  function show() {
    found = [...matching(entries, input.value).slice(0, ENTRIES), ...threads];
    const option = (/** @type {Entry} */ entry, /** @type {number} */ i) =>
      h(
        "li",
        { id: `palette-${i}`, role: "option", "aria-selected": String(i === at), onclick: () => choose(entry) },
        h("span", { class: "grow" }, entry.label),
        h("span", { class: "hint" }, entry.kind),
      );
    fill(list, found.map(option));
    if (found.length === 0) fill(list, h("li", { role: "option", "aria-disabled": "true", class: "hint" }, "Nothing matches."));
    input.setAttribute("aria-activedescendant", found.length > 0 ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  async function search() {
    const q = input.value.trim();
    try {
      const page = await client.threads({ q, sort: "attention", limit: THREADS, signal: closed.signal });
      if (q !== input.value.trim()) return;
      threads = page.threads.map((t) => ({ label: nameOf(t), kind: "thread", run: () => (location.hash = viewAddress({ tab: "open" }, t.id)) }));
    } catch {
      threads = []; // the list of threads says what is wrong
    }
    show();
  }

  show();
  search();
  await ask(dialog);
  clearTimeout(timer);
  closed.abort();
  chosen?.run();
}
