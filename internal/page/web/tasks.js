// The background tasks of a thread: how each goes on or has ended, and what it reports and returns.

import { outputView } from "./callview.js";
import { act, button, cut, fill, h, time } from "./dom.js";
import { durationText } from "./durations.js";
import { person } from "./person.js";
import { ProgressView } from "./progress.js";
import { renew } from "./renew.js";
import { client, may } from "./session.js";
import { arrange } from "./virtuallist.js";

/** @import { components } from "./client/api.js" */
/** @import { Line } from "./timeline.js" */
/** @typedef {components["schemas"]["Task"]} Task */

/**
 * What the tasks need of what is around them.
 * @typedef {object} Around
 * @property {string} threadId
 * @property {(key: string) => Line | undefined} lineOf The line of the thread with a key, if it is known.
 * @property {(key: string) => void} show Leads to a line.
 * @property {() => Promise<void>} refresh Reads again what is beside the thread.
 */

export class TaskList {
  element = h("section");
  #around;
  /** @type {Map<string, TaskRow>} */
  #rows = new Map();

  /** @param {Around} around */
  constructor(around) {
    this.#around = around;
  }

  async read() {
    return (await client.request("GET /v1/threads/{id}/tasks", { path: { id: this.#around.threadId } })).tasks;
  }

  /** @param {Task[]} tasks */
  show(tasks) {
    if (tasks.length === 0) return fill(this.element, h("p", { class: "hint" }, "None."));
    const rows = tasks.map((task) => this.#rows.get(task.id) ?? new TaskRow(this.#around));
    this.#rows = new Map(tasks.map((task, i) => [task.id, rows[i]]));
    const shown = this.element.querySelector("ul");
    const list = shown ?? h("ul", { class: "plain" });
    for (const row of list.children) if (!rows.some(({ element }) => element === row)) row.remove();
    arrange(
      list,
      rows.map((row, i) => row.show(tasks[i])),
    );
    if (!shown) fill(this.element, list);
  }

  /** Shows what running tasks have reported since. */
  showProgress() {
    for (const row of this.#rows.values()) row.showProgress();
  }
}

class TaskRow {
  element = h("li");
  #around;
  /** @type {Task | undefined} */
  #task;
  #head = h("div");
  #output = h("div", { class: "task-output" });
  #details = h("details", { hidden: true, ontoggle: () => this.#showOutput() }, h("summary", null, "Output"), this.#output);
  /** What a running task reports. */
  #progress = new ProgressView();
  /** Whether the result of a task that has ended is shown, or is being read. */
  #ended = false;

  /** @param {Around} around */
  constructor(around) {
    this.#around = around;
    fill(this.element, this.#head, this.#details);
  }

  /** @param {Task} task */
  show(task) {
    this.#task = task;
    this.element.id = `task-${task.id}`;
    const { id, state, subAgent, error = "" } = task;
    const { show, refresh } = this.#around;
    const cancel = async () => {
      await client.request("POST /v1/tasks/{id}/cancel", { path: { id }, body: { by: await person() } });
      await refresh();
    };
    renew(
      this.#head,
      h("span", { class: `badge ${state}` }, state),
      " ",
      task.title || task.tool || subAgent,
      h(
        "span",
        { class: "hint" },
        " ",
        time(task.startedAt),
        task.endedAt && ` · took ${durationText(Date.parse(task.endedAt) - Date.parse(task.startedAt))}`,
        task.by && ` · ${state} by ${task.by}`,
      ),
      error && h("p", { class: "error" }, state === "failed" ? cut(error, 160) : error),
      task.threadId && h("p", null, h("a", { href: `#/threads/${encodeURIComponent(task.threadId)}` }, `Thread of ${subAgent}`)),
      button("Progress", () => show(`t:${task.toolCallId}`), { class: "quiet", title: "Show the call with its progress" }),
      state === "running" && may("operate") && button("Cancel", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), cancel), { class: "quiet danger" }),
    );
    this.#details.hidden = state === "cancelled"; // its error is all that there is
    this.#showOutput();
    return this.element;
  }

  showProgress() {
    if (this.#task?.state === "running") this.#showOutput();
  }

  #showOutput() {
    const task = this.#task;
    if (!task || !this.#details.open) return;
    if (task.state !== "running") return this.#showEnd(task);
    const line = this.#around.lineOf(`t:${task.toolCallId}`);
    if (line?.progress) {
      if (this.#output.firstChild !== this.#progress.element) fill(this.#output, this.#progress.element);
      this.#progress.show(line);
    } else if (!this.#output.hasChildNodes()) fill(this.#output, h("p", { class: "hint" }, "It has reported nothing since this page was opened."));
  }

  /** Shows what the task has returned, or why it has failed. @param {Task} task */
  async #showEnd(task) {
    if (this.#ended) return;
    this.#ended = true;
    try {
      const end = await endOf(this.#around.threadId, task);
      this.#ended = end !== undefined;
      this.#fill(
        end
          ? outputView(textOf(end), task.state === "failed").element
          : h("p", { class: "hint" }, "Its agent has not been told the result yet, or a hook keeps it from people."),
      );
    } catch (error) {
      this.#ended = false;
      this.#fill(h("p", { class: "error" }, /** @type {Error} */ (error).message));
    }
  }

  /** Replaces the output. If it had the focus, its summary has it then. @param {HTMLElement} content */
  #fill(content) {
    if (this.#output.contains(document.activeElement)) this.#details.querySelector("summary")?.focus({ preventScroll: true });
    fill(this.#output, content);
  }
}

/** What the event of a task's end says. @typedef {{ taskId: string, result?: unknown, error?: string }} TaskEnd */

/** What the agent is told of a task that has ended; undefined if it has not been told yet, or a hook keeps it from people. @param {string} threadId @param {Task} task */
async function endOf(threadId, { endEventId = "" }) {
  try {
    const { events } = await client.eventsAfter(threadId, { event: endEventId, limit: 1 });
    for (const e of events) if (e.type === "environment" && e.event.id === endEventId) return /** @type {TaskEnd} */ (e.event.payload);
  } catch (error) {
    if (/** @type {import("./client/threadmill.js").APIError} */ (error).status !== 404) throw error;
  }
  return undefined;
}

/** @param {TaskEnd} end */
const textOf = ({ result, error }) => error || (typeof result === "string" ? result : JSON.stringify(result ?? null));
