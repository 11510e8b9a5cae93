// What a person has typed and not sent, per thread. It survives reloads, and goes with the tab.

/** @typedef {{ text: string, failed?: { content: string, id: string } }} Draft The text, and the message that could not be sent, with its id. */

const PREFIX = "threadmill.draft.";

/** Drafts that the browser does not keep. @type {Map<string, Draft>} */
const drafts = new Map();

/** @param {string} thread @returns {Draft} */
export function draftOf(thread) {
  try {
    const stored = JSON.parse(sessionStorage.getItem(PREFIX + thread) ?? "null");
    if (typeof stored?.text === "string") return stored;
  } catch {
    // The browser keeps nothing, or somebody else wrote it.
  }
  return drafts.get(thread) ?? { text: "" };
}

/** @param {string} thread @param {Draft} draft */
export function keepDraft(thread, draft) {
  drafts.delete(thread);
  try {
    if (draft.text === "" && !draft.failed) sessionStorage.removeItem(PREFIX + thread);
    else sessionStorage.setItem(PREFIX + thread, JSON.stringify(draft));
  } catch {
    drafts.set(thread, draft); // its storage is full, or off
  }
}
