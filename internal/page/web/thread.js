// One thread: its lines, live, and what a person can do with it.

import "./composer.js";
import "./presence.js";
import { besideOf } from "./beside.js";
import { counter } from "./counter.js";
import { ask, confirmed, isCovered } from "./dialog.js";
import { act, button, cut, download, fill, h, notify, pretty } from "./dom.js";
import { markText } from "./find.js";
import { Follower } from "./follower.js";
import { keysAreOn } from "./keyboard.js";
import { mayLeave } from "./leaving.js";
import { LineView, statusText } from "./lines.js";
import { hasText, isError, nextLine } from "./matches.js";
import { Paced } from "./paced.js";
import { person } from "./person.js";
import { renew } from "./renew.js";
import { client, may, server, workflowURL } from "./session.js";
import { Timeline } from "./timeline.js";
import { VirtualList } from "./virtuallist.js";

/** @import { components } from "./client/api.js" */
/** @import { AgentEvent, EventPage, Thread } from "./client/threadmill.js" */
/** @import { Line } from "./timeline.js" */

/** Records of one page. */
const PAGE = 200;

/** How tall a line is that was not shown yet, how far beyond the window there are lines, and how near the first or last line the next page is loaded. In pixels. */
const LINE = 90,
  BEYOND = 600,
  NEAR = 1500;

/** Records of a page that is searched, and the most that are loaded until the person is asked to go on. */
const SEARCHED = 1000,
  MAX_SEARCHED = 10_000;

/** Records before and after the line to which a link leads. */
const AROUND = 100;

/** Events that change nothing beside the thread. @type {Set<AgentEvent["type"]>} */
const LIVE = new Set(["stream", "thought", "tool_progress", "reset"]);

/** What is beside the thread is read so long after an event, and not more often than its pace. In milliseconds. */
const SIDE_DELAY = 300,
  SIDE_PACE = 1000;

/** Is shown in place of a line that has just gone, until the next frame. @type {Line} */
const GONE = { key: "", kind: "gap", version: 0, text: "" };

/** @typedef {{ timeline: Timeline, events: Set<string>, previous?: string, next?: string }} Part Lines that follow each other, the ids of their events, and the cursors of the pages before and after them. */

/** The filters of the header: their labels and fields. */
const FILTERS = /** @type {const} */ ([
  ["Show agent", "agent"],
  ["Show kind", "kind"],
]);

export class ThreadView extends HTMLElement {
  threadId = "";
  /** The key of the line to show first. */
  anchor = "";
  /** The place of its first event, if the address has it. @type {string | undefined} */
  place;
  nested = false;

  /** The end of the thread, which grows. @type {Part} */
  #live = partOf([]);
  /** What a link led to, if it is so far back that lines between it and the live part are missing. @type {Part | undefined} */
  #past;
  /** @type {VirtualList | undefined} */
  #list;
  /** What the elements of the lines show. @type {WeakMap<Element, LineView>} */
  #views = new WeakMap();
  /** The lines that the list has: of which timeline, and after how many changes of it. @type {{ timeline?: Timeline, changes: number }} */
  #listed = { changes: 0 };
  /** The line to which a link led. */
  #target = "";
  /** The messages that stand side by side. @type {Set<string>} */
  #beside = new Set();
  #frame = 0;
  /** Resolves when a page is loaded, to whether it could be. @type {Promise<boolean> | undefined} */
  #loading;
  /** @type {Thread | undefined} */
  #thread;
  /** @type {Follower<AgentEvent> | undefined} */
  #follower;
  #aborted = new AbortController();
  /** The search for the next error. */
  #stepping = new AbortController();
  #filter = { agent: "", kind: "" };
  /** What waits for its turn: nothing of it is stored yet. @type {components["schemas"]["QueueItem"][]} */
  #queued = [];
  #queueTimer = 0;
  /** Shows what waits, once something does. @type {import("./queue.js").Queue | undefined} */
  #queue;
  /** What is beside the thread, if that can change. @type {{ refresh: () => Promise<void>, showProgress: () => void } | undefined} */
  #sideView;
  #sideReading = new Paced(async () => {
    await new Promise((resolve) => setTimeout(resolve, SIDE_DELAY)); // until the thread has taken note of what it has just recorded
    await this.#sideView?.refresh();
  }, SIDE_PACE);

  connectedCallback() {
    this.lines = h("div", { class: "lines", role: "feed", "aria-label": "Thread" });
    this.top = h("div", { class: "earlier" });
    this.bottom = h(
      "div",
      { class: "earlier", hidden: true },
      button("Show later", () => this.#later(), { class: "quiet" }),
    );
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.activity = h("div", { class: "activity", role: "status" });
    this.newest = button("↓ Newest", () => this.#toEnd(), { class: "newest", hidden: true });
    this.scroller = h("div", { class: "scroller", tabIndex: this.nested ? -1 : 0 }, this.top, this.lines, this.bottom, this.error);
    this.connection = h("span", { class: "connection", role: "status" });
    if (this.nested) {
      this.classList.add("nested");
      fill(this, this.scroller);
    } else {
      this.heading = h("header", { class: "thread-header" });
      this.composer = /** @type {import("./composer.js").Composer} */ (
        h("tm-composer", { threadId: this.threadId, busy: () => this.#live.timeline.current !== undefined })
      );
      this.side = h("aside", { class: "side", hidden: true, "aria-label": "Details" });
      this.finder = /** @type {import("./find.js").FindBar} */ (h("tm-find"));
      this.finder.find = (text, step, signal) => this.#find(text, step, signal);
      this.finder.closed = () => {
        markText(undefined, "");
        this.scroller?.focus({ preventScroll: true });
      };
      document.addEventListener("keydown", (e) => this.#key(e), { signal: this.#aborted.signal });
      fill(
        this,
        h(
          "div",
          { class: "thread-main" },
          this.heading,
          h("tm-presence", { threadId: this.threadId }),
          this.finder,
          this.scroller,
          this.newest,
          this.activity,
          this.composer,
        ),
        this.side,
      );
      this.composer.addEventListener("posted", () => {
        this.#toEnd();
        this.#lookAtQueue();
      });
    }
    document.addEventListener("signed-in", () => this.#resume(), { signal: this.#aborted.signal });
    const scroller = /** @type {HTMLElement} */ (this.nested ? this.parentElement?.closest(".scroller") : this.scroller);
    this.more = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) if (isIntersecting) target === this.top ? this.#earlier() : this.#later();
      },
      { root: scroller, rootMargin: `${NEAR}px` },
    );
    this.#watchEnds();
    this.#list = new VirtualList({
      list: this.lines,
      scroller,
      estimate: LINE,
      overscan: BEYOND,
      log: !this.nested,
      make: (key) => {
        const view = new LineView(this.#line(key), this.#context);
        this.#views.set(view.element, view);
        this.#mark(view.element, key);
        return view.element;
      },
      show: (element, key) => {
        this.#views.get(element)?.show(this.#line(key), this.#context);
        this.#mark(element, key);
      },
      moved: () => this.#showNewest(),
    });
    this.#open();
  }

  disconnectedCallback() {
    this.#follower?.stop();
    this.#aborted.abort();
    clearTimeout(this.#queueTimer);
    this.#sideReading.stop();
    this.more?.disconnect();
    this.#list?.stop();
    cancelAnimationFrame(this.#frame);
  }

  get #context() {
    return {
      threadId: this.threadId,
      nested: this.nested,
      partial: this.#past !== undefined,
      why: (/** @type {Line} */ line) => this.#why(line),
      turn: (/** @type {Line} */ line) => this.#turn(line.eventId),
      retriable: (/** @type {Line} */ line) => {
        const { failed, errors } = this.#part.timeline;
        return this.#past === undefined && failed.has(line.eventId ?? "") && (errors.get(line.eventId ?? "") ?? line.key) === line.key;
      },
    };
  }

  /** The part that is shown. */
  get #part() {
    return this.#past ?? this.#live;
  }

  /** @param {string} key */
  #line(key) {
    return this.#part.timeline.byKey.get(key) ?? GONE;
  }

  /** Marks a line if a link has led to it, or if it stands beside another. @param {HTMLElement} element @param {string} key */
  #mark(element, key) {
    element.toggleAttribute("data-target", key === this.#target);
    element.toggleAttribute("data-beside", this.#filter.agent === "" && this.#beside.has(key));
  }

  async #open() {
    const focused = document.activeElement;
    fill(/** @type {Element} */ (this.top), h("p", { class: "hint" }, "Loading…"));
    try {
      const [thread, page] = await Promise.all([
        client.thread(this.threadId),
        client.eventsBefore(this.threadId, { limit: PAGE, signal: this.#aborted.signal }),
      ]);
      if (this.#aborted.signal.aborted) return;
      this.#thread = thread;
      this.#live = { ...partOf(page.events), previous: page.previous };
      this.#showHeader();
      this.#showActivity();
      this.#lookAtQueue();
      if (this.anchor) await this.#goTo(this.anchor, this.place);
      else this.#toEnd();
      this.#follow(page.lastEventId ?? "");
      // Who has gone on meanwhile, such as to the next row of the list, stays there: the next key would be written here.
      const stayed = [focused, document.body].includes(document.activeElement);
      if (stayed && !this.nested && !this.anchor && matchMedia("(min-width: 800px)").matches) this.composer?.focus();
    } catch (error) {
      if (this.#aborted.signal.aborted) return;
      fill(
        /** @type {Element} */ (this.top),
        h("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message),
        button("Try again", () => this.#open()),
      );
    }
  }

  /** @param {string} lastEventId */
  #follow(lastEventId) {
    this.#follower = new Follower(
      (options) => client.watch(this.threadId, options),
      (options) => this.#ask(options),
      (e, id) => this.#receive(e, id),
      (state, error) => {
        this.dispatchEvent(new CustomEvent("connection", { bubbles: true, detail: { state, error } }));
        if (state === "closed" && error) {
          fill(/** @type {Element} */ (this.error), error.message);
          /** @type {HTMLElement} */ (this.error).hidden = false;
        }
      },
    );
    this.#follower.start(lastEventId);
  }

  /** Follows the thread again, if its stream was refused. */
  #resume() {
    const error = /** @type {HTMLElement} */ (this.error);
    if (error.hidden || !this.#follower) return;
    error.hidden = true;
    this.#follow(this.#follower.lastEventId);
  }

  /** Asks for the stored events after the last one. @param {import("./follower.js").Following<AgentEvent>} following */
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
      this.#live = partOf([]);
      this.#past = undefined;
    }
    this.#live.timeline.apply(e, id);
    if (this.#sideView && !LIVE.has(e.type)) this.#sideReading.refresh();
    // Messages leave the queue when their turn begins; statuses tell what was moved, dropped or ended.
    if (e.type === "status" || (e.type === "message" && e.message.senderType === "user")) this.#lookAtQueue();
    if (e.type === "status") {
      if (this.#thread && e.status.status === "updated") {
        this.#thread = { ...this.#thread, title: e.status.title ?? this.#thread.title, agents: e.status.agents ?? this.#thread.agents };
      }
      if (this.#thread && e.status.status === "closed") this.#thread = { ...this.#thread, status: "closed" };
      this.#showHeader();
      // Buttons to retry come and go with the state of their turn.
      for (const line of this.#live.timeline.lines) {
        if (line.eventId === e.eventId && line.eventId && (line.kind === "status" || line.kind === "error" || line.error)) line.version++;
      }
    }
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }

  /** Shows what has changed since the last frame. */
  #show() {
    this.#frame = 0;
    this.#showLines();
    this.#showActivity();
    this.#showNewest();
    this.#sideView?.showProgress();
  }

  /** Shows the lines as they are now. */
  #showLines() {
    const { timeline, previous, next } = this.#part;
    const list = /** @type {VirtualList} */ (this.#list);
    if (timeline === this.#listed.timeline && timeline.changes === this.#listed.changes) return list.render();
    this.#listed = { timeline, changes: timeline.changes };
    for (const { key } of besideOf(timeline.lines, this.#beside).flat()) this.#beside.add(key);
    list.follows = this.#past === undefined;
    list.set(
      timeline.lines.filter((line) => this.#isShown(line)).map((line) => line.key),
      previous !== undefined || next !== undefined,
    );
    fill(
      /** @type {Element} */ (this.top),
      previous !== undefined
        ? button("Show earlier", () => this.#earlier(), { class: "quiet" })
        : timeline.lines.length === 0 && h("p", { class: "hint" }, "Nothing has happened here yet."),
    );
    /** @type {HTMLElement} */ (this.bottom).hidden = this.#past === undefined;
  }

  /** Loads pages as soon as the first or the last line is near. */
  #watchEnds() {
    for (const end of [this.top, this.bottom]) {
      this.more?.unobserve(/** @type {Element} */ (end));
      this.more?.observe(/** @type {Element} */ (end));
    }
  }

  /** Loads the page before the first line. */
  #earlier(limit = PAGE) {
    const part = this.#part;
    return this.#load(part.previous, async (before) => {
      const page = await client.eventsBefore(this.threadId, { before, limit, signal: this.#aborted.signal });
      prepend(part, { ...partOf(page.events), previous: page.previous });
    });
  }

  /** Loads the page after the last line of the past. */
  #later() {
    const past = this.#past;
    return this.#load(past?.next, async (cursor) => {
      const page = await client.eventsAfter(this.threadId, { cursor, limit: PAGE, signal: this.#aborted.signal });
      if (past && past === this.#past) this.#append(past, page);
    });
  }

  /** Loads a page, or waits for the one that is being loaded. @param {string | undefined} cursor @param {(cursor: string) => Promise<void>} load */
  #load(cursor, load) {
    if (cursor === undefined) return Promise.resolve(false);
    return (this.#loading ??= this.#loadPage(() => load(cursor)).finally(() => {
      this.#loading = undefined;
    }));
  }

  /** @param {() => Promise<void>} load @returns {Promise<boolean>} Whether it was loaded. */
  async #loadPage(load) {
    try {
      const before = this.#list?.length;
      await load();
      this.#showLines();
      this.#showHeader();
      if (this.#list?.length !== before) this.#watchEnds(); // otherwise the filter hides the whole page
      return true;
    } catch (error) {
      if (!this.#aborted.signal.aborted) notify(/** @type {Error} */ (error).message, "error");
      return false;
    }
  }

  /** Adds a page to the past, which becomes one with the live part where they meet. @param {Part} past @param {EventPage} page */
  #append(past, { events, next }) {
    const meet = events.findIndex((e) => this.#live.events.has(e.id ?? ""));
    add(past, meet < 0 ? events : events.slice(0, meet));
    past.next = next;
    if (meet < 0 && next !== undefined) return;
    prepend(this.#live, past);
    this.#past = undefined;
  }

  /** Shows a line, however far back it is. @param {string} key @param {string} [place] */
  async #goTo(key, place) {
    try {
      if (!this.#part.timeline.byKey.has(key)) {
        if (!(await mayLeave())) return;
        await this.#loadAround(key, place);
      }
    } catch (error) {
      if (this.#aborted.signal.aborted) return;
      notify(/** @type {Error} */ (error).message, "error");
    }
    const line = this.#part.timeline.byKey.get(key);
    if (!line) {
      notify("The record of this link is not in the thread.", "error");
      return this.#toEnd();
    }
    if (!this.#isShown(line)) this.#setFilter({ agent: "", kind: "" });
    this.#showTarget(line.repeats ?? key)?.focus({ preventScroll: true });
  }

  /** Shows a line in the middle of the window, and marks it. @param {string} key */
  #showTarget(key) {
    this.#target = key;
    this.#showLines();
    const element = this.#list?.show(key);
    this.#showNewest();
    this.#watchEnds();
    return element;
  }

  /** Shows the next line with a text. @param {string} text @param {1 | -1} step @param {AbortSignal} signal */
  async #find(text, step, signal) {
    const { outcome, element } = await this.#search((line) => hasText(line, text), step, signal);
    if (!element) return outcome;
    this.#views.get(element)?.reveal(text);
    markText(element, text);
    return outcome;
  }

  /** Shows the next line with an error. @param {1 | -1} step */
  async #nextError(step) {
    this.#stepping.abort();
    const { signal } = (this.#stepping = new AbortController());
    const { outcome, element } = await this.#search(isError, step, signal);
    if (signal.aborted) return;
    if (element) element.focus({ preventScroll: true });
    else if (outcome === "more") notify(`The ${MAX_SEARCHED.toLocaleString()} records before have no error. Press [ to search further.`);
    else notify(step < 0 ? "There is no earlier error." : "There is no later error.");
  }

  /**
   * Shows the next line that matches. Pages are loaded until there is one, up to a limit.
   * @param {(line: Line) => boolean} matches @param {1 | -1} step @param {AbortSignal} signal
   * @returns {Promise<{ outcome: import("./find.js").Outcome, element?: HTMLElement }>}
   */
  async #search(matches, step, signal) {
    const lines = () => this.#part.timeline.lines.filter((line) => this.#isShown(line));
    let from = lines().findIndex((line) => line.key === this.#target);
    if (from < 0 && step < 0) from = lines().length;
    let searched = 0;
    for (let known = lines(); !signal.aborted; known = lines()) {
      const found = nextLine(known, matches, from, step);
      if (found >= 0) return { outcome: "found", element: this.#showTarget(known[found].key) };
      if (searched >= MAX_SEARCHED && (step < 0 ? this.#part.previous : this.#past?.next) !== undefined) return { outcome: "more" };
      if (!(await (step < 0 ? this.#earlier(SEARCHED) : this.#later()))) return { outcome: "none" };
      searched += step < 0 ? SEARCHED : PAGE;
      from = step < 0 ? lines().length - known.length : known.length - 1;
    }
    return { outcome: "none" };
  }

  /** Loads a line with what is around it. @param {string} key @param {string} [place] */
  async #loadAround(key, place) {
    const { previous, timeline } = this.#live;
    this.#past = undefined;
    if (previous === undefined || timeline.byKey.has(key)) return;
    const { signal } = this.#aborted;
    const before = (/** @type {string} */ place) => client.eventsBefore(this.threadId, { before: place, limit: AROUND, signal });
    const after = (/** @type {{ cursor?: string, event?: string }} */ from) => client.eventsAfter(this.threadId, { ...from, limit: AROUND, signal });
    let earlier = place && (await before(place));
    const later = await after(earlier ? { cursor: earlier.lastEventId ?? "0" } : { event: key.replace(/^\w:/, "") });
    const first = later.events[0]?.id;
    if (first === undefined || this.#live.events.has(first)) return;
    earlier ||= await before(first);
    this.#past = { ...partOf(earlier.events), previous: earlier.previous };
    this.#append(this.#past, later);
  }

  /** Shows another line of the same thread. @param {string} key @param {string} [place] */
  show(key, place) {
    if (key) this.#goTo(key, place);
    else this.#toEnd();
  }

  #toEnd() {
    this.#past = undefined;
    this.#showLines();
    if (!this.nested) this.#list?.toEnd();
    this.#showNewest();
    this.#watchEnds();
  }

  #showNewest() {
    if (this.newest) this.newest.hidden = this.#past === undefined && this.#list?.stuck === true;
  }

  /** Finds with the keys of the browser's own search, which the same keys open from there, and goes to errors. @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {Element} */ (e.target);
    if (e.defaultPrevented || e.altKey || isCovered()) return;
    const control = e.ctrlKey || e.metaKey;
    if (control && e.key === "f" && !e.shiftKey && !this.finder?.contains(document.activeElement)) this.finder?.open();
    else if (!control && (e.key === "[" || e.key === "]") && keysAreOn() && !target.matches("input, textarea, select")) {
      if (!e.repeat) this.#nextError(e.key === "[" ? -1 : 1);
    } else if (!control && e.key === "t" && keysAreOn() && may("operate") && !target.matches("input, textarea, select")) {
      if (!e.repeat) this.#turn(undefined);
    } else return;
    e.preventDefault();
  }

  /** Looks soon at what waits, once for several changes. */
  #lookAtQueue() {
    if (this.nested) return;
    clearTimeout(this.#queueTimer);
    this.#queueTimer = window.setTimeout(async () => {
      // Between two turns none is in progress, and the queue has the next ones.
      if (this.#live.timeline.current !== undefined || this.#queued.length > 0) {
        try {
          this.#queued = (await client.request("GET /v1/threads/{id}/queue", { path: { id: this.threadId }, signal: this.#aborted.signal })).items;
        } catch {
          /* no worker answers now; the next change asks again */
        }
      }
      this.#showActivity();
    }, 200);
  }

  /** Loads what shows the queue, once something waits. */
  async #openQueue() {
    try {
      await import("./queue.js");
    } catch {
      return; // the next change loads it again
    }
    if (this.#queue || !this.error) return;
    this.#queue = /** @type {import("./queue.js").Queue} */ (h("tm-queue", { threadId: this.threadId, changed: () => this.#lookAtQueue() }));
    this.error.before(this.#queue);
    this.#showActivity();
  }

  /** Shows what waits at the end of the thread. @returns {number} How many events do. */
  #showQueue() {
    const queued = this.#queued.filter((item) => !this.#live.timeline.turns.has(item.id));
    if (this.#queue) this.#queue.show(queued, this.#past !== undefined);
    else if (queued.length > 0) void this.#openQueue();
    this.#list?.refresh();
    return queued.length;
  }

  #showActivity() {
    const turn = this.#live.timeline.current;
    if (!this.activity || this.nested) return;
    const queued = this.#showQueue();
    const waiting = this.#live.timeline.waiting;
    const retry = turn && this.#live.timeline.retrying.get(turn.id);
    fill(
      this.activity,
      turn &&
        h(
          "div",
          { class: "row" },
          h("span", { class: waiting.length > 0 ? "pulse waiting" : "pulse", "aria-hidden": "true" }),
          h(
            "span",
            { class: "grow" },
            waiting.length > 0
              ? `Waits for people: ${waiting.map((l) => l.name).join(", ")}`
              : retry?.next
                ? `${cut(retry.next, 60)} is called instead of ${cut(retry.failed?.at(-1)?.model ?? "another model", 60)}${retry.error ? ` (${cut(retry.error, 80)})` : ""}`
                : retry
                  ? `The model call failed ${retry.attempts} times${retry.error ? ` (${cut(retry.error, 80)})` : ""}; it is tried again`
                  : "Working",
            `: “${cut(turn.text || "an event", 60)}”`,
            queued > 0 && button(`${queued} queued`, () => this.#toEnd(), { class: "quiet" }),
          ),
          may("operate") &&
            h(
              "button",
              {
                type: "button",
                class: "danger",
                "aria-label": `Stop “${cut(turn.text || "the event", 24)}”`,
                onclick: (/** @type {Event} */ e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#stop(turn.id)),
              },
              "Stop",
              h("span", { class: "what" }, ` “${cut(turn.text || "the event", 24)}”`),
            ),
        ),
    );
    this.composer?.showBusy(turn !== undefined);
    this.composer?.settle((id) => this.#live.timeline.byKey.has(`m:${id}`) || this.#queued.some((item) => item.id === id));
  }

  /** @param {string} eventId */
  async #stop(eventId) {
    return client.interrupt(this.threadId, { eventId, by: await person() });
  }

  #showHeader() {
    const t = this.#thread;
    if (!this.heading || !t) return;
    document.title = `${t.title || t.id} · Threadmill`;
    const agents = [...new Set([...(t.agents ?? []), ...this.#live.timeline.agents])];
    const temporal = workflowURL(t.id);
    const select = (/** @type {typeof FILTERS[number]} */ [label, field], /** @type {[string, string][]} */ options) =>
      h(
        "select",
        {
          "aria-label": label,
          onchange: (/** @type {Event} */ e) => this.#chooseFilter({ ...this.#filter, [field]: /** @type {HTMLSelectElement} */ (e.target).value }),
        },
        options.map(([value, text]) => h("option", { value }, text)),
      );
    renew(
      this.heading,
      h(
        "div",
        { class: "row" },
        h("a", { href: `#/${/\?.*/.exec(location.hash)?.[0] ?? ""}`, class: "back", "aria-label": "Back to the list" }, "‹"),
        h("h1", null, t.title || t.id),
        h("span", { class: `badge ${t.status}` }, t.status === "closed" ? "closed" : undefined),
        h("span", { class: "grow" }),
        select(FILTERS[0], [["", "all agents"], ...agents.map((a) => /** @type {[string, string]} */ ([a, a]))]),
        select(FILTERS[1], [
          ["", "everything"],
          ["message", "messages"],
          ["tool", "tools"],
          ["event", "events"],
          ["status", "status"],
        ]),
        h(
          "details",
          { class: "menu" },
          h("summary", { "aria-label": "More actions" }, "⋯"),
          h(
            "div",
            { class: "menu-items" },
            may("operate") && t.status === "open" && button("Rename…", () => this.#rename()),
            button("Find in this thread", () => this.finder?.open(), { title: "Ctrl+F" }),
            button("Previous error", () => this.#nextError(-1), { title: "[" }),
            button("Next error", () => this.#nextError(1), { title: "]" }),
            may("operate") && button("What the turn took", () => this.#turn(undefined), { title: "t" }),
            button("Export as JSON", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#export("json"))),
            button("Export as Markdown", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#export("markdown"))),
            temporal && h("a", { href: temporal, target: "_blank", rel: "noopener" }, "Open in Temporal"),
            may("operate") && t.status === "open" && button("Close the thread…", () => this.#close(), { class: "danger" }),
          ),
        ),
        button("Details", () => this.#details(), { class: "quiet", "aria-expanded": String(!this.side?.hidden) }),
      ),
      h(
        "p",
        { class: "hint" },
        h("code", null, t.id),
        t.parent && [" in ", h("a", { href: `#/threads/${encodeURIComponent(t.parent)}` }, t.parent)],
        agents.length > 0 && ` · ${agents.join(", ")}`,
      ),
    );
    for (const [label, field] of FILTERS) /** @type {HTMLSelectElement} */ (this.heading.querySelector(`[aria-label="${label}"]`)).value = this.#filter[field];
    if (this.composer) {
      this.composer.agents = agents;
      this.composer.closed = t.status === "closed";
    }
  }

  /** Shows other lines, if people agree to lose what they type in those that go. @param {{ agent: string, kind: string }} filter */
  async #chooseFilter(filter) {
    if (await mayLeave()) this.#setFilter(filter);
    else this.#showHeader();
  }

  /** @param {{ agent: string, kind: string }} filter */
  #setFilter(filter) {
    this.#filter = filter;
    this.#listed = { changes: 0 };
    this.#showHeader();
    if (this.#past) this.#showLines();
    else this.#toEnd();
  }

  /** @param {Line} line */
  #isShown(line) {
    const { agent, kind } = this.#filter;
    const kinds = kind === "status" ? ["status", "error", "gap"] : [kind];
    return (
      !((line.repeats !== undefined || line.status?.status === "pending") && kind !== "status") && // moves in the queue are no part of the story
      (agent === "" || line.agent === undefined || line.agent === agent) &&
      (kind === "" || kinds.includes(line.kind))
    );
  }

  async #rename() {
    const title = h("input", { value: this.#thread?.title ?? "", "aria-label": "Title" });
    const dialog = h(
      "dialog",
      null,
      h(
        "form",
        { method: "dialog" },
        h("h2", null, "Rename the thread"),
        title,
        counter(title, server.limits.title).line,
        h("div", { class: "row" }, h("button", { value: "save", class: "primary" }, "Save"), h("button", { value: "", formNoValidate: true }, "Cancel")),
      ),
    );
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
    return download(
      `${this.threadId}.md`,
      "text/markdown",
      [`# ${this.#thread?.title || this.threadId}\n`, ...partOf(events).timeline.lines.map(asMarkdown)].join("\n"),
    );
  }

  /** @param {Line} line */
  #why(line) {
    act(null, async () => {
      const { showWhy } = await import("./details.js");
      this.#openSide();
      await showWhy(/** @type {Element} */ (this.side), this.threadId, line, () => this.#closeSide());
    });
  }

  /** Shows what a turn took: that of the line that has the focus, or the last one. @param {string | undefined} eventId */
  #turn(eventId) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.closest(".line")?.id.replace(/^line-/, "");
    const id = eventId ?? this.#part.timeline.byKey.get(focused ?? "")?.eventId ?? this.#part.timeline.lines.findLast((line) => line.eventId)?.eventId;
    if (id === undefined) return notify("No turn has begun here yet.");
    act(null, async () => {
      const { showWaterfall } = await import("./waterfall.js");
      this.#openSide();
      await showWaterfall(
        /** @type {Element} */ (this.side),
        this.threadId,
        id,
        () => this.#closeSide(),
        (key) => this.#showStep(key),
      );
      this.side?.querySelector("button")?.focus();
    });
  }

  #details() {
    if (!this.side?.hidden) return this.#closeSide();
    act(null, async () => {
      const { showDetails } = await import("./details.js"); // loaded when it is first shown
      this.#openSide();
      if (!this.#thread) return;
      this.#sideView = showDetails(/** @type {Element} */ (this.side), this.#thread, () => this.#closeSide(), {
        lineOf: (key) => this.#live.timeline.byKey.get(key),
        show: (key) => this.#showStep(key),
      });
    });
  }

  /** Shows a line to which what is beside the thread leads. @param {string} key */
  #showStep(key) {
    if (matchMedia("(max-width: 800px)").matches) this.#closeSide(); // it covers the thread
    this.#goTo(key);
  }

  #openSide() {
    this.#sideView = undefined;
    if (this.side) this.side.hidden = false;
    this.classList.add("with-side");
  }

  #closeSide() {
    this.#sideView = undefined;
    if (this.side) this.side.hidden = true;
    this.classList.remove("with-side");
  }
}

/** The part of a thread that has some events. @param {AgentEvent[]} events @returns {Part} */
function partOf(events) {
  return add({ timeline: new Timeline(), events: new Set() }, events);
}

/** Adds the events that follow a part. @param {Part} part @param {AgentEvent[]} events */
function add(part, events) {
  for (const e of events) {
    part.timeline.apply(e, e.id);
    part.events.add(e.id ?? "");
  }
  return part;
}

/** Adds the part before another one to it. @param {Part} part @param {Part} earlier */
function prepend(part, earlier) {
  part.timeline.prepend(earlier.timeline);
  part.previous = earlier.previous;
  for (const id of earlier.events) part.events.add(id);
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
