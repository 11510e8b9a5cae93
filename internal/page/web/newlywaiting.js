// Which threads have begun to wait for a person since the last answer.

/** @import { Waiting } from "./client/threadmill.js" */

/** @typedef {{ threadId: string, title: string, text: string }} News */

export class NewlyWaiting {
  /** The threads that waited in the last answer. Undefined: there was none. @type {Set<string> | undefined} */
  #known;

  /** The threads that the answer before did not have, each once. What waited first is no news. @param {Pick<Waiting, "approvals" | "inputs">} waiting @returns {News[]} */
  next({ approvals, inputs }) {
    /** @type {Map<string, News>} */
    const now = new Map();
    for (const { threadId, title, preview, request } of approvals) {
      if (!now.has(threadId)) now.set(threadId, { threadId, title: title || preview || threadId, text: `${request.agent} asks to call ${request.toolName}` });
    }
    for (const { threadId, title, preview } of inputs) {
      if (!now.has(threadId)) now.set(threadId, { threadId, title: title || preview || threadId, text: "A call asks for input" });
    }
    const known = this.#known;
    this.#known = new Set(now.keys());
    return known === undefined ? [] : [...now.values()].filter(({ threadId }) => !known.has(threadId));
  }
}
