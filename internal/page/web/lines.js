// The lines of a thread.

import { fill, h, time } from "./dom.js";
import { EventLine } from "./eventline.js";
import { actions, retry } from "./lineactions.js";
import { MessageLine } from "./messageline.js";
import { isFailure } from "./timeline.js";
import { ToolLine } from "./toolline.js";

/** @import { Context } from "./lineactions.js" */
/** @import { Line } from "./timeline.js" */

/** A line, and what it has shown so far. */
export class LineView {
  element;
  /** The line that was shown, its version, and whether later lines were missing. @type {{ line?: Line, version: number, partial: boolean }} */
  #shown = { version: 0, partial: false };
  /** What shows a line of a kind that keeps something. @type {MessageLine | ToolLine | EventLine | undefined} */
  #kept;

  /** @param {Line} line @param {Context} context */
  constructor(line, context) {
    this.element = h("article", { class: `line ${line.kind}`, tabIndex: -1, id: context.nested ? undefined : `line-${line.key}` });
    this.show(line, context);
  }

  /** Shows the line again after a change. @param {Line} line @param {Context} context */
  show(line, context) {
    const { version } = line,
      { partial } = context,
      before = this.#shown;
    if (before.line === line && before.version === version && before.partial === partial) return;
    this.#shown = { line, version, partial };
    this.element.dataset.kind = line.kind;
    this.element.dataset.agent = line.agent ?? "";
    this.element.ariaLabel = nameOf(line);
    switch (line.kind) {
      case "message":
        this.#kept = this.#kept instanceof MessageLine ? this.#kept : new MessageLine(this.element);
        return this.#kept.show(line, context);
      case "tool":
        this.#kept = this.#kept instanceof ToolLine ? this.#kept : new ToolLine(this.element);
        return this.#kept.show(line, context);
      case "event":
        this.#kept = this.#kept instanceof EventLine ? this.#kept : new EventLine(this.element);
        return this.#kept.show(line, context);
    }
    this.#kept = undefined;
    switch (line.kind) {
      case "status":
        return showStatus(this.element, line, context);
      case "error":
        return fill(
          this.element,
          h("p", { class: "error", role: "alert" }, h("strong", null, line.agent ?? "Error"), ": ", line.text),
          retry(line, context),
          actions(line, context),
        );
      case "gap":
        return fill(this.element, h("p", { class: "hint" }, line.text));
    }
  }

  /** Unfolds what has a text. @param {string} text */
  reveal(text) {
    this.#kept?.reveal(text);
    for (const folded of this.element.querySelectorAll("details")) folded.open ||= folded.textContent.toLowerCase().includes(text.toLowerCase());
  }
}

/** What screen readers call a line. @param {Line} line */
function nameOf({ kind, agent, sender, role, name, event }) {
  switch (kind) {
    case "message":
      return `Message from ${agent ?? sender ?? role}`;
    case "tool":
      return agent ? `${name} called by ${agent}` : `${name} called`;
    case "event":
      return `Event ${event?.type}`;
    case "status":
      return "Status";
    case "error":
      return agent ? `Error of ${agent}` : "Error";
    case "gap":
      return "Gap";
  }
}

/** @param {HTMLElement} element @param {Line} line @param {Context} context */
function showStatus(element, line, context) {
  const s = /** @type {NonNullable<Line["status"]>} */ (line.status);
  const failed = isFailure(s);
  element.className = `line status ${failed ? "failed" : s.status}`;
  const text = context.nested && s.status === "closed" ? `The sub-agent's thread was closed${s.by ? ` by ${s.by}` : ""}` : statusText(s);
  fill(element, h("p", null, text, " ", time(line.createdAt)), failed && retry(line, context), actions(line, context));
}

/** @param {NonNullable<Line["status"]>} s */
export function statusText(s) {
  const detail = s.detail ? `: ${s.detail}` : "";
  const by = s.by ? ` by ${s.by}` : "";
  switch (s.status) {
    case "opened":
      return `Thread opened${s.agents?.length ? ` with ${s.agents.join(", ")}` : ""}`;
    case "updated":
      return ["Thread changed", by, s.title && `: titled “${s.title}”`, s.agents && `: agents are now ${s.agents.join(", ") || "the default one"}`]
        .filter(Boolean)
        .join("");
    case "closed":
      return `Thread closed${by}${detail}`;
    case "turn_ended":
      return `The turn ${/** @type {Record<string, string>} */ ({ failed: "failed", interrupted: "was interrupted", expired: "expired before its turn" })[s.turn ?? ""] ?? `ended: ${s.turn}`}${detail}`;
    case "interrupted":
      return `Interrupted${by}${detail}`;
    case "intercepted":
      return `Hook${detail}`;
    case "retried":
      return `Retried${by}`;
    case "pending":
      return s.detail === "edited" ? `Edited in the queue${by}` : `Moved in the queue${by}${detail}`;
    case "unanswered":
      return `No agent answers${detail}`;
    case "unmatched":
      return `No rule matches the event${detail}`;
  }
  return `Event ${s.status}${by}${detail}`;
}
