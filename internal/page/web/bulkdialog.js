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

/** @param {number} n */
const threadsOf = (n) => (n === 1 ? "1 thread" : `${n} threads`);

/** Shows what an action would do to threads, and does it if the person wants. @param {Action} action @param {Thread[]} threads @returns {Promise<boolean>} Whether it began. */
export async function changeThreads(action, threads) {
  const { verb, text, style, done, run } = ACTIONS[action];
  let begun = false;
  let concerned = threads.filter((t) => leftOut(action, t) === undefined);
  const others = threads.filter((t) => leftOut(action, t) !== undefined);
  const stopped = new AbortController();
  const states = new Map(concerned.map((t) => [t.id, h("span", { class: "hint" })]));
  const title = h("h2");
  const what = h("p", null, concerned.length > 0 ? text : "None of them is concerned.");
  const progress = h("progress", { hidden: true, "aria-label": "Threads", max: 1, value: 0 });
  const said = h("p", { role: "status" });
  const row = (/** @type {Thread} */ t) => h("li", null, h("span", { class: "grow" }, nameOf(t)), states.get(t.id));
  const left = (/** @type {Thread} */ t) => h("li", null, h("span", { class: "grow" }, nameOf(t)), h("span", { class: "hint" }, leftOut(action, t)));
  const go = button("", () => start(), { class: style });
  const close = button("Cancel", () => dialog.close(), { autofocus: true });
  const name = () => {
    fill(title, `${verb} ${threadsOf(concerned.length)}?`);
    fill(go, `${verb} ${threadsOf(concerned.length)}`);
  };
  name();
  go.hidden = concerned.length === 0;

  async function start() {
    const by = await person().catch(() => "");
    if (!by) return;
    /** @type {Thread[]} */
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
      (t) => run(t, by),
      (t, error) => {
        progress.value = ++ended;
        if (error) failed.push(t);
        const state = /** @type {HTMLElement} */ (states.get(t.id));
        state.className = error ? "error" : "hint";
        fill(state, error ? error.message : done);
        fill(title, `${ended} of ${threadsOf(concerned.length)}`);
      },
      stopped.signal,
    );
    fill(said, `${threadsOf(ended - failed.length)} ${done}${failed.length > 0 ? `, ${failed.length} failed` : ""}.`);
    fill(close, "Done");
    concerned = failed;
    go.hidden = failed.length === 0;
    if (failed.length > 0) fill(go, `Try ${threadsOf(failed.length)} again`);
  }

  const dialog = h(
    "dialog",
    { class: "bulk", "aria-label": `${verb} threads` },
    title,
    what,
    progress,
    said,
    concerned.length > 0 && h("ul", { tabIndex: 0, "aria-label": "Threads" }, concerned.map(row)),
    others.length > 0 && h("details", null, h("summary", null, `${others.length} left out`), h("ul", null, others.map(left))),
    h("div", { class: "row" }, go, close),
  );
  await ask(dialog);
  stopped.abort();
  return begun;
}
