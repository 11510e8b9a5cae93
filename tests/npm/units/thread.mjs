// What a thread shows, without a browser.

import assert from "node:assert/strict";
import test from "node:test";
import { askerOf } from "../../../internal/page/web/asker.js";
import { besideOf } from "../../../internal/page/web/beside.js";
import { commandOf, partsOfCall, partsOfText } from "../../../internal/page/web/callparts.js";
import { differing, isUnified, unified } from "../../../internal/page/web/difflines.js";
import { isSmall, nodeHas, nodeOf } from "../../../internal/page/web/jsontree.js";
import { isError, nextLine } from "../../../internal/page/web/matches.js";
import { moved } from "../../../internal/page/web/queueorder.js";
import { Timeline } from "../../../internal/page/web/timeline.js";
import { tookText } from "../../../internal/page/web/took.js";

/** The queue after its events have new priorities: the highest first, ties in the order of arrival. */
function queueAfter(arrived, changes) {
  const now = new Map(changes.map(({ id, priority }) => [id, priority]));
  return arrived.map((e) => ({ ...e, priority: now.get(e.id) ?? e.priority })).sort((a, b) => b.priority - a.priority);
}

test("an event of the queue moves to any place, whatever the priorities and the order of arrival", () => {
  for (const priorities of [
    [0, 0, 0, 0],
    [0, 1, 0, 1],
    [3, 2, 1, 0],
    [0, 5, 5, 9],
    [-10, 0, 0, 0],
  ]) {
    const arrived = priorities.map((priority, i) => ({ id: `e${i}`, priority }));
    const queue = queueAfter(arrived, []);
    for (let from = 0; from < queue.length; from++) {
      for (let to = 0; to < queue.length; to++) {
        const wanted = queue.map((e) => e.id);
        wanted.splice(to, 0, ...wanted.splice(from, 1));
        const changes = moved(queue, from, to);
        assert.deepEqual(
          queueAfter(arrived, changes).map((e) => e.id),
          wanted,
          `${priorities}: ${from} to ${to}`,
        );
        if (from === to) assert.deepEqual(changes, []);
      }
    }
  }
  const equal = ["a", "b", "c", "d"].map((id) => ({ id, priority: 0 }));
  assert.deepEqual(moved(equal, 1, 0), [{ id: "b", priority: 1 }], "one change is enough");
  for (let from = 0; from < 4; from++)
    assert.ok(
      moved(equal, from, 3).every((e) => e.priority >= 0),
      "what is posted later stays behind",
    );
});

const signs = { same: " ", add: "+", del: "-", hunk: "@", meta: "!" };
const drawn = (lines) => lines.map(({ kind, text }) => signs[kind] + text);

test("the lines that differ are found, those that are gone first", () => {
  assert.deepEqual(drawn(differing("a\nb\nc", "a\nB\nc")), [" a", "-b", "+B", " c"]);
  assert.deepEqual(drawn(differing("a\nb\nc\nd", "b\nx\nc\nd")), ["-a", " b", "+x", " c", " d"]);
  assert.deepEqual(drawn(differing("same", "same")), [" same"]);
  const large = (sign) => Array.from({ length: 3000 }, (_, i) => `${sign}${i}`).join("\n");
  const lines = differing(`first\n${large("a")}`, `first\n${large("b")}`);
  assert.equal(lines.length, 6001, "large texts are replaced");
  assert.deepEqual([lines[0].kind, lines[1].kind, lines[3001].kind], ["same", "del", "add"]);
});

const patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n--- two\n+++ zwei\ntext after it";

test("a difference in the unified format is recognized and read", () => {
  assert.ok(isUnified(patch) && isUnified(`diff --git a/x b/x\nindex 1..2\n${patch}`));
  assert.ok(!isUnified("--- a rule\n+++ another") && !isUnified("- a\n+ b") && !isUnified("diff --git is a command"));
  assert.deepEqual(drawn(unified(patch)), ["!--- a/x", "!+++ b/x", "@@@ -1,2 +1,2 @@", " one", "--- two", "+++ zwei", "!text after it"]);
  assert.deepEqual(drawn(unified("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n")).slice(1), ["-a", "!\\ No newline at end of file", "+b"]);
});

test("a command, an edit and a patch are told from other arguments", () => {
  const kinds = (name, args) => partsOfCall(name, JSON.stringify(args)).map((part) => part.kind);
  const command = partsOfCall("shell_cmd", '{"command":"ls -l\\ncat x","timeout":5}');
  assert.deepEqual(command, [
    { kind: "command", text: "ls -l\ncat x" },
    { kind: "json", value: { timeout: 5 } },
  ]);
  assert.equal(commandOf("mcp__box__bash", '{"cmd":"date"}'), "date");
  for (const name of ["publish", "shelly", "note"]) assert.equal(commandOf(name, '{"command":"date"}'), undefined, name);
  for (const args of ['{"command":["a"]}', "[]", "no JSON", "null"]) assert.equal(commandOf("bash", args), undefined, args);
  const [edit, ...others] = partsOfCall("edit_file", '{"path":"x.go","old_string":"a\\nb","new_string":"a\\nc","all":true}');
  assert.equal(edit.name, "x.go");
  assert.deepEqual(drawn(edit.lines), [" a", "-b", "+c"]);
  assert.deepEqual(others, [{ kind: "json", value: { all: true } }]);
  assert.deepEqual(
    kinds("edit", {
      path: "x",
      edits: [
        { oldText: "a", newText: "b" },
        { oldText: "c", newText: "d" },
      ],
    }),
    ["diff", "diff"],
  );
  assert.deepEqual(kinds("edit", { path: "x", edits: [{ oldText: "a" }] }), ["json"]);
  const whole = { edits: [{ file_path: "/etc/sudoers", old_string: "a", new_string: "b" }] };
  assert.deepEqual(partsOfCall("edit", JSON.stringify(whole)), [{ kind: "json", value: whole }], "an edit says more than the difference");
  assert.deepEqual(kinds("search", { search: "a", replace: "b" }), ["json"], "nothing says what would be edited");
  assert.deepEqual(kinds("apply_patch", { patch, dry: false }), ["diff", "json"]);
  assert.deepEqual(
    [patch, '{"a":1}', "[1]", "12", "plain", ""].map((text) => partsOfText(text)[0].kind),
    ["diff", "json", "json", "text", "text", "text"],
  );
});

test("large JSON is folded, and unfolded where a text is", () => {
  assert.ok(isSmall({ a: 1, b: [1, 2] }));
  assert.ok(!isSmall({ text: "two\nlines" }), "texts are shown as text");
  assert.ok(!isSmall(Array.from({ length: 20 }, (_, i) => i)));
  const value = { id: 1, few: [1, 2], none: {}, many: Array.from({ length: 250 }, (_, i) => ({ n: i })), prose: "a\nb" };
  const [id, few, none, many, prose] = nodeOf(value).parts();
  assert.deepEqual([id.text, few.open, none.parts, many.open, prose.prose], ["1", true, undefined, false, true]);
  assert.equal(many.text, "[ 250 items ]");
  const groups = many.parts();
  assert.deepEqual(
    groups.map((g) => [g.name, g.open]),
    [
      ["0 … 99", false],
      ["100 … 199", false],
      ["200 … 249", false],
    ],
  );
  assert.equal(groups[2].parts()[49].name, "249");
  assert.ok(nodeHas(many, "249") && nodeHas(nodeOf(value), "prose") && !nodeHas(many, "250"));
  let deepest = nodeOf(Array.from({ length: 10_001 }, (_, i) => i));
  for (let depth = 0; deepest.parts; depth++) {
    assert.ok(depth < 4 && deepest.parts().length <= 100);
    deepest = deepest.parts().at(-1);
  }
  assert.equal(deepest.text, "10000");
});

test("an error is a failure, and not what a person has denied", () => {
  const line = (change) => ({ key: "k", kind: "message", version: 0, ...change });
  const denied = { decision: "deny", decidedAt: "", by: "ann" };
  const lines = [
    line({}),
    line({ error: "500" }),
    line({ kind: "tool", failed: true, decisions: [denied] }),
    line({ kind: "tool", failed: true }),
    line({ kind: "status", status: { status: "turn_ended", turn: "interrupted" } }),
    line({ kind: "status", status: { status: "turn_ended", turn: "failed" } }),
    line({ kind: "error", text: "x" }),
  ];
  const found = [];
  for (let at = -1; (at = nextLine(lines, isError, at, 1)) >= 0; ) found.push(at);
  assert.deepEqual(found, [1, 3, 5, 6]);
  assert.equal(nextLine(lines, isError, 3, -1), 1);
});

test("the rule that asks is named", () => {
  assert.equal(askerOf({ agent: "ops", rule: "prod", reason: "It costs money." }), "Asked by rule prod: It costs money.");
  assert.equal(askerOf({ agent: "ops", rule: "approvals" }), "Asked by the approvals of agent ops");
  assert.equal(askerOf({ agent: "ops", reason: "The tool has changed." }), "The tool has changed.");
  assert.equal(askerOf({ agent: "ops" }), "");
});

test("a reply says what its model call took, also after a hook has changed it", () => {
  const usage = { inputTokens: 1200, outputTokens: 34 };
  const timeline = new Timeline();
  const message = { id: "m1", threadId: "t", senderId: "bot", senderType: "agent", role: "assistant", content: "hello" };
  const at = { type: "message", eventId: "e1", messageId: "m1", createdAt: "2026-01-01T12:00:00Z" };
  timeline.apply({ ...at, message: { ...message, usage, durationMs: 812 } }, "3");
  const [line] = timeline.apply({ ...at, message: { ...message, content: "changed" } }, "4");
  assert.equal(line.text, "changed");
  assert.deepEqual(tookText(line), { text: "1,234 tokens · 812 ms", detail: "1,200 tokens in, 34 out; the model took 812 ms" });
  assert.deepEqual(tookText({ durationMs: 65_000 }), { text: "1 min 5 s", detail: "the model took 1 min 5 s" });
  assert.equal(tookText({ usage: { inputTokens: 0, outputTokens: 0 } }), undefined);
  assert.equal(tookText({}), undefined);
  const question = { ...message, id: "e1", senderType: "user", role: "user", postedAt: "2026-01-01T11:56:30Z" };
  const [asked] = timeline.apply({ ...at, messageId: "e1", message: question }, "2");
  assert.deepEqual(tookText(asked), { text: "waited 3 min 30 s", detail: "It waited 3 min 30 s in the queue." });
});

test("messages that agents wrote at the same time stand side by side, also when they are read again", () => {
  const end = Date.parse("2026-01-01T12:00:00Z");
  /** A reply that was written from one time to another, in milliseconds; without a start it is still written. */
  const reply = (key, agent, to, from) => ({
    key,
    kind: "message",
    agent,
    state: from === undefined ? "streaming" : "final",
    createdAt: from === undefined ? undefined : new Date(end + to).toISOString(),
    durationMs: from === undefined ? undefined : to - from,
  });
  const asked = { key: "q", kind: "message", state: "stored" };
  const groups = (lines, known = []) => besideOf(lines, new Set(known)).map((group) => group.map(({ key }) => key).join(" "));
  assert.deepEqual(groups([asked, reply("a", "bot", 900, 0), reply("b", "critic", 950, 100), asked]), ["a b"]);
  assert.deepEqual(groups([reply("a", "bot", 900, 0), reply("b", "critic", 1800, 850)]), [], "one after the other");
  assert.deepEqual(groups([reply("a", "bot", 900, 0), { key: "t", kind: "tool" }, reply("b", "critic", 950, 100)]), [], "with a call in between");
  assert.deepEqual(groups([reply("a", "bot", 900, 0), reply("b", "bot", 950, 100)]), [], "of one agent");
  assert.deepEqual(groups([reply("a", "bot"), reply("b", "critic")]), ["a b"]);
  assert.deepEqual(groups([reply("a", "bot", 900, 0), reply("b", "critic")]), []);
  assert.deepEqual(groups([reply("a", "bot", 900, 0), reply("b", "critic")], ["a", "b"]), ["a b"], "as it was");
  const pairs = [reply("a", "bot", 900, 0), reply("b", "critic", 950, 100), reply("c", "bot", 1900, 1000), reply("d", "critic", 1950, 1000)];
  assert.deepEqual(groups(pairs), ["a b", "c d"]);
});
