// What is done to many threads at once: which of them it concerns, and how far it is.

/** @import { Thread } from "./client/threadmill.js" */

/** @typedef {"close" | "retry"} Action */

/** Why an action leaves a thread out, or undefined. @param {Action} action @param {Thread} t */
export function leftOut(action, t) {
  if (t.status === "closed") return "is closed";
  if (action === "retry" && t.activity !== "failing") return "has not failed";
  return undefined;
}

/**
 * Runs something for all items, several at a time. One that fails does not stop the others.
 * @template T
 * @param {readonly T[]} items
 * @param {number} parallel
 * @param {(item: T) => Promise<void>} run
 * @param {(item: T, error?: Error) => void} done Is called as each has ended.
 * @param {AbortSignal} signal Ends it: what runs is finished, and nothing more begins.
 */
export async function runAll(items, parallel, run, done, signal) {
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined && !signal.aborted; item = left.shift()) {
      try {
        await run(item);
        done(item);
      } catch (error) {
        done(item, /** @type {Error} */ (error));
      }
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
}
