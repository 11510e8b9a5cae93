// What a person can do at a line of a thread.

import { lineAddress } from "./addresses.js";
import { act, button, h } from "./dom.js";
import { person } from "./person.js";
import { client, may } from "./session.js";

/** @import { Line } from "./timeline.js" */

/**
 * @typedef {object} Context
 * @property {string} threadId
 * @property {boolean} nested Whether the thread is shown within another.
 * @property {(line: Line) => void} why Shows why a line came to be.
 * @property {(line: Line) => void} turn Shows what the turn of a line took.
 * @property {boolean} partial Whether later lines are missing, so that nobody knows what came of what was asked here.
 * @property {(line: Line) => boolean} retriable Whether the line is the place to retry a failed turn.
 */

/** @param {Line} line @param {Context} context */
export function actions(line, context) {
  return h(
    "span",
    { class: "actions" },
    line.place && !context.nested && h("a", { href: lineAddress(context.threadId, line.key, line.place), title: "Permalink", "aria-label": "Permalink" }, "#"),
    line.eventId && button("Why?", () => context.why(line), { class: "quiet", title: "Why did this happen?" }),
    line.eventId && !context.nested && may("operate") && button("Turn", () => context.turn(line), { class: "quiet", title: "What the turn took (t)" }),
  );
}

/** @param {Line} line @param {Context} context */
export function retry(line, context) {
  const id = line.eventId;
  if (!id || !context.retriable(line) || !may("operate")) return undefined;
  return button("Retry", (e) =>
    act(/** @type {HTMLElement} */ (e.currentTarget), async () =>
      client.request("POST /v1/threads/{id}/queue/{eventId}/retry", { path: { id: context.threadId, eventId: id }, body: { by: await person() } }),
    ),
  );
}
