// Asks before something is done to many threads, shows to which, and then how far it is.

import { leftOut, runAll } from "./bulk.js";
import { ask } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { person } from "./person.js";
import { client } from "./session.js";
import { nameOf } from "./threadlist.js";

/** @import { Action } from "./bulk.js" */
/** @import { Thread } from "./client/threadmill.js" */

/** How many threads are changed at the same time. */
const PARALLEL = 4;

/** What an action does, in words and at the server. */
const ACTIONS = {
  close: {
    verb: "Close",
    text: "They settle what is pending, and then accept nothing more. They can still be read.",
    style: "danger",
    done: "closed",
    run: async (/** @type {Thread} */ t, /** @type {string} */ by) => {
      await client.request("DELETE /v1/threads/{id}", { path: { id: t.id }, query: { by } });
    },
  },
  retry: {
    verb: "Retry",
    text: "The event that failed last in each of them is processed again.",
    style: "primary",
    done: "retried",
    run: async (/** @type {Thread} */ t, /** @type {string} */ by) => {
      const { failed } = await client.request("GET /v1/threads/{id}/queue", { path: { id: t.id } });
      const last = failed.at(-1);
      if (!last) throw new Error("Nothing has failed in it.");
      await client.request("POST /v1/threads/{id}/queue/{eventId}/retry", { path: { id: t.id, eventId: last.id }, body: { by } });
    },
  },
};

/**
 * Something that is done to many items.
 * @template T
 * @typedef {object} Change
 * @property {string} verb @property {string} done What it does, and what is true of an item afterwards.
 * @property {string} text What it means.
 * @property {string} style Of its button.
 * @property {(n: number) => string} count The items in words.
 * @property {(item: T) => string} name
 * @property {(item: T) => string | undefined} [leftOut] Why an item is left out.
 * @property {(item: T, by: string) => Promise<string | void>} run What it returns is shown at the item, instead of done.
 * @property {import("./dom.js").Child} [body] What the person reads and fills in.
 */

/** Shows what an action would do to threads, and does it if the person wants. @param {Action} action @param {Thread[]} threads @returns {Promise<boolean>} Whether it began. */
export function changeThreads(action, threads) {
  return change(
    { ...ACTIONS[action], count: (n) => (n === 1 ? "1 thread" : `${n} threads`), name: nameOf, leftOut: (/** @type {Thread} */ t) => leftOut(action, t) },
    threads,
  );
}

/**
 * Shows what would be done to items, and does it if the person wants.
 * @template T
 * @param {Change<T>} what @param {T[]} items @returns {Promise<boolean>} Whether it began.
 */
export async function change({ verb, done, text, style, count, name, leftOut = () => undefined, run, body }, items) {
  let begun = false;
  let concerned = items.filter((t) => leftOut(t) === undefined);
  const others = items.filter((t) => leftOut(t) !== undefined);
  const stopped = new AbortController();
  const states = new Map(concerned.map((t) => [t, h("span", { class: "hint" })]));
  const title = h("h2");
  const what = h("div", null, h("p", null, concerned.length > 0 ? text : "None of them is concerned."), body);
  const progress = h("progress", { hidden: true, "aria-label": "Progress", max: 1, value: 0 });
  const said = h("p", { role: "status" });
  const row = (/** @type {T} */ t) => h("li", null, h("span", { class: "grow" }, name(t)), states.get(t));
  const left = (/** @type {T} */ t) => h("li", null, h("span", { class: "grow" }, name(t)), h("span", { class: "hint" }, leftOut(t)));
  const go = button(`${verb} ${count(concerned.length)}`, () => start(), { class: style, hidden: concerned.length === 0 });
  const close = button("Cancel", () => dialog.close(), { autofocus: true });
  fill(title, `${verb} ${count(concerned.length)}?`);

  async function start() {
    const by = await person().catch(() => "");
    if (!by) return;
    /** @type {T[]} */
    const failed = [];
    let ended = 0;
    begun = true;
    go.hidden = true;
    what.hidden = true;
    progress.hidden = false;
    progress.max = concerned.length;
    progress.value = 0;
    fill(close, "Stop");
    close.focus();
    await runAll(
      concerned,
      PARALLEL,
      async (t) => {
        fill(/** @type {HTMLElement} */ (states.get(t)), (await run(t, by)) || done);
      },
      (t, error) => {
        progress.value = ++ended;
        if (error) failed.push(t);
        const state = /** @type {HTMLElement} */ (states.get(t));
        state.className = error ? "error" : "hint";
        if (error) fill(state, error.message);
        fill(title, `${ended} of ${count(concerned.length)}`);
      },
      stopped.signal,
    );
    fill(said, `${count(ended - failed.length)} ${done}${failed.length > 0 ? `, ${failed.length} failed` : ""}.`);
    fill(close, "Done");
    concerned = failed;
    go.hidden = failed.length === 0;
    if (failed.length > 0) fill(go, `Try ${count(failed.length)} again`);
  }

  const dialog = h(
    "dialog",
    { class: "bulk", "aria-label": `${verb} ${count(2).replace(/^2 /, "")}` },
    title,
    what,
    progress,
    said,
    concerned.length > 0 && h("ul", { tabIndex: 0, "aria-label": "What it concerns" }, concerned.map(row)),
    others.length > 0 && h("details", null, h("summary", null, `${others.length} left out`), h("ul", null, others.map(left))),
    h("div", { class: "row" }, go, close),
  );
  await ask(dialog);
  stopped.abort();
  return begun;
}
