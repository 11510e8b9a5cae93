// How the lines of a thread look.

import { entityAddress, lineAddress } from "./addresses.js";
import { approvalCard, decisionText } from "./approval.js";
import { act, button, copyButton, cut, fill, h, hue, pretty, time, visible } from "./dom.js";
import { inputCard } from "./input.js";
import { markdown } from "./markdown.js";
import { outputOf } from "./output.js";
import { passageName } from "./passages.js";
import { person } from "./person.js";
import { client, may } from "./session.js";
import { inputOf, isFailure, isWaiting, requestOf, settled } from "./timeline.js";

/** @import { Line } from "./timeline.js" */

/**
 * @typedef {object} Context
 * @property {string} threadId
 * @property {boolean} nested Whether the thread is shown within another.
 * @property {(line: Line) => void} why Shows why a line came to be.
 * @property {boolean} partial Whether later lines are missing, so that nobody knows what came of what was asked here.
 * @property {(line: Line) => boolean} retriable Whether the line is the place to retry a failed turn.
 */

/** Results that are longer than this are folded further. */
const LONG = 1200;

/** Makes the element of a line. @param {Line} line @param {Context} context */
export function lineElement(line, context) {
  const element = h("article", { class: `line ${line.kind}`, tabIndex: -1 });
  if (!context.nested) element.id = `line-${line.key}`;
  showLine(element, line, context);
  return element;
}

/** Shows a line again after a change. @param {HTMLElement} element @param {Line} line @param {Context} context */
export function showLine(element, line, context) {
  const state = /** @type {any} */ (element);
  if (state.version === line.version && state.line === line && state.partial === context.partial) return;
  state.line = line;
  state.version = line.version;
  state.partial = context.partial;
  element.dataset.kind = line.kind;
  element.dataset.agent = line.agent ?? "";
  switch (line.kind) {
    case "message":
      return showMessage(element, line, context);
    case "tool":
      return showTool(element, line, context);
    case "status":
      return showStatus(element, line, context);
    case "error":
      fill(
        element,
        h("p", { class: "error", role: "alert" }, h("strong", null, line.agent ?? "Error"), ": ", line.text),
        retry(line, context),
        actions(line, context),
      );
      return;
    case "event":
      return showEvent(element, line, context);
    case "gap":
      fill(element, h("p", { class: "hint" }, line.text));
  }
}

/** @param {Line} line @param {Context} context */
function actions(line, context) {
  return h(
    "span",
    { class: "actions" },
    line.place && !context.nested && h("a", { href: lineAddress(context.threadId, line.key, line.place), title: "Permalink", "aria-label": "Permalink" }, "#"),
    line.eventId && button("Why?", () => context.why(line), { class: "quiet", title: "Why did this happen?" }),
  );
}

/** @param {Line} line @param {Context} context */
function retry(line, context) {
  const id = line.eventId;
  if (!id || !context.retriable(line) || !may("operate")) return undefined;
  return button("Retry", (e) =>
    act(/** @type {HTMLElement} */ (e.currentTarget), async () =>
      client.request("POST /v1/threads/{id}/queue/{eventId}/retry", { path: { id: context.threadId, eventId: id }, body: { by: await person() } }),
    ),
  );
}

/** @param {HTMLElement} element @param {Line} line @param {Context} context */
function showMessage(element, line, context) {
  const state = /** @type {any} */ (element);
  element.className = `line message ${line.role} ${line.state}`;
  if (line.agent) element.classList.add(`hue-${hue(line.agent)}`);
  if (!state.body) {
    state.who = h("strong", { class: "who" });
    state.when = h("span", { class: "when" });
    state.thought = h("pre", { class: "thought-text", tabIndex: 0 });
    state.thoughts = h("details", { class: "thought", hidden: true }, h("summary", null, "Thoughts"), state.thought);
    state.body = h("div", { class: "body" });
    state.sources = h("details", { class: "sources", hidden: true });
    state.foot = h("div", { class: "foot" });
    fill(element, h("header", null, state.who, state.when), state.thoughts, state.body, state.sources, state.foot);
  }
  fill(state.who, line.agent ?? line.sender ?? line.role);
  fill(state.when, time(line.createdAt), actions(line, context));
  state.thoughts.hidden = !line.thought;
  if (line.thought) {
    append(state.thought, line.thought);
    // Thoughts are open while there is nothing else to read.
    if (!state.thoughts.touched) {
      state.thoughts.open = line.state === "streaming" && !line.text;
      state.thoughts.querySelector("summary").onclick ??= () => (state.thoughts.touched = true);
    }
  }
  if (line.state === "streaming" || line.state === "failed") {
    state.body.setAttribute("data-text", "");
    append(state.body, line.text ?? "");
  } else if (state.body.source !== line.text) {
    state.body.source = line.text;
    markdown(state.body, line.text ?? "");
  }
  showSources(state.sources, line.found);
  fill(
    state.foot,
    line.state === "streaming" && !line.text && !line.thought && h("span", { class: "hint" }, "…"),
    line.state === "interrupted" && h("span", { class: "badge" }, "interrupted"),
    line.error && h("p", { class: "error", role: "alert" }, line.error),
    (line.error || line.state === "failed") && retry(line, context),
  );
}

/** Shows what an agent was given: passages, which its reply may cite by their numbers, and facts. @param {HTMLElement} element @param {import("./timeline.js").Retrieval} [found] */
function showSources(element, found) {
  const state = /** @type {any} */ (element);
  if (state.found === found) return;
  state.found = found;
  const passages = found?.passages ?? [],
    facts = found?.facts ?? [];
  element.hidden = passages.length + facts.length === 0;
  fill(
    element,
    h("summary", null, [passages.length > 0 && `Sources (${passages.length})`, facts.length > 0 && `Known (${facts.length})`].filter(Boolean).join(", ")),
    found?.warning && h("p", { class: "hint" }, found.warning),
    passages.length > 0 &&
      h(
        "ol",
        null,
        passages.map((p) => h("li", null, passageName(p), h("pre", { class: "prose", tabIndex: 0 }, p.text))),
      ),
    facts.length > 0 &&
      h(
        "ul",
        null,
        facts.map((f) => h("li", null, h("a", { href: entityAddress(f.entity), class: "title" }, f.name), ` (${f.type}): ${f.text}`)),
      ),
  );
}

/** Shows text that only grows, without building it again. @param {HTMLElement} element @param {string} text */
function append(element, text) {
  const state = /** @type {any} */ (element);
  if (state.piece?.parentNode === element && text.startsWith(state.written)) {
    state.piece.appendData(visible(text.slice(state.written.length)));
  } else {
    state.piece = document.createTextNode(visible(text));
    element.replaceChildren(state.piece);
  }
  state.written = text;
}

/** @param {Line} line @param {boolean} partial */
function toolState(line, partial) {
  const decided = settled(line);
  if (line.output !== undefined) {
    if (decided?.decision === "deny") return "denied";
    if (decided?.decision === "expired") return "expired";
    return line.failed ? "failed" : "done";
  }
  if (partial) return "called";
  if (isWaiting(line)) return "waiting";
  if (inputOf(line)) return "asks";
  if (line.call) return "waits for a client";
  return "using";
}

/** The first argument of a call, for its summary. @param {string} [args] */
function gist(args) {
  try {
    const values = Object.values(JSON.parse(args ?? "{}"));
    return values.map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(" · ");
  } catch {
    return args ?? "";
  }
}

/** @param {HTMLElement} element @param {Line} line @param {Context} context */
function showTool(element, line, context) {
  const state = /** @type {any} */ (element);
  const now = toolState(line, context.partial);
  element.className = `line tool ${now.replaceAll(" ", "-")}`;
  if (line.agent) element.classList.add(`hue-${hue(line.agent)}`);
  if (!state.details) {
    state.summary = h("summary", { onclick: () => (state.touched = true) });
    state.args = h("pre", { class: "code args", tabIndex: 0, "aria-label": "Arguments" });
    state.progress = h("pre", { class: "progress", tabIndex: 0, "aria-label": "Progress", hidden: true });
    state.asked = h("div");
    state.question = h("div");
    state.answers = h("div", { class: "decisions" });
    state.decisions = h("div", { class: "decisions" });
    state.result = h("div", { class: "result" });
    state.child = h("div");
    state.details = h(
      "details",
      null,
      state.summary,
      h("div", { class: "tool-body" }, state.args, state.asked, state.decisions, state.question, state.answers, state.progress, state.child, state.result),
    );
    state.when = h("span", { class: "when" });
    fill(element, state.when, state.details);
  }
  fill(state.when, line.agent, " ", time(line.createdAt), actions(line, context));
  fill(
    state.summary,
    h("span", { class: "state", title: now }, now),
    h("code", { class: "tool-name" }, line.name),
    h("span", { class: "gist" }, cut(gist(line.args), 120)),
  );
  state.args.hidden = line.args === undefined || now === "waiting"; // the card shows them
  if (state.argsText !== line.args) {
    state.argsText = line.args;
    fill(state.args, pretty(line.args ?? ""));
  }
  if (line.progress) showProgress(state, line);
  const request = now === "waiting" ? requestOf(line) : undefined;
  if (!request) state.card = undefined;
  else if (state.card) state.card.show(request);
  else state.card = approvalCard(context.threadId, request);
  if (state.asked.firstChild !== (state.card ?? null)) fill(state.asked, state.card);
  fill(
    state.decisions,
    (line.decisions ?? []).map((d) =>
      h(
        "p",
        { class: `decision ${d.decision}` },
        decisionText(d),
        " ",
        time(d.decidedAt),
        d.arguments &&
          line.args !== d.arguments &&
          h("details", null, h("summary", null, "Edited arguments"), h("pre", { class: "code", tabIndex: 0 }, pretty(d.arguments))),
      ),
    ),
  );
  const input = now === "asks" ? inputOf(line) : undefined;
  if (input && state.input !== input.round) fill(state.question, inputCard(context.threadId, input));
  else if (!input) fill(state.question);
  state.input = input?.round;
  fill(
    state.answers,
    (line.inputs ?? []).map((a) =>
      h(
        "p",
        { class: "decision" },
        a.withdrawn ? "No answer is needed any more" : `Answered by ${a.by}`,
        " ",
        time(a.receivedAt),
        !a.withdrawn && h("details", null, h("summary", null, "Answer"), h("pre", { class: "code", tabIndex: 0 }, pretty(a.answers))),
      ),
    ),
  );
  if (line.output !== undefined && state.output !== line.output) {
    state.output = line.output;
    const { text, error, rest } = outputOf(line.output);
    fill(
      state.result,
      text !== "" && longText(text, line.failed ? "output failed" : "output", "Result"),
      error !== "" && longText(error, "output stderr", "Standard error"),
      h(
        "div",
        { class: "row" },
        rest !== "" && h("span", { class: "hint" }, rest),
        copyButton("Copy", () => line.output ?? ""),
      ),
    );
  }
  if (!context.nested && isSubAgent(line) && !state.sub) {
    state.sub = button("Show the sub-agent's thread", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), () => showChild(state, line, context)), {
      class: "quiet",
    });
    fill(state.child, state.sub);
  }
  if (!state.touched)
    state.details.open = now === "waiting" || now === "asks" || (now === "using" && line.progress !== undefined) || now === "waits for a client";
}

/** Adds the pieces of progress that are new. @param {any} state @param {Line} line */
function showProgress(state, line) {
  const { progress = [], progressed = 0 } = line;
  state.progress.hidden = false;
  const added = progress.slice(Math.max(0, progress.length - (progressed - (state.progressed ?? 0))));
  state.progress.append(...added.map((p) => h("span", { class: p.error ? "stderr" : undefined }, p.text)));
  while (state.progress.childElementCount > progress.length) state.progress.firstElementChild.remove();
  state.progressed = progressed;
  state.progress.scrollTop = state.progress.scrollHeight;
}

/** Text that is folded if it is long. @param {string} text @param {string} kind @param {string} label */
function longText(text, kind, label) {
  const whole = h("pre", { class: kind, tabIndex: 0, "aria-label": label }, text.length > LONG ? `${text.slice(0, LONG)}…` : text);
  return h(
    "div",
    null,
    whole,
    text.length > LONG &&
      button(
        `Show all ${text.length.toLocaleString()} characters`,
        (e) => {
          fill(whole, text);
          /** @type {HTMLElement} */ (e.currentTarget).remove();
        },
        { class: "quiet" },
      ),
  );
}

/** @param {Line} line */
function isSubAgent(line) {
  return line.name === "call_agent" || line.name === "call-agent";
}

/** Shows the thread of a sub-agent within its call. @param {any} state @param {Line} line @param {Context} context */
async function showChild(state, line, context) {
  for (let cursor = ""; ; ) {
    const page = await client.threads({ q: `${context.threadId}.s`.slice(0, 200), limit: 200, cursor });
    const child = page.threads.find((t) => t.parent === context.threadId && t.metadata?.parentToolCallId === line.callId);
    if (child) {
      const view = h("tm-thread", { nested: true });
      /** @type {any} */ (view).threadId = child.id;
      fill(state.child, h("p", { class: "row" }, h("a", { href: `#/threads/${encodeURIComponent(child.id)}` }, child.title || child.id)), view);
      return;
    }
    if (!page.next) throw new Error("The sub-agent's thread was not found: the call may not have started yet.");
    cursor = page.next;
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
      return `Moved in the queue${by}${detail}`;
    case "unanswered":
      return `No agent answers${detail}`;
    case "unmatched":
      return `No rule matches the event${detail}`;
  }
  return `Event ${s.status}${by}${detail}`;
}

/** @param {HTMLElement} element @param {Line} line @param {Context} context */
function showEvent(element, line, context) {
  const e = /** @type {NonNullable<Line["event"]>} */ (line.event);
  const source = /** @type {any} */ (e.metadata)?.source ?? "env";
  fill(
    element,
    h("span", { class: "when" }, source, " ", time(line.createdAt), actions(line, context)),
    h(
      "details",
      null,
      h(
        "summary",
        null,
        h("span", { class: "state" }, "event"),
        h("code", { class: "tool-name" }, e.type),
        h("span", { class: "gist" }, cut(JSON.stringify(e.payload ?? null), 120)),
        line.rule && h("span", { class: "badge" }, `rule ${line.rule}`),
      ),
      h("pre", { class: "code", tabIndex: 0 }, pretty({ payload: e.payload, metadata: e.metadata })),
    ),
  );
}
