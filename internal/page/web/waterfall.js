// What a turn took: its steps as bars, in a table.

import { act, button, cut, fill, h, sideHeader, time } from "./dom.js";
import { durationText } from "./durations.js";
import { client } from "./session.js";
import { barsOf, TYPES } from "./turnbars.js";

/** @import { Bar, Record, ToolCallRun, TurnBars } from "./turnbars.js" */

/** What each kind of bar is, for people. @type {{ [K in Bar["kind"]]: string }} */
const KINDS = { model: "model call", tool: "tool call", approval: "wait for approval", input: "wait for input", client: "wait for a client" };

/** Records of a page, and calls that one request asks about. */
const PAGE = 1000,
  CALLS = 100;

/**
 * Shows a turn. show leads to the line of a step.
 * @param {Element} side @param {string} threadId @param {string} eventId @param {() => void} close @param {(key: string) => void} show
 */
export async function showWaterfall(side, threadId, eventId, close, show) {
  const body = h("div", null, h("p", { class: "hint" }, "Loading…"));
  fill(side, sideHeader("What the turn took", close), body);
  const load = () =>
    act(null, async () => {
      const records = await recordsOf(threadId, eventId);
      const turn = barsOf({ records, runs: await runsOf(threadId, records), now: Date.now() });
      fill(body, summaryOf(turn), turn.open && button("Refresh", load, { class: "quiet" }), tableOf(turn, show));
    });
  await load();
}

/** @param {string} id @param {string} eventId */
async function recordsOf(id, eventId) {
  /** @type {Record[]} */
  const records = [];
  for (let cursor = 0; ; ) {
    const page = await client.request("GET /v1/threads/{id}/records", { path: { id }, query: { turn: eventId, type: TYPES, limit: PAGE, cursor } });
    records.push(...page.records);
    if (page.next === undefined) return records;
    cursor = Number(page.next);
  }
}

/** When the tools of a turn ran. @param {string} id @param {readonly Record[]} records */
async function runsOf(id, records) {
  const calls = records.flatMap(({ type, payload }) => {
    const { toolCalls = [] } = /** @type {{ toolCalls?: { id: string }[] }} */ (payload);
    return type === "tool_call" ? toolCalls : [];
  });
  /** @type {ToolCallRun[]} */
  const runs = [];
  for (let i = 0; i < calls.length; i += CALLS) {
    const { toolCalls } = await client.request("GET /v1/threads/{id}/tool-calls", { path: { id }, query: { id: calls.slice(i, i + CALLS).map((c) => c.id) } });
    runs.push(...toolCalls);
  }
  return runs;
}

/** @param {TurnBars} turn */
function summaryOf({ start, end, open, queued, total }) {
  const { modelCalls, toolCalls, inputTokens, outputTokens, waited } = total;
  return h(
    "p",
    { class: "turn-total" },
    h("strong", null, durationText(end - start)),
    open ? " so far" : "",
    queued > 0 ? `, after ${durationText(queued)} in the queue` : "",
    waited > 0 ? `, ${durationText(waited)} of it only waiting for people or clients` : "",
    h(
      "span",
      { class: "hint" },
      `${counted(modelCalls, "model call")}, ${counted(toolCalls, "tool call")}, ${inputTokens.toLocaleString()} tokens in, ${outputTokens.toLocaleString()} out; began `,
      time(new Date(start).toISOString()),
    ),
  );
}

/** @param {number} n @param {string} what */
const counted = (n, what) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;

/** @param {TurnBars} turn @param {(key: string) => void} show */
function tableOf({ bars, start, end }, show) {
  if (bars.length === 0) return h("p", { class: "hint" }, "The turn has no steps yet.");
  return h(
    "table",
    { class: "waterfall" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Step"), h("th", { scope: "col" }, "Took"), h("th", { scope: "col" }, "Tokens"))),
    bars.map((bar) =>
      h(
        "tbody",
        { class: `step-${bar.kind}` },
        figuresOf(bar, start, show),
        h("tr", { "aria-hidden": "true" }, h("td", { colSpan: 3 }, trackOf(bar, start, end))),
      ),
    ),
  );
}

/** @param {Bar} bar @param {number} start @param {(key: string) => void} show */
function figuresOf(bar, start, show) {
  const key = bar.callId !== undefined ? `t:${bar.callId}` : bar.messageId !== undefined ? `m:${bar.messageId}` : undefined;
  const name = bar.name || KINDS[bar.kind];
  const { usage } = bar;
  return h(
    "tr",
    { class: bar.failed ? "failed" : undefined },
    h(
      "th",
      { scope: "row" },
      key === undefined ? name : button(name, () => show(key), { class: "quiet", title: "Show it in the thread" }),
      h(
        "span",
        { class: "hint" },
        [
          KINDS[bar.kind],
          `after ${durationText(bar.start - start)}`,
          bar.attempts > 1 && `attempt ${bar.attempts}`,
          bar.begun - bar.start >= 100 && `${durationText(bar.begun - bar.start)} before it ran`,
          bar.failed && bar.kind !== "approval" && "failed",
          bar.open && "goes on",
          bar.note && cut(bar.note, 200),
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
    h("td", null, durationText(bar.end - bar.start)),
    h("td", null, usage && `${usage.inputTokens.toLocaleString()} → ${usage.outputTokens.toLocaleString()}`),
  );
}

/** The place of a step in the turn; what came before its work is paler. @param {Bar} bar @param {number} start @param {number} end */
function trackOf(bar, start, end) {
  const whole = Math.max(end - start, 1);
  /** @param {string} name @param {number} from @param {number} to */
  const part = (name, from, to) => {
    const element = h("span", { class: name });
    element.style.insetInlineStart = `min(${(100 * (from - start)) / whole}%, 100% - 3px)`;
    element.style.width = `${(100 * (to - from)) / whole}%`;
    return element;
  };
  return h("div", { class: "track" }, bar.begun > bar.start && part("before", bar.start, bar.begun), part("work", bar.begun, bar.end));
}
