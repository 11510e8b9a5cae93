// A call of a tool in a thread.

import { approvalCard, decisionText } from "./approval.js";
import { askerOf } from "./asker.js";
import { commandOf } from "./callparts.js";
import { callView, outputView, resultView } from "./callview.js";
import { act, button, cut, fill, h, hue, time } from "./dom.js";
import { answerText, InputCard } from "./input.js";
import { actions } from "./lineactions.js";
import { ProgressView } from "./progress.js";
import { client } from "./session.js";
import { inputOf, isWaiting, requestOf, settled } from "./timeline.js";

/** @import { View } from "./callview.js" */
/** @import { ClientCard } from "./clientcard.js" */
/** @import { Context } from "./lineactions.js" */
/** @import { Line } from "./timeline.js" */

/** @param {Line} line @param {boolean} partial */
function toolState(line, partial) {
  const decided = settled(line);
  if (line.output !== undefined) {
    if (decided?.decision === "deny") return "denied";
    if (decided?.decision === "expired") return "expired";
    return line.failed ? "failed" : "done";
  }
  if (settled(line)?.decision === "withdrawn") return "withdrawn";
  if (partial) return "called";
  if (isWaiting(line)) return "waiting";
  if (inputOf(line)) return "asks";
  if (line.call) return "waits for a client";
  return "using";
}

/** The arguments of a call, for its summary. @param {string} name @param {string} [args] */
function gist(name, args = "{}") {
  const command = commandOf(name, args);
  if (command !== undefined) return `$ ${command}`;
  try {
    const values = Object.values(JSON.parse(args));
    return values.map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(" · ");
  } catch {
    return args;
  }
}

/** @param {Line} line */
function isSubAgent(line) {
  return line.name === "call_agent" || line.name === "call-agent";
}

export class ToolLine {
  #element;
  #when = h("span", { class: "when" });
  #summary = h("summary", { onclick: () => (this.#touched = true) });
  #argsPlace = h("div");
  #asked = h("div");
  #decisions = h("div", { class: "decisions" });
  #question = h("div");
  #answers = h("div", { class: "decisions" });
  #progress = new ProgressView();
  #child = h("div");
  #result = h("div", { class: "result" });
  #details = h(
    "details",
    null,
    this.#summary,
    h(
      "div",
      { class: "tool-body" },
      this.#argsPlace,
      this.#asked,
      this.#decisions,
      this.#question,
      this.#answers,
      this.#progress.element,
      this.#child,
      this.#result,
    ),
  );
  /** Whether the person has opened or closed the call. */
  #touched = false;
  /** What is shown of the arguments and of the result, and of which. @type {{ args?: string, view?: View }} */
  #args = {};
  /** @type {{ output?: string, view?: View }} */
  #output = {};
  /** @type {ReturnType<typeof approvalCard> | undefined} */
  #card;
  /** The question that is asked, and its round. @type {InputCard | undefined} */
  #input;
  /** @type {number | undefined} */
  #round;
  /** The card of a call that waits for a client, which is loaded when it is needed. @type {Promise<ClientCard> | undefined} */
  #client;

  /** @param {HTMLElement} element */
  constructor(element) {
    this.#element = element;
    fill(element, this.#when, this.#details);
  }

  /** @param {Line} line @param {Context} context */
  show(line, context) {
    const now = toolState(line, context.partial);
    this.#element.className = `line tool ${now.replaceAll(" ", "-")}`;
    if (line.agent) this.#element.classList.add(`hue-${hue(line.agent)}`);
    fill(this.#when, line.agent, " ", time(line.createdAt), actions(line, context));
    fill(
      this.#summary,
      h("span", { class: "state", title: now }, now),
      h("code", { class: "tool-name" }, line.name),
      h("span", { class: "gist" }, cut(gist(line.name ?? "", line.args), 120)),
    );
    this.#showArguments(line, now);
    this.#showDecisions(line, now, context);
    this.#showQuestion(line, now, context);
    this.#showClientCall(line, now, context);
    this.#progress.show(line);
    this.#showResult(line);
    if (!context.nested && isSubAgent(line) && !this.#child.hasChildNodes()) {
      fill(
        this.#child,
        button("Show the sub-agent's thread", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => this.#showChild(line, context)), {
          class: "quiet",
        }),
      );
    }
    if (!this.#touched) {
      this.#details.open =
        now === "waiting" ||
        this.#card !== undefined ||
        this.#question.hasChildNodes() ||
        (now === "using" && line.progress !== undefined) ||
        now === "waits for a client";
    }
  }

  /** Unfolds what has a text. @param {string} text */
  reveal(text) {
    for (const view of [this.#args.view, this.#output.view]) view?.reveal(text);
  }

  /** @param {Line} line @param {string} now */
  #showArguments(line, now) {
    this.#argsPlace.hidden = line.args === undefined || now === "waiting" || now === "waits for a client"; // the card shows them
    if (line.args === undefined || this.#args.args === line.args) return;
    const view = callView(line.name ?? "", line.args);
    this.#args = { args: line.args, view };
    fill(this.#argsPlace, view.element);
  }

  /** @param {Line} line @param {string} now @param {Context} context */
  #showDecisions(line, now, context) {
    const request = now === "waiting" ? requestOf(line) : undefined;
    if (!request) {
      const last = line.decisions?.at(-1);
      if (!this.#card?.end(last ? `${decisionText(last)}.` : "The call needs no decision any more.")) this.#card = undefined;
    } else if (this.#card) this.#card.show(request);
    else this.#card = approvalCard(context.threadId, request);
    if (this.#asked.firstChild !== (this.#card ?? null)) fill(this.#asked, this.#card);
    const asker = request ? undefined : line.request && askerOf(line.request); // the card says it
    fill(
      this.#decisions,
      asker && h("p", { class: "hint" }, asker),
      (line.decisions ?? []).map((d) =>
        h(
          "p",
          { class: `decision ${d.decision}` },
          decisionText(d),
          " ",
          time(d.decidedAt),
          d.arguments &&
            line.args !== d.arguments &&
            h("details", null, h("summary", null, "Edited arguments"), callView(line.name ?? "", d.arguments).element),
        ),
      ),
    );
  }

  /** @param {Line} line @param {string} now @param {Context} context */
  #showQuestion(line, now, context) {
    const input = now === "asks" ? inputOf(line) : undefined;
    if (this.#round !== input?.round) {
      const answer = line.inputs?.at(-1);
      if (!this.#input?.end(answer ? answerText(answer) : "No answer is needed any more.")) {
        this.#input?.element.remove();
        this.#input = undefined;
      }
      this.#round = input?.round;
      if (input) {
        this.#input = new InputCard(context.threadId, input);
        this.#question.append(this.#input.element);
      }
    }
    fill(
      this.#answers,
      (line.inputs ?? []).map((a) =>
        h(
          "p",
          { class: "decision" },
          a.withdrawn ? "No answer is needed any more" : `Answered by ${a.by}`,
          " ",
          time(a.receivedAt),
          !a.withdrawn && h("details", null, h("summary", null, "Answer"), resultView(JSON.stringify(a.answers), "answer").element),
        ),
      ),
    );
  }

  /** @param {Line} line @param {string} now @param {Context} context */
  #showClientCall({ call }, now, { threadId }) {
    const waits = now === "waits for a client";
    if (waits && call && !this.#client) {
      this.#client = import("./clientcard.js").then(({ ClientCard }) => {
        const card = new ClientCard(threadId, call);
        this.#question.append(card.element);
        this.#details.open ||= !this.#touched;
        return card;
      });
      this.#client.catch(() => (this.#client = undefined)); // the next change loads it again
    } else if (!waits && this.#client) {
      this.#client.then(
        (card) => card.end("The call has its result.") || card.element.remove(),
        () => {},
      );
      this.#client = undefined;
    }
  }

  /** @param {Line} line */
  #showResult(line) {
    const { output } = line;
    if (output === undefined || this.#output.output === output) return;
    const view = outputView(output, line.failed === true);
    this.#output = { output, view };
    fill(this.#result, view.element);
  }

  /** Shows the thread of a sub-agent within its call. @param {Line} line @param {Context} context */
  async #showChild(line, context) {
    for (let cursor = ""; ; ) {
      const page = await client.threads({ q: `${context.threadId}.s`.slice(0, 200), limit: 200, cursor });
      const child = page.threads.find((t) => t.parent === context.threadId && t.metadata?.parentToolCallId === line.callId);
      if (child) {
        const view = h("tm-thread", { nested: true, threadId: child.id });
        fill(this.#child, h("p", { class: "row" }, h("a", { href: `#/threads/${encodeURIComponent(child.id)}` }, child.title || child.id)), view);
        return;
      }
      if (!page.next) throw new Error("The sub-agent's thread was not found: the call may not have started yet.");
      cursor = page.next;
    }
  }
}
