// The list of threads, as an inbox: what needs a person first. It follows the changes of all threads.

import { act, ago, button, fill, h, visible } from "./dom.js";
import { Follower } from "./follower.js";
import { person } from "./person.js";
import { client, may } from "./session.js";
import { VirtualList } from "./virtuallist.js";
import { waiting } from "./waiting.js";

/** @import { Thread } from "./client/threadmill.js" */

/** @type {[string, string, (t: Thread) => boolean, Record<string, string>][]} */
const TABS = [
  ["all", "All", () => true, {}],
  ["waiting", "Needs me", (t) => t.activity === "waiting", { activity: "waiting" }],
  ["failing", "Failing", (t) => t.activity === "failing", { activity: "failing" }],
  ["unanswered", "Unanswered", (t) => t.activity === "unanswered", { activity: "unanswered" }],
  ["running", "Running", (t) => t.activity === "running", { activity: "running" }],
  ["idle", "Idle", (t) => t.activity === "idle", { activity: "idle" }],
  ["closed", "Closed", (t) => t.status === "closed", { status: "closed" }],
];

const PAGE = 200;

/** How tall a row is, and how far beyond the window there are rows: at least one, for the Tab key. In pixels. */
const ROW = 58,
  BEYOND = 60;

/** Words for people. @type {Record<string, string>} */
const ACTIVITY = { waiting: "needs a decision", failing: "failed", running: "running", unanswered: "nobody answers", idle: "" };

class Inbox extends HTMLElement {
  #tab = "all";
  #query = "";
  /** @type {Map<string, Thread>} */
  #threads = new Map();
  /** The threads in the order in which they are shown. @type {Thread[]} */
  #order = [];
  /** @type {VirtualList | undefined} */
  #rows;
  #next = "";
  #loading = new AbortController();
  #timer = 0;
  #frame = 0;
  #selected = "";
  /** When the newest thread changed that it has asked for. */
  #asked = "";
  /** Changes that came before the first page. The list may have them already. @type {Thread[] | undefined} */
  #early = [];

  connectedCallback() {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Activity" });
    this.search = h("input", {
      type: "search",
      placeholder: "Search titles, agents, text",
      "aria-label": "Search threads",
      maxLength: 200,
      oninput: () => this.#search(),
    });
    this.list = h("ul", { class: "threads" });
    this.state = h("p", { class: "hint", role: "status" });
    this.more = h("div", { class: "more" });
    fill(
      this,
      h(
        "div",
        { class: "inbox-header" },
        h("div", { class: "row" }, this.search, may("post") && button("New", () => this.#new(), { class: "primary", title: "New thread (n)" })),
        this.tabs,
      ),
      this.list,
      this.state,
      this.more,
    );
    this.#showTabs();
    this.#rows = new VirtualList({
      list: this.list,
      scroller: this,
      estimate: ROW,
      overscan: BEYOND,
      make: (id) => {
        const row = h(
          "li",
          null,
          h("a", { class: "title", href: `#/threads/${encodeURIComponent(id)}` }),
          ["when", "sub", "state"].map((part) => h("span", { class: part })),
        );
        this.#showRow(row, id);
        return row;
      },
      show: (row, id) => this.#showRow(row, id),
    });
    this.end = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && this.#next && this.#load(), { root: this, rootMargin: "400px" });
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
    this.#rows?.stop();
    this.end?.disconnect();
    clearInterval(this.clock);
  }

  /** Asks for the threads that have changed since it asked last. @param {import("./follower.js").Following<Thread>} following */
  async #ask({ signal, onEvent }) {
    const { threads } = await client.threads({ limit: PAGE, signal });
    for (const t of threads.reverse()) if ((t.updatedAt ?? "") > this.#asked) onEvent(t, "");
    this.#asked = threads.at(-1)?.updatedAt ?? this.#asked;
  }

  /** @param {string} id */
  select(id) {
    this.#selected = id;
    this.#rows?.render();
  }

  #showTabs() {
    fill(
      /** @type {Element} */ (this.tabs),
      TABS.map(([id, label]) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": String(id === this.#tab),
            onclick: () => {
              this.#tab = id;
              this.#showTabs();
              this.#reload();
            },
          },
          label,
        ),
      ),
    );
  }

  #search() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      this.#query = this.search?.value.trim() ?? "";
      this.#reload();
    }, 200);
  }

  #reload() {
    this.#loading.abort();
    this.#loading = new AbortController();
    this.#threads.clear();
    this.#next = "";
    this.#load(true);
  }

  async #load(first = false) {
    const loading = this.#loading;
    const cursor = this.#next;
    this.#next = "";
    const tab = TABS.find(([id]) => id === this.#tab);
    fill(/** @type {Element} */ (this.state), "Loading…");
    try {
      const page = await client.threads({ .../** @type {any} */ (tab)[3], q: this.#query, limit: PAGE, cursor, signal: loading.signal });
      for (const t of page.threads) this.#threads.set(t.id, t);
      this.#next = page.next ?? "";
      this.#show();
      if (first) this.scrollTop = 0;
      const more = /** @type {Element} */ (this.more);
      this.end?.unobserve(more); // so that it tells again if the end is still near
      this.end?.observe(more);
      fill(
        /** @type {Element} */ (this.state),
        this.#threads.size === 0 && (this.#query ? "No thread matches." : this.#tab === "all" ? "There are no threads yet." : "No threads."),
      );
    } catch (error) {
      if (loading.signal.aborted) return;
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

  /** @param {Thread} t */
  #receive(t) {
    if (this.#early) return void this.#early.push(t);
    const before = this.#threads.get(t.id);
    const fits = /** @type {any} */ (TABS.find(([id]) => id === this.#tab))[2](t);
    if (!fits) this.#threads.delete(t.id);
    // What a search finds is up to the server; rows that it has found stay up to date.
    else if (before || this.#query === "") this.#threads.set(t.id, t);
    if (waits(t) ? before?.updatedAt !== t.updatedAt : before === undefined || waits(before)) waiting.refresh();
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
      if (this.#threads.size > 0 && this.#next === "") fill(/** @type {Element} */ (this.state));
    });
  }

  #show() {
    const known = new Set(this.#order.map((t) => t.id));
    const added = [...this.#threads.values()].filter((t) => !known.has(t.id));
    // Nearly sorted already, so sorting takes one pass.
    this.#order = [...this.#order.flatMap((t) => this.#threads.get(t.id) ?? []), ...added].sort((a, b) =>
      a.updatedAt === b.updatedAt ? (a.id < b.id ? 1 : -1) : (a.updatedAt ?? "") < (b.updatedAt ?? "") ? 1 : -1,
    );
    this.#rows?.set(
      this.#order.map((t) => t.id),
      this.#next !== "",
    );
  }

  /** @param {HTMLElement} row @param {string} id */
  #showRow(row, id) {
    const t = this.#threads.get(id);
    if (!t) return; // it leaves the list with the next frame
    const state = t.status === "closed" ? "closed" : (t.activity ?? "idle");
    row.className = `thread-row ${state}`;
    const [link, when, sub, word] = row.children;
    if (id === this.#selected) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    show(link, t.title || t.id);
    show(when, t.updatedAt ? ago(t.updatedAt) : "");
    show(sub, [t.parent && "sub-agent", ...t.agents].filter(Boolean).join(", ") || "default agent");
    show(word, ACTIVITY[state] ?? "");
  }

  #new() {
    location.hash = "#/new";
  }
}

/** @param {Thread} t */
const waits = (t) => t.activity === "waiting";

/** Shows a text, unless it is shown already. @param {Element} element @param {string} text */
function show(element, text) {
  if (element.textContent !== visible(text)) fill(element, text);
}

customElements.define("tm-inbox", Inbox);

/** The form that opens a thread. */
class NewThread extends HTMLElement {
  async connectedCallback() {
    const agents = h("div", { class: "choices" });
    const text = h("textarea", { rows: 4, "aria-label": "Message", placeholder: "What should they do?" });
    const open = button(
      "Open the thread",
      () =>
        act(open, async () => {
          const chosen = [...agents.querySelectorAll("input:checked")].map((i) => /** @type {HTMLInputElement} */ (i).value);
          const message = text.value.trim() === "" ? undefined : { content: text.value, sender: await person() };
          const thread = await client.openThread(/** @type {any} */ ({ agents: chosen.length > 0 ? chosen : undefined, message }));
          location.hash = `#/threads/${encodeURIComponent(thread.id)}`;
        }),
      { class: "primary" },
    );
    text.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      if (!e.repeat) open.click();
    });
    fill(
      this,
      h(
        "div",
        { class: "new-thread" },
        h("h1", null, "New thread"),
        h("p", { class: "hint" }, "Choose one agent or several, or none for the default one."),
        agents,
        text,
        h("div", { class: "row" }, open),
      ),
    );
    text.focus();
    await act(null, async () => {
      const list = (await client.request("GET /v1/agents")).agents;
      fill(
        agents,
        list.map((a) =>
          h(
            "label",
            { class: "choice-card" },
            h("input", { type: "checkbox", value: a.name }),
            h(
              "span",
              null,
              h("strong", null, a.name),
              a.default && h("span", { class: "badge" }, "default"),
              h("span", { class: "sub" }, a.description || a.model),
            ),
          ),
        ),
      );
    });
  }
}

customElements.define("tm-new-thread", NewThread);
