// What a turn took, without a browser.

import assert from "node:assert/strict";
import test from "node:test";
import { durationText } from "../../../internal/page/web/durations.js";
import { barsOf } from "../../../internal/page/web/turnbars.js";

const BASE = Date.parse("2026-01-01T12:00:00Z");
const at = (ms) => new Date(BASE + ms).toISOString();
const record = (type, ms, payload) => ({ type, createdAt: at(ms), payload });
const model = (ms, durationMs, more) =>
  record("llm_call", ms, { agent: "bot", model: "m", messageId: `r${ms}`, durationMs, attempt: 1, usage: { inputTokens: 10, outputTokens: 2 }, ...more });
const calls = (ms, ...ids) => record("tool_call", ms, { agentName: "bot", toolCalls: ids.map((id) => ({ id, function: { name: "note" } })) });
const result = (ms, toolCallId, isError = false) => record("message", ms, { senderType: "tool", toolCallId, isError });
const asked = (ms, toolCallId) => record("approval_request", ms, { toolCallId, toolName: "note", requestedAt: at(ms) });
const decided = (ms, toolCallId, more) => record("approval", ms, { toolCallId, toolName: "note", decision: "approve", by: "ann", decidedAt: at(ms), ...more });
const run = (toolCallId, from, to, attempt = 1) => ({
  toolCallId,
  toolName: "note",
  agent: "bot",
  status: "succeeded",
  attempt,
  startedAt: at(from),
  finishedAt: to && at(to),
});
const message = record("message", 0, { senderType: "user" });
const end = (ms) => record("turn_ended", ms, { status: "completed" });

/** The bars as [kind, start, begun, end, attempts]. */
function shape(turn) {
  return turn.bars.map((bar) => [bar.kind, bar.start - BASE, bar.begun - BASE, bar.end - BASE, bar.attempts]);
}

test("a turn with a retried model call and an approval", () => {
  const turn = barsOf({
    records: [
      message,
      model(1000, 400, { attempt: 3 }),
      calls(1000, "c1"),
      asked(1100, "c1"),
      asked(5000, "c1"),
      decided(9000, "c1"),
      result(9800, "c1"),
      model(11_000, 1000),
      end(11_100),
    ],
    runs: [run("c1", 9200, 9700, 2)],
    now: BASE + 99_000,
  });
  assert.deepEqual(shape(turn), [
    ["model", 0, 600, 1000, 3],
    ["approval", 1100, 1100, 9000, 0],
    ["tool", 9000, 9200, 9700, 2],
    ["model", 9700, 10_000, 11_000, 1],
  ]);
  assert.equal(turn.bars[1].note, "approved by ann");
  assert.deepEqual(turn.total, { modelCalls: 2, toolCalls: 1, inputTokens: 20, outputTokens: 4, waited: 7900 });
  assert.deepEqual([turn.start - BASE, turn.end - BASE, turn.open], [0, 11_100, false]);
});

test("the wait of the message in the queue comes before the turn", () => {
  const asked = { ...record("message", 0, { senderType: "user", postedAt: at(-90_000) }), id: "e1", eventId: "e1" };
  const joined = { ...record("message", 500, { senderType: "user", postedAt: at(-1000) }), id: "e2", eventId: "e1" };
  const turn = barsOf({ records: [asked, joined, model(1000, 400), end(1100)], now: BASE + 99_000 });
  assert.deepEqual([turn.queued, turn.start - BASE, turn.end - BASE], [90_000, 0, 1100]);
  assert.equal(barsOf({ records: [message, end(1100)], now: BASE }).queued, 0);
});

test("what goes on lasts until now", () => {
  const turn = barsOf({ records: [message, model(1000, 1000), calls(1000, "c1", "c2"), asked(1000, "c1")], runs: [run("c2", 1200)], now: BASE + 3000 });
  assert.deepEqual(shape(turn), [
    ["model", 0, 0, 1000, 1],
    ["tool", 1000, 1200, 3000, 1],
    ["approval", 1000, 1000, 3000, 0],
  ]);
  assert.deepEqual(
    turn.bars.map((bar) => bar.open),
    [false, true, true],
  );
  assert.equal(turn.total.waited, 0, "the other tool ran meanwhile");
  assert.ok(turn.open);
});

test("votes, grants and revocations end no wait; a denied call never runs", () => {
  const records = [
    message,
    calls(0, "c1"),
    asked(0, "c1"),
    decided(100, "c1", { missing: 1 }),
    decided(200, "c1", { decision: "revoked" }),
    decided(300, "c1", { decision: "deny" }),
  ];
  const { bars } = barsOf({ records: [...records, result(310, "c1", true), end(400)], now: BASE + 900 });
  assert.deepEqual(shape({ bars }), [["approval", 0, 0, 300, 0]]);
  assert.equal(bars[0].note, "deny by ann");
  assert.ok(bars[0].failed);
});

test("a call of a client and a question to a person are waits", () => {
  const { bars, total } = barsOf({
    records: [
      message,
      calls(0, "c1", "c2"),
      record("client_call", 0, { toolCallId: "c1", toolName: "note" }),
      record("input_request", 50, { toolCallId: "c2", toolName: "note", round: 1 }),
      record("input_received", 250, { toolCallId: "c2", by: "ann" }),
      result(300, "c2"),
      result(500, "c1"),
      end(700),
    ],
    now: BASE + 900,
  });
  assert.deepEqual(shape({ bars }), [
    ["tool", 0, 0, 300, 0],
    ["client", 0, 0, 500, 0],
    ["input", 50, 50, 250, 0],
  ]);
  assert.equal(total.waited, 200, "after the tool had ended only the client was waited for");
});

test("a model call that failed, and the models that failed before another replied", () => {
  const { bars } = barsOf({
    records: [
      message,
      model(500, 100, { failed: [{ model: "a", error: "overloaded" }] }),
      record("error", 900, { agent: "bot", messageId: "x", error: "400" }),
      end(900),
    ],
    now: BASE,
  });
  assert.equal(bars[0].note, "instead of a: overloaded");
  assert.deepEqual([bars[1].failed, bars[1].note, bars[1].start - BASE], [true, "400", 500]);
});

test("the end of a turn ends what waited", () => {
  const { bars, end: stop } = barsOf({ records: [message, calls(0, "c1"), asked(100, "c1"), end(400)], now: BASE + 900 });
  assert.deepEqual(shape({ bars }), [["approval", 100, 100, 400, 0]]);
  assert.equal(bars[0].open, false);
  assert.equal(stop - BASE, 400);
});

test("a turn without records has no bars", () => {
  assert.deepEqual(barsOf({ records: [], now: BASE }).bars, []);
});

test("durations in words", () => {
  for (const [ms, text] of [
    [-3, "0 ms"],
    [999, "999 ms"],
    [1000, "1.0 s"],
    [59_949, "59.9 s"],
    [59_960, "1 min 0 s"],
    [3_599_999, "1 h 0 min"],
    [172_800_000, "2 d 0 h"],
  ]) {
    assert.equal(durationText(ms), text);
  }
});
