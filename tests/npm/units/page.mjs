// The parts of the page that need no browser.

import assert from "node:assert/strict";
import test from "node:test";
import { documentAddress, documentsAddress, placeOf, searchAddress } from "../../../internal/page/web/addresses.js";
import { Attention, READING } from "../../../internal/page/web/attention.js";
import { marked } from "../../../internal/page/web/marking.js";
import { hasText, nextLine } from "../../../internal/page/web/matches.js";
import { ordinal, ranks } from "../../../internal/page/web/ranks.js";
import { Rows } from "../../../internal/page/web/rows.js";
import { isWaiting, requestOf, Timeline } from "../../../internal/page/web/timeline.js";

test("a key counts once what it decides was in view and focused for a while", () => {
  let now = 0;
  const attention = new Attention(() => now);
  const accepts = (repeat = false) => attention.accepts({ repeat });
  attention.setFocused(true);
  now += READING;
  assert.ok(!accepts(), "it is not in view");
  attention.setVisible(true);
  now += READING - 1;
  assert.ok(!attention.seen);
  now += 1;
  assert.ok(attention.seen);
  assert.ok(accepts());
  assert.ok(!accepts(true), "the key is held");
  attention.restart();
  assert.ok(!accepts(), "there is something else to read");
  now += READING;
  attention.setFocused(false);
  assert.ok(attention.seen && !accepts());
  attention.setFocused(true);
  attention.setFocused(true);
  now += READING;
  attention.setFocused(true);
  assert.ok(accepts(), "the focus has not moved since");
  attention.setVisible(false);
  assert.ok(!attention.seen && !accepts());
});

const request = { toolCallId: "c", toolName: "pay", arguments: "{}", agent: "a", quorum: 3, requestedAt: "2026-01-01T00:00:00Z" };
const asks = (change = {}) => ({ type: "approval_request", eventId: "e", request: { ...request, ...change } });
const approves = (by, missing, change = {}) => ({
  type: "approval",
  eventId: "e",
  approval: { toolCallId: "c", toolName: "pay", agent: "a", decision: "approve", scope: "once", by, missing, decidedAt: "2026-01-01T00:00:00Z", ...change },
});

/** The lines of events, and those of the same events read in two pages. */
function* read(events) {
  for (let cut = 0; cut <= events.length; cut++) {
    const later = new Timeline(),
      earlier = new Timeline();
    events.slice(cut).forEach((e, i) => later.apply(e, String(cut + i)));
    events.slice(0, cut).forEach((e, i) => earlier.apply(e, String(i)));
    later.prepend(earlier);
    yield later;
  }
}

test("votes add up, whatever the order of pages and reminders", () => {
  const voters = (timeline) => requestOf(timeline.byKey.get("t:c")).votes.map((v) => v.by);
  for (const timeline of read([asks(), approves("ann", 2), approves(" Ben", 1)])) assert.deepEqual(voters(timeline), ["ann", " Ben"]);
  const reminded = new Timeline();
  for (const e of [asks(), approves("ann", 2), asks({ reminder: 1, votes: [{ by: "Ann" }] }), approves("ben", 1)]) reminded.apply(e, "1");
  assert.deepEqual(voters(reminded), ["Ann", "ben"]);
  assert.ok(isWaiting(reminded.byKey.get("t:c")));
  reminded.apply(asks({ round: 2 }), "2");
  assert.deepEqual(voters(reminded), [], "another round begins without votes");
  reminded.apply(approves("cleo", undefined, { round: 2 }), "3");
  assert.ok(!isWaiting(reminded.byKey.get("t:c")));
});

test("a failed turn is shown once, and once more if its retry fails", () => {
  const failed = (n) => [
    { type: "error", eventId: "e", error: `failure ${n}`, createdAt: "2026-01-01T00:00:00Z" },
    { type: "status", eventId: "e", status: { status: "turn_ended", turn: "failed", detail: `failure ${n}` }, createdAt: "2026-01-01T00:00:00Z" },
  ];
  const message = { type: "message", eventId: "e", message: { id: "e", senderType: "user", senderId: "ann", role: "user", content: "hi" } };
  const shown = (timeline) => timeline.lines.filter((l) => !l.repeats && (l.kind === "error" || l.status?.turn === "failed")).map((l) => l.key);
  for (const timeline of read([message, ...failed(1)])) {
    assert.equal(shown(timeline).length, 1);
    assert.equal(timeline.errors.get("e"), shown(timeline)[0], "where it can be retried");
    assert.ok(timeline.failed.has("e"));
  }
  for (const timeline of read([message, ...failed(1), { type: "status", eventId: "e", status: { status: "retried" } }, ...failed(2)]))
    assert.equal(shown(timeline).length, 2);
  const silent = new Timeline();
  silent.apply(failed(1)[1], "1");
  assert.equal(shown(silent).length, 1, "without an error, the status says it");
});

test("the output of a command is text", () => {
  const timeline = new Timeline();
  const says = (data, toolName = "shell_cmd") => timeline.apply({ type: "tool_progress", toolCallId: toolName, toolName, data }, "1");
  says({ subtype: "stdout_chunk", content: "a\n" });
  says({ subtype: "stderr_chunk", content: "b" });
  assert.deepEqual(timeline.byKey.get("t:shell_cmd").progress, [
    { text: "a\n", error: false },
    { text: "b", error: true },
  ]);
  says("half", "call_agent");
  says("half", "copy");
  says({ done: 1 }, "copy");
  assert.deepEqual(timeline.byKey.get("t:call_agent").progress, [{ text: "half" }]);
  assert.deepEqual(timeline.byKey.get("t:copy").progress, [{ text: "half\n" }, { text: '{"done":1}\n' }]);
});

test("a retry is shown until the next attempt says something", () => {
  const timeline = new Timeline();
  timeline.apply({ type: "status", eventId: "e", status: { status: "retrying", retry: { next: "b", attempts: 1 } } });
  timeline.apply({ type: "reset", eventId: "e", messageId: "m", attempt: 2 });
  timeline.apply({ type: "stream", eventId: "e", messageId: "m", content: "", attempt: 2 });
  assert.equal(timeline.retrying.get("e").next, "b");
  timeline.apply({ type: "stream", eventId: "e", messageId: "m", content: "hi", attempt: 2 });
  assert.ok(!timeline.retrying.has("e"));
});

const marks = (text, query) =>
  marked(text, query)
    .filter((part) => part.marked)
    .map((part) => part.text);

test("the words of a query are marked in all of their forms", () => {
  assert.deepEqual(marks("Thirty days of vacation. Vacations are planned.", "How many days of VACATION?"), ["days", "vacation", "Vacations"]);
  assert.deepEqual(marks("Policies, a policy; it was installed, an installation, installing", "policy install"), [
    "Policies",
    "policy",
    "installed",
    "installation",
    "installing",
  ]);
  assert.deepEqual(marks("She runs. They are running, and the classes run", "run class"), ["runs", "running", "classes", "run"]);
  assert.deepEqual(marks("Zoë's café", "ZOE cafe"), ["Zoë", "café"]);
  assert.deepEqual(marks("to be or not to be", "to be"), ["to", "be", "to", "be"], "there are no other words");
  assert.deepEqual(marks("the thing", "the things"), ["thing"]);
  assert.deepEqual(marks("some text", "<b> ?"), []);
  assert.equal(
    marked("a <b>day</b>, days", "day")
      .map((part) => part.text)
      .join(""),
    "a <b>day</b>, days",
    "nothing of the text is lost",
  );
});

test("ranks are told in words", () => {
  assert.equal(ranks({ textRank: 1, vectorRank: 3 }), "1st by words, 3rd by meaning");
  assert.equal(ranks({ vectorRank: 22 }), "22nd by meaning");
  assert.equal(ranks({ rerankRank: 2, textRank: 1 }), "2nd by the reranking model, 1st by words");
  assert.equal(ranks({}), "");
  assert.deepEqual([11, 12, 13, 21, 101].map(ordinal), ["11th", "12th", "13th", "21st", "101st"]);
});

test("addresses of knowledge survive every name", () => {
  assert.equal(documentAddress("a/b?", 3, "x y"), "#/knowledge/documents/a%2Fb%3F/3?passage=x+y");
  assert.equal(documentAddress("d", 0), "#/knowledge/documents/d/0");
  assert.equal(searchAddress("a&b", ["one", "two"]), "#/knowledge/search?q=a%26b&collection=one&collection=two");
  assert.equal(documentsAddress({ status: "", search: "x" }), "#/knowledge/documents?search=x");
});

test("lines of a thread and views of the list beside it are at one place", () => {
  const place = (hash) => placeOf(`http://localhost/${hash}`);
  assert.equal(place("#/threads/a%2Fb/e%3A1/7?tab=failing"), place("#/threads/a%2Fb"));
  assert.equal(place("#/new?tab=failing"), place("#/new"));
  assert.notEqual(place("#/threads/a"), place("#/threads/ab"));
  assert.notEqual(place("#/threads/a"), place("#/"));
  assert.notEqual(place("#/agents?new"), place("#/agents"));
});

/** Rows of 10 pixels, called r0, r1 and so on. */
function rowsOf(n) {
  const rows = new Rows(10);
  rows.set(Array.from({ length: n }, (_, i) => `r${i}`));
  return rows;
}

test("rows that were not measured have the estimated height", () => {
  const rows = rowsOf(100_000);
  assert.equal(rows.total, 1_000_000);
  assert.equal(
    rows.measure([
      ["r1", 30],
      ["r3", 0],
      ["none", 7],
    ]),
    0,
  );
  assert.equal(rows.total, 1_000_010);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((i) => rows.top(i)),
    [0, 10, 40, 50, 50],
  );
  assert.equal(rows.measure([["r1", 30.01]]), undefined, "nothing has changed");
  assert.equal(rows.indexOf("r99999"), 99_999);
  assert.equal(rows.indexOf("none"), -1);
  rows.set(["x", "r1"]);
  assert.equal(rows.total, 40, "a height that was measured is kept");
});

test("the row at a distance", () => {
  const rows = rowsOf(10);
  assert.deepEqual(
    [-5, 0, 9.9, 10, 99, 1000].map((y) => rows.at(y)),
    [0, 0, 0, 1, 9, 9],
  );
  assert.equal(new Rows(10).at(0), -1);
});

test("a range has the rows in it, and those beside them", () => {
  const rows = rowsOf(10);
  assert.deepEqual(rows.range(25, 45), [2, 5]);
  assert.deepEqual(rows.range(-100, 1000), [0, 10]);
  assert.deepEqual(rows.range(-100, -1), [0, 0], "the list is below the window");
  assert.deepEqual(rows.range(101, 200), [0, 0], "the list is above the window");
  assert.deepEqual(new Rows(10).range(0, 100), [0, 0]);
  rows.measure([
    ["r4", 0],
    ["r7", 0],
  ]); // r5 is beside r4, and r8 beside r7
  assert.deepEqual(rows.range(40, 41), [4, 6]);
  assert.deepEqual(rows.range(30, 59), [3, 7]);
  assert.deepEqual(rows.range(30, 65), [3, 9]);
  for (const [row, all] of Object.entries({ 3: [3, 4], 4: [4, 6], 5: [4, 6], 6: [6, 7], 8: [7, 9], 9: [9, 10] }))
    assert.deepEqual(rows.beside(Number(row)), all);
});

test("what is in view keeps its place", () => {
  const rows = rowsOf(10);
  assert.equal(
    rows.measure(
      [
        ["r1", 25],
        ["r8", 99],
      ],
      "r5",
    ),
    15,
    "only what is above moves it",
  );
  const earlier = Array.from({ length: 5 }, (_, i) => `e${i}`);
  assert.equal(rows.set([...earlier, ...rows.keys], "r5"), 50);
  assert.equal(rows.set([...rows.keys, "z"], "r5"), 0);
  assert.equal(
    rows.set(
      rows.keys.filter((key) => key !== "r5" && key !== "e0"),
      "r5",
    ),
    -20,
    "the rows below take the place of one that is gone",
  );
  assert.equal(rows.set(["r7", ...rows.keys.filter((key) => key !== "r7")], "r7"), 0, "one that has moved in the list does not take the view along");
  assert.equal(rows.set(["a", "b"], "r7"), 0);
  assert.equal(rows.set(["b", "a"]), 0);
});

test("a text is found in every part of a line, in any case", () => {
  const line = (parts) => ({ key: "k", kind: "message", version: 0, ...parts });
  for (const parts of [
    { text: "Some Text" },
    { thought: "text" },
    { error: "TEXT" },
    { name: "text" },
    { args: '{"a":"text"}' },
    { output: "a text b" },
    { status: { status: "intercepted", detail: "text" } },
    { event: { type: "x", payload: { a: "text" } } },
  ])
    assert.ok(hasText(line(parts), "Text"), JSON.stringify(parts));
  assert.ok(!hasText(line({ text: "t.xt" }), "text"));
  assert.ok(hasText(line({ text: "a.*b" }), ".*"), "it is no pattern");
  const lines = ["a", "b", "a", "b"].map((text) => line({ text }));
  const next = (text, from, step) => nextLine(lines, (line) => hasText(line, text), from, step);
  assert.deepEqual([next("a", 4, -1), next("a", 2, -1), next("a", 0, -1)], [2, 0, -1]);
  assert.deepEqual([next("b", -1, 1), next("b", 1, 1), next("b", 3, 1)], [1, 3, -1]);
});
