// One thread: its lines, live, and what a person can do with it.

import "./composer.js";
import { act, button, cut, download, fill, h, notify, pretty } from "./dom.js";
import { itemText, showDetails, showWhy } from "./details.js";
import { lineElement, showLine, statusText } from "./lines.js";
import { ask, confirmed } from "./dialog.js";
import { Follower } from "./follower.js";
import { person } from "./person.js";
import { client, may, workflowURL } from "./session.js";
import { Timeline } from "./timeline.js";

/** @import { components } from "./client/api.js" */
/** @import { AgentEvent, Thread } from "./client/threadmill.js" */
/** @import { Line } from "./timeline.js" */

/** Records of one page. */
const PAGE = 200;

/** How near the end, in pixels, new lines keep the end in view. */
const NEAR = 80;

/** How many of the newest lines can stand side by side. */
const MAX_BESIDE = 12;

export class ThreadView extends HTMLElement {
  threadId = "";
  /** The key of the line to show first. */
  anchor = "";
  nested = false;

  #timeline = new Timeline();
  /** @type {Map<string, HTMLElement>} */
  #elements = new Map();
  /** @type {Set<Line>} */
  #changed = new Set();
  #frame = 0;
  /** @type {string | undefined} */
  #previous;
  #loading = false;
  /** @type {Thread | undefined} */
  #thread;
  /** @type {Follower | undefined} */
  #follower;
  #aborted = new AbortController();
  #stuck = true;
  #filter = { agent: "", kind: "" };
  /** What waits for its turn: nothing of it is stored yet. @type {components["schemas"]["QueueItem"][]} */
  #queued = [];
  #queueTimer = 0;

  connectedCallback() {
    this.lines = h("div", { class: "lines", role: "log", "aria-label": "Thread", "aria-live": "off" });
    this.top = h("div", { class: "earlier" });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.activity = h("div", { class: "activity", role: "status" });
    this.newest = button("↓ Newest", () => this.#toEnd(), { class: "newest", hidden: true });
    this.scroller = h("div", { class: "scroller", tabIndex: this.nested ? -1 : 0, onscroll: () => this.#scrolled() }, this.top, this.lines, this.error);
    this.connection = h("span", { class: "connection", role: "status" });
    if (this.nested) {
      this.classList.add("nested");
      fill(this, this.scroller);
    } else {
      this.heading = h("header", { class: "thread-header" });
      this.composer = /** @type {import("./composer.js").Composer} */ (h("tm-composer", { threadId: this.threadId, busy: () => this.#timeline.current !== undefined }));
      this.side = h("aside", { class: "side", hidden: true, "aria-label": "Details" });
      fill(this, h("div", { class: "thread-main" }, this.heading, this.scroller, this.newest, this.activity, this.composer), this.side);
      this.composer.addEventListener("posted", () => {
        this.#toEnd();
        this.#lookAtQueue();
      });
    }
    const more = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && this.#earlier(), { root: this.nested ? null : this.scroller, rootMargin: "800px" });
    more.observe(this.top);
    this.more = more;
    // Lines grow after they were added, as Markdown is rendered and details are unfolded.
    this.grown = new ResizeObserver(() => this.#stuck && this.#toEnd());
    this.grown.observe(this.lines);
    this.grown.observe(this.scroller);
    this.#open();
  }

  disconnectedCallback() {
    this.#follower?.stop();
    this.#aborted.abort();
    clearTimeout(this.#queueTimer);
    this.more?.disconnect();
    this.grown?.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  get #context() {
    return {
      threadId: this.threadId, nested: this.nested, why: (/** @type {Line} */ line) => this.#why(line),
      retriable: (/** @type {Line} */ line) => {
        const { failed, errors } = this.#timeline;
        return failed.has(line.eventId ?? "") && (errors.get(line.eventId ?? "") ?? line.key) === line.key;
      },
    };
  }

  async #open() {
    fill(/** @type {Element} */ (this.top), h("p", { class: "hint" }, "Loading…"));
    try {
      const [thread, page] = await Promise.all([client.thread(this.threadId), client.eventsBefore(this.threadId, { limit: PAGE, signal: this.#aborted.signal })]);
      if (this.#aborted.signal.aborted) return;
      this.#thread = thread;
      for (const e of page.events) this.#timeline.apply(e, e.id);
      this.#previous = page.previous;
      this.#build(this.#timeline.lines);
      this.#showTop();
      this.#showHeader();
      this.#showActivity();
      this.#lookAtQueue();
      if (this.anchor) await this.#find(this.anchor);
      else this.#toEnd();
      this.#follow(page.lastEventId ?? "");
      if (!this.nested && !this.anchor && matchMedia("(min-width: 800px)").matches) this.composer?.focus();
    } catch (error) {
      if (this.#aborted.signal.aborted) return;
      fill(/** @type {Element} */ (this.top), h("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message),
        button("Try again", () => this.#open()));
    }
  }

  /** @param {string} lastEventId */
  #follow(lastEventId) {
    this.#follower = new Follower((options) => client.watch(this.threadId, options), (options) => this.#ask(options),
      (e, id) => this.#receive(e, id),
      (state, error) => {
        this.dispatchEvent(new CustomEvent("connection", { bubbles: true, detail: { state, error } }));
        if (state === "closed" && error) {
          fill(/** @type {Element} */ (this.error), error.message);
          /** @type {HTMLElement} */ (this.error).hidden = false;
        }
      });
    this.#follower.start(lastEventId);
  }

  /** Asks for the stored events after the last one. @param {import("./follower.js").Following} following */
  async #ask({ lastEventId, signal, onEvent, onState }) {
    for (let cursor = lastEventId || "0"; cursor; ) {
      const page = await client.eventsAfter(this.threadId, { cursor, limit: PAGE, signal });
      for (const e of page.events) {
        onEvent(e, e.id ?? "");
        if (e.type === "status" && e.status.status === "closed") return onState("closed");
      }
      cursor = page.next ?? "";
    }
  }

  /** @param {AgentEvent} e @param {string} id */
  #receive(e, id) {
    if (e.type === "gap" && id === "0") {
      // The store has lost records: all that remain follow.
      this.#timeline = new Timeline();
      this.#elements.clear();
      fill(/** @type {Element} */ (this.lines));
      this.#previous = undefined;
      this.#showTop();
    }
    for (const line of this.#timeline.apply(e, id)) this.#changed.add(line);
    // Messages leave the queue when their turn begins; statuses tell what was moved, dropped or ended.
    if (e.type === "status" || (e.type === "message" && e.message.senderType === "user")) this.#lookAtQueue();
    if (e.type === "status") {
      if (this.#thread && e.status.status === "updated") {
        this.#thread = { ...this.#thread, title: e.status.title ?? this.#thread.title, agents: e.status.agents ?? this.#thread.agents };
      }
      if (this.#thread && e.status.status === "closed") this.#thread = { ...this.#thread, status: "closed" };
      this.#showHeader();
      // Buttons to retry come and go with the state of their turn.
      for (const line of this.#timeline.lines) {
        if (line.eventId === e.eventId && line.eventId && (line.kind === "status" || line.kind === "error" || line.error)) {
          line.version++;
          this.#changed.add(line);
        }
      }
    }
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }

  /** Shows what has changed since the last frame. */
  #show() {
    this.#frame = 0;
    const stuck = this.#stuck;
    for (const line of this.#changed) {
      const element = this.#elements.get(line.key);
      if (this.#timeline.byKey.get(line.key) !== line) {
        element?.remove();
        this.#elements.delete(line.key);
      } else if (element) {
        showLine(element, line, this.#context);
        this.#hide(element, line);
      } else this.#build([line]);
    }
    this.#changed.clear();
    this.#beside();
    if (this.#previous === undefined && this.top?.firstChild) this.#showTop(); // something has happened
    this.#showActivity();
    if (stuck) this.#toEnd();
    else if (this.newest) this.newest.hidden = false;
  }

  /** Adds elements at the end, or before another. @param {Line[]} lines @param {Element | null} [before] */
  #build(lines, before = null) {
    const added = document.createDocumentFragment();
    for (const line of lines) {
      const element = lineElement(line, this.#context);
      this.#hide(element, line);
      this.#elements.set(line.key, element);
      added.append(element);
    }
    this.lines?.insertBefore(added, before);
  }

  /** Puts messages side by side that agents write at the same time. They stay where they were read. */
  #beside() {
    /** @type {Line[]} */
    let group = [];
    const place = () => {
      if (new Set(group.map((line) => line.agent)).size > 1) for (const line of group) this.#elements.get(line.key)?.setAttribute("data-beside", "");
      group = [];
    };
    for (const line of this.#timeline.lines.slice(-MAX_BESIDE)) {
      if (line.kind === "message" && (line.state === "streaming" || this.#elements.get(line.key)?.hasAttribute("data-beside"))) group.push(line);
      else place();
    }
    place();
  }

  #showTop() {
    fill(/** @type {Element} */ (this.top), this.#previous !== undefined
      ? button("Show earlier", () => this.#earlier(), { class: "quiet" })
      : this.#timeline.lines.length === 0 && h("p", { class: "hint" }, "Nothing has happened here yet."));
  }

  /** Loads the page before the first one. @returns {Promise<boolean>} Whether there was one. */
  async #earlier(limit = PAGE) {
    if (this.#loading || this.#previous === undefined || this.lines?.childElementCount === 0) return false;
    this.#loading = true;
    try {
      const page = await client.eventsBefore(this.threadId, { before: this.#previous, limit, signal: this.#aborted.signal });
      const earlier = new Timeline();
      for (const e of page.events) earlier.apply(e, e.id);
      this.#previous = page.previous;
      const scroller = /** @type {HTMLElement} */ (this.scroller);
      const fromEnd = scroller.scrollHeight - scroller.scrollTop;
      const { added, merged } = this.#timeline.prepend(earlier);
      for (const line of merged) {
        this.#elements.get(line.key)?.remove();
        this.#elements.delete(line.key);
      }
      this.#build(added, this.lines?.firstElementChild ?? null);
      this.#showTop();
      this.#showHeader();
      if (!this.nested) scroller.scrollTop = scroller.scrollHeight - fromEnd;
      return true;
    } catch (error) {
      if (!this.#aborted.signal.aborted) notify(/** @type {Error} */ (error).message, "error");
      return false;
    } finally {
      this.#loading = false;
    }
  }

  /** Shows a line, however far back it is. @param {string} key */
  async #find(key) {
    while (!this.#elements.has(key) && (await this.#earlier(1000))) { /* the next page */ }
    const element = this.#elements.get(key);
    if (!element) {
      notify("The record of this link is not in the thread.", "error");
      return this.#toEnd();
    }
    this.#stuck = false;
    element.scrollIntoView({ block: "center" });
    element.classList.add("target");
    element.focus({ preventScroll: true });
  }

  /** Shows another line of the same thread. @param {string} key */
  show(key) {
    if (key) this.#find(key);
    else this.#toEnd();
  }

  #toEnd() {
    if (this.nested || !this.scroller) return;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#stuck = true;
    if (this.newest) this.newest.hidden = true;
  }

  #scrolled() {
    const s = /** @type {HTMLElement} */ (this.scroller);
    this.#stuck = s.scrollHeight - s.scrollTop - s.clientHeight < NEAR;
    if (this.newest) this.newest.hidden = this.#stuck;
  }

  /** Looks soon at what waits, once for several changes. */
  #lookAtQueue() {
    if (this.nested) return;
    clearTimeout(this.#queueTimer);
    this.#queueTimer = window.setTimeout(async () => {
      if (this.#timeline.current === undefined) this.#queued = [];
      else {
        try {
          this.#queued = (await client.request("GET /v1/threads/{id}/queue", { path: { id: this.threadId }, signal: this.#aborted.signal })).items;
        } catch { /* no worker answers now; the next change asks again */ }
      }
      this.#showActivity();
    }, 200);
  }

  #showActivity() {
    const turn = this.#timeline.current;
    if (!this.activity || this.nested) return;
    const waiting = this.#timeline.waiting;
    const queued = this.#queued.filter((item) => !this.#timeline.turns.has(item.id));
    const retry = turn && this.#timeline.retrying.get(turn.id);
    fill(this.activity, turn && h("div", { class: "row" },
      h("span", { class: waiting.length > 0 ? "pulse waiting" : "pulse", "aria-hidden": "true" }),
      h("span", { class: "grow" }, waiting.length > 0 ? `Waits for people: ${waiting.map((l) => l.name).join(", ")}` : retry?.next
        ? `${cut(retry.next, 60)} is called instead of ${cut(retry.failed?.at(-1)?.model ?? "another model", 60)}${retry.error ? ` (${cut(retry.error, 80)})` : ""}` : retry
        ? `The model call failed ${retry.attempts} times${retry.error ? ` (${cut(retry.error, 80)})` : ""}; it is tried again`
        : "Working", `: “${cut(turn.text || "an event", 60)}”`,
      queued.length > 0 && button(`${queued.length} queued`, () => this.#details("queue"), { class: "quiet", title: queued.map((item) => itemText(item, 60)).join("\n") })),
      may("operate") && h("button", {
        type: "button", class: "danger", "aria-label": `Stop “${cut(turn.text || "the event", 24)}”`,
        onclick: (/** @type {Event} */ e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#stop(turn.id)),
      }, "Stop", h("span", { class: "what" }, ` “${cut(turn.text || "the event", 24)}”`))));
    this.composer?.showBusy(turn !== undefined);
  }

  /** @param {string} eventId */
  async #stop(eventId) {
    return client.interrupt(this.threadId, { eventId, by: await person() });
  }

  #showHeader() {
    const t = this.#thread;
    if (!this.heading || !t) return;
    document.title = `${t.title || t.id} · Threadmill`;
    const agents = [...new Set([...(t.agents ?? []), ...this.#timeline.agents])];
    const temporal = workflowURL(t.id);
    const select = (/** @type {string} */ label, /** @type {"agent" | "kind"} */ field, /** @type {[string, string][]} */ options) =>
      h("select", { "aria-label": label, onchange: (/** @type {Event} */ e) => this.#setFilter(field, /** @type {HTMLSelectElement} */ (e.target).value) },
        options.map(([value, text]) => h("option", { value, selected: this.#filter[field] === value }, text)));
    fill(this.heading,
      h("div", { class: "row" },
        h("a", { href: "#/", class: "back", "aria-label": "Back to the list" }, "‹"),
        h("h1", null, t.title || t.id),
        h("span", { class: `badge ${t.status}` }, t.status === "closed" ? "closed" : undefined),
        h("span", { class: "grow" }),
        select("Show agent", "agent", [["", "all agents"], ...agents.map((a) => /** @type {[string, string]} */ ([a, a]))]),
        select("Show kind", "kind", [["", "everything"], ["message", "messages"], ["tool", "tools"], ["event", "events"], ["status", "status"]]),
        h("details", { class: "menu" }, h("summary", { "aria-label": "More actions" }, "⋯"), h("div", { class: "menu-items" },
          may("operate") && t.status === "open" && button("Rename…", () => this.#rename()),
          button("Export as JSON", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#export("json"))),
          button("Export as Markdown", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#export("markdown"))),
          temporal && h("a", { href: temporal, target: "_blank", rel: "noopener" }, "Open in Temporal"),
          may("operate") && t.status === "open" && button("Close the thread…", () => this.#close(), { class: "danger" }))),
        button("Details", () => this.#details("thread"), { class: "quiet", "aria-expanded": String(!this.side?.hidden) })),
      h("p", { class: "hint" }, h("code", null, t.id), t.parent && [" in ", h("a", { href: `#/threads/${encodeURIComponent(t.parent)}` }, t.parent)], agents.length > 0 && ` · ${agents.join(", ")}`));
    if (this.composer) {
      this.composer.agents = agents;
      this.composer.closed = t.status === "closed";
    }
  }

  /** @param {"agent" | "kind"} field @param {string} value */
  #setFilter(field, value) {
    this.#filter[field] = value;
    for (const line of this.#timeline.lines) {
      const element = this.#elements.get(line.key);
      if (element) this.#hide(element, line);
    }
    this.#toEnd();
  }

  /** @param {HTMLElement} element @param {Line} line */
  #hide(element, line) {
    const { agent, kind } = this.#filter;
    const kinds = kind === "status" ? ["status", "error", "gap"] : [kind];
    element.hidden = (line.repeats !== undefined && kind !== "status") || (agent !== "" && line.agent !== undefined && line.agent !== agent) || (kind !== "" && !kinds.includes(line.kind));
  }

  async #rename() {
    const title = h("input", { value: this.#thread?.title ?? "", maxLength: 200, "aria-label": "Title" });
    const dialog = h("dialog", null, h("form", { method: "dialog" }, h("h2", null, "Rename the thread"), title,
      h("div", { class: "row" }, h("button", { value: "save", class: "primary" }, "Save"), h("button", { value: "" }, "Cancel"))));
    if ((await ask(dialog)) !== "save") return;
    await act(null, async () => client.request("PATCH /v1/threads/{id}", { path: { id: this.threadId }, body: { title: title.value, by: await person() } }));
  }

  async #close() {
    if (!(await confirmed("Close the thread?", "It settles what is pending, and then accepts nothing more. It can still be read.", "Close it"))) return;
    await act(null, async () => client.request("DELETE /v1/threads/{id}", { path: { id: this.threadId }, query: { by: await person() } }));
  }

  /** @param {"json" | "markdown"} form */
  async #export(form) {
    /** @type {AgentEvent[]} */
    const events = [];
    for (let cursor = "0"; cursor; ) {
      const page = await client.eventsAfter(this.threadId, { cursor, limit: 1000 });
      events.push(...page.events);
      cursor = page.next ?? "";
    }
    if (form === "json") return download(`${this.threadId}.json`, "application/json", JSON.stringify({ thread: this.#thread, events }, null, 2));
    const timeline = new Timeline();
    for (const e of events) timeline.apply(e, e.id);
    return download(`${this.threadId}.md`, "text/markdown", [`# ${this.#thread?.title || this.threadId}\n`, ...timeline.lines.map(asMarkdown)].join("\n"));
  }

  /** @param {Line} line */
  #why(line) {
    this.#openSide();
    showWhy(/** @type {Element} */ (this.side), this.threadId, line, () => this.#closeSide());
  }

  /** @param {"thread" | "queue"} part */
  #details(part) {
    if (!this.side?.hidden && part === "thread") return this.#closeSide();
    this.#openSide();
    if (this.#thread) showDetails(/** @type {Element} */ (this.side), this.#thread, part, () => this.#closeSide());
  }

  #openSide() {
    if (this.side) this.side.hidden = false;
    this.classList.add("with-side");
  }

  #closeSide() {
    if (this.side) this.side.hidden = true;
    this.classList.remove("with-side");
  }
}

/** @param {Line} line */
function asMarkdown(line) {
  const at = line.createdAt ? ` (${line.createdAt})` : "";
  switch (line.kind) {
    case "message":
      return `## ${line.agent ?? line.sender}${at}\n\n${line.text}\n`;
    case "tool":
      return `### ${line.name}${at}\n\n${fence(pretty(line.args ?? ""), "json")}${line.output === undefined ? "" : `\n${fence(line.output, "")}`}`;
    case "event":
      return `### Event ${line.event?.type}${at}\n\n${fence(pretty(line.event?.payload), "json")}`;
    case "status":
      return `*${statusText(/** @type {NonNullable<Line["status"]>} */ (line.status))}${at}*\n`;
  }
  return `*${line.text}${at}*\n`;
}

/** @param {string} text @param {string} language */
function fence(text, language) {
  const ticks = "`".repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
  return `${ticks}${language}\n${text}\n${ticks}\n`;
}

customElements.define("tm-thread", ThreadView);
