// The list of threads, as an inbox: what needs a person first. It follows the changes of all threads.

import { ask } from "./dialog.js";
import { act, ago, button, fill, h, visible } from "./dom.js";
import { chips, filterPanel } from "./filters.js";
import { Follower } from "./follower.js";
import { menu } from "./menu.js";
import { notificationsAreOn, turnNotifications } from "./notifications.js";
import { Paced } from "./paced.js";
import { removeView, savedViews, saveView } from "./savedviews.js";
import { client, may } from "./session.js";
import { nameOf, ThreadList } from "./threadlist.js";
import { filtersOf, has, isFiltered, selectionOf, TABS, viewAddress, viewOf, viewQuery } from "./views.js";
import { VirtualList } from "./virtuallist.js";
import { waiting } from "./waiting.js";

/** @import { Action } from "./bulk.js" */
/** @import { Thread, ThreadCounts } from "./client/threadmill.js" */
/** @import { View } from "./views.js" */

const PAGE = 200;

/** How tall a row is, and how far beyond the window there are rows: at least one, for the Tab key. In pixels. */
const ROW = 58,
  BEYOND = 60;

/** The least time between two requests that follow changes, in milliseconds. */
const PACE = 1000;

/** The same for the counts of saved views, of which each takes a request. */
const VIEWS_PACE = 5000;

/** The most threads that are changed at once. */
const MOST = 1000;

/** Words for people. @type {Record<string, string>} */
const ACTIVITY = { waiting: "needs a decision", failing: "failed", running: "running", unanswered: "nobody answers", closed: "closed" };

/** What a tab says that has no threads. */
const EMPTY = {
  open: "There are no open threads.",
  waiting: "Nothing needs you.",
  failing: "Nothing has failed.",
  unanswered: "Every message has an answer.",
  running: "Nothing is running.",
  idle: "No thread is idle.",
  closed: "No thread is closed.",
};

const compact = new Intl.NumberFormat(undefined, { notation: "compact" });

export class Inbox extends HTMLElement {
  /** @type {View} */
  #view = { tab: "open" };
  /** @type {Partial<ThreadCounts>} */
  #counts = {};
  #threads = new ThreadList();
  /** @type {VirtualList | undefined} */
  #rows;
  #next = "";
  #loading = new AbortController();
  #over = new AbortController();
  #timer = 0;
  #frame = 0;
  /** The thread that is open beside the list. */
  #selected = "";
  /** The row to which keys have moved last, and its place. */
  #cursor = { id: "", at: 0 };
  /** The threads that are selected, as they were then. @type {Map<string, Thread>} */
  #chosen = new Map();
  /** The one that was selected last, from which Shift selects on. */
  #chosenLast = "";
  /** Whether the pointer is over the list. */
  #pointed = false;
  /** When the newest thread changed that it has asked for. */
  #asked = "";
  /** Changes that came before the first page. The list may have them already. @type {Thread[] | undefined} */
  #early = [];
  #counting = new Paced(() => this.#count(), PACE);
  #countingViews = new Paced(() => this.#countViews(), VIEWS_PACE);
  #rereading = new Paced(() => this.#reread(), PACE);
  /** The counts of saved views, by their queries. @type {Map<string, number>} */
  #viewCounts = new Map();

  connectedCallback() {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Activity" });
    this.search = h("input", {
      type: "search",
      placeholder: "Search threads",
      "aria-label": "Search threads",
      maxLength: 200,
      oninput: () => this.#search(),
    });
    this.views = h("nav", { class: "views", "aria-label": "Saved views" });
    this.chips = h("div", { class: "chips" });
    this.panel = h("div", { hidden: true });
    this.list = h("ul", { class: "threads" });
    this.state = h("p", { class: "hint", role: "status" });
    this.more = h("div", { class: "more" });
    this.scroller = h("div", { class: "inbox-scroller" }, this.list, this.state, this.more);
    this.changed = h("div", { role: "status" });
    this.chosenBar = h("div", { role: "status" });
    fill(
      this,
      h(
        "div",
        { class: "inbox-header" },
        h(
          "div",
          { class: "row" },
          this.search,
          may("post") && button("New", () => (location.hash = "#/new"), { class: "primary", title: "New thread (n)" }),
          menu("More of the list", () => this.#menu()),
        ),
        this.panel,
        this.views,
        this.tabs,
        this.chips,
      ),
      this.scroller,
      h("div", { class: "inbox-foot" }, this.changed, this.chosenBar),
    );
    this.#rows = new VirtualList({
      list: this.list,
      scroller: this.scroller,
      estimate: ROW,
      overscan: BEYOND,
      stateless: true,
      make: (id) => {
        const shift = (/** @type {MouseEvent} */ e) => {
          if (!e.shiftKey) return;
          e.preventDefault(); // the browser would open a window
          this.#toggle(id, true);
        };
        const row = h(
          "li",
          null,
          may("operate") && h("input", { type: "checkbox", class: "check", onclick: (/** @type {MouseEvent} */ e) => this.#toggle(id, e.shiftKey) }),
          h("a", { onclick: shift }),
          ["when", "sub", "state"].map((part) => h("span", { class: part })),
        );
        this.#showRow(row, id);
        return row;
      },
      show: (row, id) => this.#showRow(row, id),
    });
    this.end = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && this.#next && this.#load(), {
      root: this.scroller,
      rootMargin: "400px",
    });
    this.#watchPerson();
    this.#reload();
    this.follower = new Follower(
      (options) => client.watchThreads(options),
      (options) => this.#ask(options),
      (t) => this.#receive(t),
      (state, error) => this.dispatchEvent(new CustomEvent("connection", { bubbles: true, detail: { state, error } })),
    );
    this.follower.start("");
    this.clock = setInterval(() => this.#rows?.render(), 30_000);
  }

  disconnectedCallback() {
    this.follower?.stop();
    this.#over.abort();
    this.#loading.abort();
    this.#counting.stop();
    this.#countingViews.stop();
    this.#rereading.stop();
    this.#rows?.stop();
    this.end?.disconnect();
    clearInterval(this.clock);
    clearTimeout(this.#timer);
    cancelAnimationFrame(this.#frame);
  }

  /** The address of the list as it is now. */
  get address() {
    return viewAddress(this.#view);
  }

  /** Shows what the address says. @param {View | undefined} view Undefined: the same as before. @param {string} selected The thread that is open. */
  show(view, selected) {
    this.#selected = selected;
    if (view === undefined || viewQuery(view) === viewQuery(this.#view)) return void this.#rows?.render();
    this.#view = view;
    if (this.search && this.search.value.trim() !== (view.q ?? "")) this.search.value = view.q ?? "";
    this.#reload();
  }

  focusSearch() {
    this.search?.focus();
    this.search?.select();
  }

  /** Moves the focus in the list. @param {1 | -1 | 0} step */
  move(step) {
    const { shown } = this.#threads;
    const from = this.#focused() ?? (this.#cursor.id || this.#selected);
    const known = shown.indexOf(from);
    const at = Math.max(0, Math.min(shown.length - 1, known < 0 ? this.#cursor.at : known + step));
    if (shown.length === 0) return;
    this.#cursor = { id: shown[at], at };
    this.#rows?.reveal(shown[at])?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** Shows the threads where they belong now, also while the person points at them. */
  update() {
    this.#threads.apply();
    this.#show();
  }

  /** Shows the filters, or hides them. */
  filter() {
    const panel = /** @type {HTMLElement} */ (this.panel);
    panel.hidden = !panel.hidden;
    this.#showFilters();
    if (!panel.hidden) panel.querySelector("select")?.focus();
  }

  /** Asks for a name, and keeps the view under it. */
  async saveView() {
    const name = h("input", { "aria-label": "Name", maxLength: 40, required: true, autofocus: true });
    const answer = await ask(
      h(
        "dialog",
        { "aria-label": "Save this view" },
        h(
          "form",
          { method: "dialog" },
          h("h2", null, "Save this view"),
          h("label", null, "Name", name),
          h("p", { class: "hint" }, "This browser keeps it. To share a view, send its address."),
          h("div", { class: "row" }, h("button", { value: "save", class: "primary" }, "Save"), h("button", { value: "", formNoValidate: true }, "Cancel")),
        ),
      ),
    );
    if (answer !== "save" || name.value.trim() === "") return;
    saveView({ name: name.value.trim(), query: viewQuery(this.#view) });
    this.#showViews();
    this.#countViews();
  }

  /** Whether the view is one that can be saved. */
  get isSpecial() {
    return viewQuery(this.#view) !== "";
  }

  #menu() {
    const query = viewQuery(this.#view);
    const saved = savedViews().find((one) => one.query === query);
    return [
      button("Filter…", () => this.filter(), { title: "f" }),
      may("operate") && button("Retry all that fail…", () => this.retryAll()),
      may("operate") && button("Select all of this list", () => act(null, async () => this.#choose(await this.#all(this.#view)))),
      button(notificationsAreOn() ? "Notify me no more" : "Notify me of threads that wait", () => turnNotifications(!notificationsAreOn())),
      this.isSpecial && !saved && button("Save this view…", () => this.saveView()),
      saved !== undefined &&
        button(`Forget “${saved.name}”`, () => {
          removeView(query);
          this.#showViews();
        }),
    ];
  }

  #showFilters() {
    const go = (/** @type {View} */ view) => this.#go(view);
    fill(/** @type {Element} */ (this.chips), chips(this.#view, go));
    const panel = /** @type {HTMLElement} */ (this.panel);
    const focused = /** @type {HTMLSelectElement} */ (document.activeElement);
    const at = [...panel.querySelectorAll("select")].indexOf(focused);
    fill(panel, !panel.hidden && filterPanel(this.#view, go));
    if (at >= 0) panel.querySelectorAll("select")[at]?.focus();
  }

  #showViews() {
    const query = viewQuery(this.#view);
    fill(
      /** @type {Element} */ (this.views),
      savedViews().map((one) => {
        const n = this.#viewCounts.get(one.query) ?? 0;
        return h(
          "a",
          { href: `#/${one.query}`, class: "chip", "aria-current": one.query === query ? "page" : undefined },
          one.name,
          n > 0 && h("span", { class: "n" }, ` ${compact.format(n)}`),
        );
      }),
    );
  }

  /** Counts the threads of saved views. */
  async #countViews() {
    for (const { query } of savedViews()) {
      const view = viewOf(new URLSearchParams(query));
      try {
        this.#viewCounts.set(query, (await client.threadCounts(filtersOf(view)))[view.tab]);
      } catch {
        return; // the list says what is wrong
      }
    }
    this.#showViews();
  }

  /** Selects nothing, or goes to the list if a field has the focus. */
  leave() {
    if (this.#focused() !== undefined) this.#choose([]);
    else this.move(0);
  }

  /** Selects the thread whose row has the focus, or not any more. */
  toggle() {
    const id = this.#focused();
    if (id !== undefined) this.#toggle(id, false);
  }

  /** Changes the threads that are selected, else the one whose row has the focus, else the one that is open, after a question. @param {Action} action */
  async change(action) {
    if (!may("operate")) return;
    await act(null, async () => {
      const id = this.#focused() ?? this.#selected;
      if (this.#chosen.size > 0)
        await this.#confirm(
          action,
          [...this.#chosen.values()].map((t) => this.#threads.get(t.id) ?? t),
        );
      else if (id) await this.#confirm(action, [this.#threads.get(id) ?? (await client.thread(id))]);
    });
  }

  /** Retries all threads of the filters that fail, after a question. */
  async retryAll() {
    await act(null, async () => this.#confirm("retry", await this.#all({ ...this.#view, tab: "failing" })));
  }

  /** All threads of a view, as far as they can be changed at once. @param {View} view */
  async #all(view) {
    /** @type {Thread[]} */
    const threads = [];
    for (let cursor; cursor !== "" && threads.length < MOST; ) {
      const page = await this.#page(cursor ?? "", this.#over.signal, view);
      threads.push(...page.threads);
      cursor = page.next ?? "";
    }
    return threads;
  }

  /** Asks before threads are changed. The dialog is loaded when it is needed. @param {Action} action @param {Thread[]} threads */
  async #confirm(action, threads) {
    const focused = this.#focused() !== undefined;
    if (await (await import("./bulkdialog.js")).changeThreads(action, threads)) this.#choose([]);
    if (focused) this.move(0);
  }

  /** @param {string} id @param {boolean} range Whether all rows from the one that was selected last are. */
  #toggle(id, range) {
    const { shown } = this.#threads;
    const [from, to] = [shown.indexOf(this.#chosenLast), shown.indexOf(id)].sort((a, b) => a - b);
    this.#chosenLast = id;
    const ids = range && from >= 0 ? shown.slice(from, to + 1) : [id];
    const threads = ids.flatMap((one) => this.#threads.get(one) ?? []);
    const others = [...this.#chosen.values()].filter((t) => !ids.includes(t.id));
    this.#choose(ids.length === 1 && this.#chosen.has(id) ? others : [...others, ...threads]);
  }

  /** @param {Thread[]} threads */
  #choose(threads) {
    this.#chosen = new Map(threads.map((t) => [t.id, t]));
    this.list?.classList.toggle("choosing", this.#chosen.size > 0);
    this.#rows?.render();
    fill(
      /** @type {Element} */ (this.chosenBar),
      threads.length > 0 &&
        h(
          "div",
          { class: "chosen-bar" },
          `${threads.length} selected`,
          button("Close…", () => this.change("close"), { class: "quiet danger", title: "e" }),
          button("Retry…", () => this.change("retry"), { class: "quiet", title: "r" }),
          button("×", () => this.#choose([]), { class: "quiet", "aria-label": "Select nothing", title: "Esc" }),
        ),
    );
  }

  /** The thread whose row has the focus. */
  #focused() {
    return this.#rows?.keyOf(document.activeElement);
  }

  /** Keeps rows where they are while the person points at the list, or moves in it with keys. */
  #watchPerson() {
    const { signal } = this.#over;
    const point = (/** @type {boolean} */ pointed) => () => {
      this.#pointed = pointed;
      this.#soon();
    };
    this.addEventListener("pointerenter", (e) => e.pointerType !== "touch" && point(true)(), { signal });
    this.addEventListener("pointerleave", point(false), { signal });
    document.addEventListener("visibilitychange", point(false), { signal });
    this.addEventListener("focusin", () => this.#soon(), { signal });
    this.addEventListener("focusout", () => this.#soon(), { signal });
  }

  get #held() {
    return this.#pointed || this.list?.querySelector(":focus-visible") != null;
  }

  /** Asks for the threads that have changed since it asked last. @param {import("./follower.js").Following<Thread>} following */
  async #ask({ signal, onEvent }) {
    const { threads } = await client.threads({ limit: PAGE, signal });
    for (const t of threads.reverse()) if ((t.updatedAt ?? "") > this.#asked) onEvent(t, "");
    this.#asked = threads.at(-1)?.updatedAt ?? this.#asked;
  }

  #showTabs() {
    fill(
      /** @type {Element} */ (this.tabs),
      TABS.map(({ tab, label }) => {
        const n = this.#counts[tab] ?? 0;
        return h(
          "button",
          {
            type: "button",
            role: "tab",
            class: n > 0 ? tab : "",
            "aria-selected": String(tab === this.#view.tab),
            onclick: () => this.#go({ ...this.#view, tab }),
          },
          label,
          n > 0 && h("span", { class: "n" }, compact.format(n)),
        );
      }),
    );
  }

  /** Goes to the address of another view. What is beside the list stays. @param {View} view @param {boolean} [replace] Whether it replaces the address before. */
  #go(view, replace = false) {
    const address = location.hash.split("?", 1)[0] || "#/";
    if (replace) history.replaceState(history.state, "", address + viewQuery(view));
    else location.hash = address + viewQuery(view);
    this.show(view, this.#selected);
  }

  #search() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      const query = new URLSearchParams(viewQuery(this.#view));
      query.set("q", this.search?.value ?? "");
      this.#go(viewOf(query), true);
    }, 200);
  }

  #reload() {
    this.#loading.abort();
    this.#loading = new AbortController();
    this.#threads.clear();
    this.#choose([]);
    this.#next = "";
    this.#showTabs();
    this.#showFilters();
    this.#showViews();
    this.#count();
    this.#countingViews.refresh();
    this.#load(true);
  }

  /** Counts the threads of the tabs. */
  async #count() {
    const { signal } = this.#loading;
    try {
      this.#counts = await client.threadCounts({ ...filtersOf(this.#view), signal });
    } catch {
      return; // the list says what is wrong
    }
    if (!signal.aborted) this.#showTabs();
  }

  /** Asks for a page of the view. @param {string} cursor @param {AbortSignal} signal */
  #page(cursor, signal, view = this.#view) {
    return client.threads({ ...selectionOf(view.tab), ...filtersOf(view), sort: "attention", limit: PAGE, cursor, signal });
  }

  async #load(first = false) {
    const { signal } = this.#loading;
    const cursor = this.#next;
    this.#next = "";
    fill(/** @type {Element} */ (this.state), "Loading…");
    try {
      const page = await this.#page(cursor, signal);
      this.#threads.add(page.threads, page.next !== undefined);
      this.#next = page.next ?? "";
      this.#show();
      if (first && this.scroller) this.scroller.scrollTop = 0;
      const more = /** @type {Element} */ (this.more);
      this.end?.unobserve(more); // so that it tells again if the end is still near
      this.end?.observe(more);
    } catch (error) {
      if (signal.aborted) return;
      fill(
        /** @type {Element} */ (this.state),
        /** @type {Error} */ (error).message,
        " ",
        button("Try again", () => this.#reload(), { class: "quiet" }),
      );
    }
    if (!this.#early) return;
    const early = this.#early;
    this.#early = undefined;
    waiting.refresh(); // from here on, changes tell when to ask again
    early.forEach((t) => this.#receive(t));
  }

  /** Reads the first page again, because only the server can tell which threads a filter has. */
  async #reread() {
    const { signal } = this.#loading;
    try {
      const page = await this.#page("", signal);
      if (signal.aborted) return;
      if (page.next !== undefined && !this.#threads.partial) return this.#reload();
      this.#threads.replaceFirst(page.threads, page.next !== undefined);
      this.#soon();
    } catch {
      return; // the next change asks again
    }
  }

  /** @param {Thread} t */
  #receive(t) {
    if (this.#early) return void this.#early.push(t);
    const before = this.#threads.get(t.id);
    if (before || !isFiltered(this.#view)) this.#threads.change(t, has(this.#view.tab, t));
    this.#countingViews.refresh();
    if (this.#view.q === undefined) {
      // What a search finds costs the server too much to ask after each change.
      this.#counting.refresh();
      if (isFiltered(this.#view)) this.#rereading.refresh();
    }
    if (waits(t) ? before?.updatedAt !== t.updatedAt : before === undefined || waits(before)) waiting.refresh();
    this.#soon();
  }

  /** Shows what has changed with the next frame. */
  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#threads.hold(this.#held);
      this.#show();
    });
  }

  #show() {
    const { shown, partial, changed } = this.#threads;
    this.#rows?.set(shown, partial);
    fill(
      /** @type {Element} */ (this.changed),
      changed > 0 && button(`${changed} changed: show`, () => this.update(), { class: "inbox-changed", title: "Show them in their order (u)" }),
    );
    if (this.#next === "" && !partial)
      fill(/** @type {Element} */ (this.state), shown.length === 0 && (isFiltered(this.#view) ? "No thread matches." : EMPTY[this.#view.tab]));
  }

  /** @param {HTMLElement} row @param {string} id */
  #showRow(row, id) {
    const t = this.#threads.get(id);
    if (!t) return; // it leaves the list with the next frame
    const state = t.status === "closed" ? "closed" : (t.activity ?? "idle");
    const urgent = state === "waiting" || state === "failing";
    const since = (urgent && t.activitySince) || t.updatedAt;
    row.className = `thread-row ${state}`;
    const [link, when, sub, word] = [...row.children].slice(-4);
    const check = row.querySelector("input");
    if (check) {
      check.checked = this.#chosen.has(id);
      const label = `Select ${visible(nameOf(t))}`;
      if (check.getAttribute("aria-label") !== label) check.setAttribute("aria-label", label);
    }
    link.className = t.title || !t.preview ? "title" : "title untitled";
    const address = viewAddress(this.#view, id);
    if (link.getAttribute("href") !== address) link.setAttribute("href", address);
    if (id === this.#selected) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    show(link, nameOf(t));
    show(when, since ? ago(since) : "");
    show(sub, [t.parent && "sub-agent", ...t.agents].filter(Boolean).join(", ") || "default agent");
    show(word, ACTIVITY[state] ?? "");
  }
}

/** @param {Thread} t */
const waits = (t) => t.activity === "waiting";

/** Shows a text, unless it is shown already. @param {Element} element @param {string} text */
function show(element, text) {
  if (element.textContent !== visible(text)) fill(element, text);
}

customElements.define("tm-inbox", Inbox);
