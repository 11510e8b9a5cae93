// An event from outside in a thread.

import { resultView } from "./callview.js";
import { cut, fill, h, time } from "./dom.js";
import { actions } from "./lineactions.js";

/** @import { View } from "./callview.js" */
/** @import { Context } from "./lineactions.js" */
/** @import { Line } from "./timeline.js" */

export class EventLine {
  #when = h("span", { class: "when" });
  #summary = h("summary");
  #place = h("div", { class: "tool-body" });
  /** The event that is shown. @type {{ event?: Line["event"], view?: View }} */
  #shown = {};

  /** @param {HTMLElement} element */
  constructor(element) {
    fill(element, this.#when, h("details", null, this.#summary, this.#place));
  }

  /** @param {Line} line @param {Context} context */
  show(line, context) {
    const event = /** @type {NonNullable<Line["event"]>} */ (line.event);
    const { source } = /** @type {{ source?: string }} */ (event.metadata ?? {});
    fill(this.#when, source ?? "env", " ", time(line.createdAt), actions(line, context));
    fill(
      this.#summary,
      h("span", { class: "state" }, "event"),
      h("code", { class: "tool-name" }, event.type),
      h("span", { class: "gist" }, cut(JSON.stringify(event.payload ?? null), 120)),
      line.rule && h("span", { class: "badge" }, `rule ${line.rule}`),
    );
    if (this.#shown.event === event) return;
    const view = resultView(JSON.stringify({ payload: event.payload, metadata: event.metadata }), "payload");
    this.#shown = { event, view };
    fill(this.#place, view.element);
  }

  /** Unfolds what has a text. @param {string} text */
  reveal(text) {
    this.#shown.view?.reveal(text);
  }
}
