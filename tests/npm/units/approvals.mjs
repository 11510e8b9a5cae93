// Tests of the order, groups and window of the list of approvals.

import assert from "node:assert/strict";
import test from "node:test";
import { entriesOf, groupOf, ordered, SHOWN, windowFrom } from "../../../internal/page/web/waitinglist.js";

const approval = (threadId, toolCallId, text = toolCallId) => ({ threadId, request: { toolCallId, toolName: "note", arguments: JSON.stringify({ text }) } });
const input = (threadId, toolCallId, round) => ({ threadId, request: { toolCallId, toolName: "note", round, questions: [] } });
const entries = (approvals, inputs = [], clientCalls = []) => entriesOf({ approvals, inputs, clientCalls });
const calls = (list) => list.map(({ threadId, request }) => `${threadId} ${request.toolCallId}`);

test("what waits keeps its key through rounds, and questions have one for each", () => {
  const [first] = entries([approval("a", "1")]);
  const [again] = entries([{ threadId: "a", request: { ...approval("a", "1").request, round: 2 } }]);
  assert.equal(first.key, again.key);
  const [one, two] = entries([], [input("a", "1", 1), input("a", "1", 2)]);
  assert.notEqual(one.key, two.key);
  assert.equal(entries([{ ...approval("a", "1"), title: "Files" }])[0].name, "Files");
});

test("calls are grouped by thread or by what is equal", () => {
  const list = entries([approval("a", "1", "x"), approval("b", "2", "x"), approval("a", "3", "y"), approval("b", "4", "x")], [input("a", "5", 1)]);
  assert.deepEqual(calls(ordered(list, [], new Set(), "thread")), ["a 1", "a 3", "a 5", "b 2", "b 4"]);
  assert.deepEqual(calls(ordered(list, [], new Set(), "call")), ["a 1", "b 2", "b 4", "a 3", "a 5"]);
  assert.notEqual(groupOf({ ...list[0], request: { ...list[0].request, workingDirectory: "/x" } }, "call"), groupOf(list[0], "call"));
});

test("what is kept stays behind what was before it", () => {
  const before = entries([approval("a", "1"), approval("b", "2"), approval("c", "3")]);
  const kept = (...at) => new Set(at.map((i) => before[i].key));
  assert.deepEqual(calls(ordered([before[0], before[2]], before, kept(1), "thread")), ["a 1", "b 2", "c 3"]);
  assert.deepEqual(calls(ordered([before[2]], before, kept(1), "thread")), ["b 2", "c 3"]);
  assert.deepEqual(calls(ordered([], before, kept(0, 2), "thread")), ["a 1", "c 3"]);
  assert.deepEqual(calls(ordered(before, before, kept(1), "thread")), ["a 1", "b 2", "c 3"], "it waits again");
});

test("what is kept stands in its group", () => {
  const before = ordered(entries([approval("a", "1", "x"), approval("a", "2", "y"), approval("b", "3", "x")]), [], new Set(), "thread");
  const kept = new Set([before[1].key]);
  const now = [before[0], before[2]];
  assert.deepEqual(calls(ordered(now, before, kept, "thread")), ["a 1", "a 2", "b 3"]);
  assert.deepEqual(calls(ordered(now, before, kept, "call")), ["a 1", "b 3", "a 2"]);
});

test("the window moves as little as needed", () => {
  assert.equal(windowFrom(0, 5, 10), 0);
  assert.equal(windowFrom(0, SHOWN - 1, 200), 0);
  assert.equal(windowFrom(0, SHOWN, 200), SHOWN / 2);
  assert.equal(windowFrom(100, 10, 200), 0);
  assert.equal(windowFrom(0, 199, 200), 200 - SHOWN);
  assert.equal(windowFrom(100, 120, 130), 130 - SHOWN, "fewer wait than before");
});
