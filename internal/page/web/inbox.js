// The list of threads, as an inbox: what needs a person first. It follows the changes of all threads.

import { act, ago, button, fill, h } from "./dom.js";
import { Follower } from "./follower.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

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

const PAGE = 100;

/** Words for people. @type {Record<string, string>} */
const ACTIVITY = { waiting: "needs a decision", failing: "failed", running: "running", unanswered: "nobody answers", idle: "" };

class Inbox extends HTMLElement {
  #tab = "all";
  #query = "";
  /** @type {Map<string, Thread>} */
  #threads = new Map();
  /** @type {Map<string, HTMLElement>} */
  #rows = new Map();
  #next = "";
  #loading = new AbortController();
  #timer = 0;
  #frame = 0;
  #selected = "";
  /** When the newest thread changed that it has asked for. */
  #asked = "";

  connectedCallback() {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Activity" });
    this.search = h("input", { type: "search", placeholder: "Search titles, agents, text", "aria-label": "Search threads", maxLength: 200, oninput: () => this.#search() });
    this.list = h("ul", { class: "threads" });
    this.state = h("p", { class: "hint", role: "status" });
    this.more = h("div", { class: "more" });
    fill(this, h("div", { class: "inbox-header" }, h("div", { class: "row" }, this.search, may("post") && button("New", () => this.#new(), { class: "primary", title: "New thread (n)" })), this.tabs), this.list, this.state, this.more);
    this.#showTabs();
    new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && this.#next && this.#load(), { root: this, rootMargin: "400px" }).observe(this.more);
    this.#reload();
    this.follower = new Follower((options) => client.watchThreads(options), (options) => this.#ask(options), (t) => this.#receive(t),
      (state, error) => this.dispatchEvent(new CustomEvent("connection", { bubbles: true, detail: { state, error } })));
    this.follower.start("");
    this.clock = setInterval(() => this.#showTimes(), 30_000);
  }

  disconnectedCallback() {
    this.follower?.stop();
    clearInterval(this.clock);
  }

  /** Asks for the threads that have changed since it asked last. @param {import("./follower.js").Following} following */
  async #ask({ signal, onEvent }) {
    const { threads } = await client.threads({ limit: PAGE, signal });
    for (const t of threads.reverse()) if ((t.updatedAt ?? "") > this.#asked) onEvent(t, "");
    this.#asked = threads.at(-1)?.updatedAt ?? this.#asked;
  }

  /** @param {string} id */
  select(id) {
    this.#rows.get(this.#selected)?.removeAttribute("aria-current");
    this.#selected = id;
    this.#rows.get(id)?.setAttribute("aria-current", "page");
  }

  #showTabs() {
    fill(/** @type {Element} */ (this.tabs), TABS.map(([id, label]) => h("button", {
      type: "button", role: "tab", "aria-selected": String(id === this.#tab), onclick: () => { this.#tab = id; this.#showTabs(); this.#reload(); },
    }, label)));
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
      if (first) {
        this.#rows.clear();
        fill(/** @type {Element} */ (this.list));
      }
      this.#show();
      fill(/** @type {Element} */ (this.state), this.#threads.size === 0 && (this.#query ? "No thread matches." : this.#tab === "all" ? "There are no threads yet." : "No threads."));
    } catch (error) {
      if (loading.signal.aborted) return;
      fill(/** @type {Element} */ (this.state), /** @type {Error} */ (error).message, " ", button("Try again", () => this.#reload(), { class: "quiet" }));
    }
  }

  /** @param {Thread} t */
  #receive(t) {
    const before = this.#threads.get(t.id);
    const fits = /** @type {any} */ (TABS.find(([id]) => id === this.#tab))[2](t);
    if (!fits) this.#threads.delete(t.id);
    // What a search finds is up to the server; rows that it has found stay up to date.
    else if (before || this.#query === "") this.#threads.set(t.id, t);
    if (before?.activity !== t.activity || t.activity === "waiting") document.dispatchEvent(new CustomEvent("threads-changed", { detail: t }));
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
      if (this.#threads.size > 0 && this.#next === "") fill(/** @type {Element} */ (this.state));
    });
  }

  #show() {
    const list = /** @type {HTMLElement} */ (this.list);
    const sorted = [...this.#threads.values()].sort((a, b) => (a.updatedAt === b.updatedAt ? (a.id < b.id ? 1 : -1) : (a.updatedAt ?? "") < (b.updatedAt ?? "") ? 1 : -1));
    /** @type {Element | null} */
    let at = list.firstElementChild;
    for (const t of sorted) {
      let row = this.#rows.get(t.id);
      if (!row || /** @type {any} */ (row).thread !== t) {
        const made = this.#row(t);
        if (row === at) at = made;
        row?.replaceWith(made);
        row = made;
        this.#rows.set(t.id, row);
      }
      if (row === at) at = at?.nextElementSibling ?? null;
      else list.insertBefore(row, at);
    }
    for (const [id, row] of this.#rows) {
      if (this.#threads.has(id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
  }

  /** @param {Thread} t */
  #row(t) {
    const state = t.status === "closed" ? "closed" : (t.activity ?? "idle");
    const row = h("li", { class: `thread-row ${state}` },
      h("a", { href: `#/threads/${encodeURIComponent(t.id)}`, "aria-current": t.id === this.#selected ? "page" : undefined },
        h("span", { class: "dot", "aria-hidden": "true" }),
        h("span", { class: "title" }, t.title || t.id),
        h("span", { class: "when", title: t.updatedAt }, t.updatedAt && ago(t.updatedAt)),
        h("span", { class: "sub" }, [t.parent && "sub-agent", ...t.agents].filter(Boolean).join(", ") || "default agent", ACTIVITY[state] && h("span", { class: "state" }, ACTIVITY[state]))));
    /** @type {any} */ (row).thread = t;
    return row;
  }

  #showTimes() {
    for (const row of this.#rows.values()) {
      const when = row.querySelector(".when");
      const t = /** @type {any} */ (row).thread;
      if (when && t.updatedAt) fill(when, ago(t.updatedAt));
    }
  }

  #new() {
    location.hash = "#/new";
  }
}

customElements.define("tm-inbox", Inbox);

/** The form that opens a thread. */
class NewThread extends HTMLElement {
  async connectedCallback() {
    const agents = h("div", { class: "choices" });
    const text = h("textarea", { rows: 4, "aria-label": "Message", placeholder: "What should they do?" });
    const open = button("Open the thread", () => act(open, async () => {
      const chosen = [...agents.querySelectorAll("input:checked")].map((i) => /** @type {HTMLInputElement} */ (i).value);
      const message = text.value.trim() === "" ? undefined : { content: text.value, sender: await person() };
      const thread = await client.openThread(/** @type {any} */ ({ agents: chosen.length > 0 ? chosen : undefined, message }));
      location.hash = `#/threads/${encodeURIComponent(thread.id)}`;
    }), { class: "primary" });
    text.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      if (!e.repeat) open.click();
    });
    fill(this, h("div", { class: "new-thread" }, h("h1", null, "New thread"), h("p", { class: "hint" }, "Choose one agent or several, or none for the default one."), agents, text, h("div", { class: "row" }, open)));
    text.focus();
    await act(null, async () => {
      const list = (await client.request("GET /v1/agents")).agents;
      fill(agents, list.map((a) => h("label", { class: "choice-card" }, h("input", { type: "checkbox", value: a.name }),
        h("span", null, h("strong", null, a.name), a.default && h("span", { class: "badge" }, "default"), h("span", { class: "sub" }, a.description || a.model)))));
    });
  }
}

customElements.define("tm-new-thread", NewThread);
