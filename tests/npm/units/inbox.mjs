// The parts of the inbox that need no browser.

import assert from "node:assert/strict";
import test from "node:test";
import { leftOut, runAll } from "../../../internal/page/web/bulk.js";
import { commandOf, KEYS, keyName, PLACES } from "../../../internal/page/web/keys.js";
import { NewlyWaiting } from "../../../internal/page/web/newlywaiting.js";
import { matching } from "../../../internal/page/web/palettematch.js";
import { byAttention, ThreadList } from "../../../internal/page/web/threadlist.js";
import { filtersOf, has, isFiltered, namedViews, selectionOf, TABS, viewAddress, viewOf, viewQuery } from "../../../internal/page/web/views.js";

/** A thread that was active some seconds after the beginning. */
const thread = (id, second, activity = "idle", since = undefined) => ({
  id,
  status: activity === "closed" ? "closed" : "open",
  activity: activity === "closed" ? undefined : activity,
  agents: [],
  updatedAt: `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`,
  activitySince: since === undefined ? undefined : `2026-01-01T00:00:${String(since).padStart(2, "0")}Z`,
});

test("threads that need a person come first, the longest first; the others by their last change", () => {
  const sorted = [
    thread("idle1", 1),
    thread("b", 9, "failing", 3),
    thread("closed", 8, "closed"),
    thread("w2", 2, "waiting", 5),
    thread("idle2", 1),
    thread("a", 2, "failing", 3),
    thread("w1", 9, "waiting", 4),
  ].sort(byAttention);
  assert.deepEqual(
    sorted.map((t) => t.id),
    ["w1", "w2", "a", "b", "closed", "idle2", "idle1"],
  );
});

test("times are compared to the last digit, also where the API leaves out zeros", () => {
  const at = (id, updatedAt) => ({ ...thread(id, 0), updatedAt });
  const sorted = [at("a", "2026-01-01T00:00:05Z"), at("b", "2026-01-01T00:00:05.123Z"), at("c", "2026-01-01T00:00:05.12Z")].sort(byAttention);
  assert.deepEqual(
    sorted.map((t) => t.id),
    ["b", "c", "a"],
  );
});

/** A list of the idle threads a, b and c. */
function abc(more = false) {
  const list = new ThreadList();
  list.add([thread("a", 30), thread("b", 20), thread("c", 10)], more);
  return list;
}

test("a list follows changes at once", () => {
  const list = abc();
  list.change(thread("c", 40), true);
  assert.deepEqual(list.shown, ["c", "a", "b"]);
  list.change(thread("b", 41, "waiting", 41), true);
  list.change(thread("new", 42), true);
  assert.deepEqual(list.shown, ["b", "new", "c", "a"]);
  list.change(thread("a", 43, "closed"), false);
  assert.deepEqual(list.shown, ["b", "new", "c"]);
  assert.equal(list.changed, 0);
  assert.equal(list.get("a"), undefined);
});

test("rows stay where they are while the order is held", () => {
  const list = abc();
  list.hold(true);
  list.change(thread("c", 40), true);
  list.change(thread("b", 41, "closed"), false);
  list.change(thread("new", 42), true);
  assert.deepEqual(list.shown, ["a", "b", "c"]);
  assert.equal(list.changed, 3);
  assert.equal(list.get("b").status, "closed", "a row shows what its thread is now");
  assert.equal(list.size, 3);
  list.change(thread("a", 43), true);
  list.change(thread("new", 44, "closed"), false);
  assert.equal(list.changed, 1, "a is still first, new was never shown, and b is to go");
  list.apply();
  assert.deepEqual(list.shown, ["a", "c"]);
  assert.equal(list.changed, 0);
  list.change(thread("c", 50), true);
  assert.deepEqual(list.shown, ["a", "c"], "it is held until the person leaves");
  list.hold(false);
  assert.deepEqual(list.shown, ["c", "a"]);
});

test("threads that change places with each other are noticed", () => {
  const list = abc();
  list.hold(true);
  list.change(thread("b", 40), true);
  list.change(thread("a", 41), true);
  assert.equal(list.changed, 0);
  list.change(thread("b", 42), true);
  assert.equal(list.changed, 1);
  list.hold(false);
  assert.deepEqual(list.shown, ["b", "a", "c"]);
});

test("a page that is loaded while the order is held comes at the end", () => {
  const list = abc(true);
  list.hold(true);
  list.change(thread("c", 40), true);
  list.add([thread("d", 9), thread("e", 8)], false);
  assert.deepEqual(list.shown, ["a", "b", "c", "d", "e"]);
  list.hold(false);
  assert.deepEqual(list.shown, ["c", "a", "b", "d", "e"]);
});

test("a thread that belongs to pages that are not loaded is not listed before its page", () => {
  const list = new ThreadList();
  list.add([thread("w1", 1, "waiting", 1), thread("w2", 2, "waiting", 2)], true);
  list.change(thread("x", 50), true);
  list.change(thread("w3", 51, "waiting", 51), true);
  assert.deepEqual(list.shown, ["w1", "w2"]);
  list.change(thread("w1", 52), true);
  assert.deepEqual(list.shown, ["w2"]);
  list.add([thread("w3", 51, "waiting", 51), thread("w1", 52), thread("x", 50)], false);
  assert.deepEqual(list.shown, ["w2", "w3", "w1", "x"]);
});

test("a first page that is read again replaces the beginning", () => {
  const list = abc();
  list.replaceFirst([thread("d", 50), thread("a", 30)], true);
  assert.deepEqual(list.shown, ["d", "a", "b", "c"]);
  list.replaceFirst([thread("b", 20)], true);
  assert.deepEqual(list.shown, ["b", "c"], "those before it are gone");
  list.hold(true);
  list.replaceFirst([thread("e", 60), thread("b", 20)], false);
  assert.deepEqual(list.shown, ["b", "c"]);
  assert.equal(list.changed, 2);
  list.hold(false);
  assert.deepEqual(list.shown, ["e", "b"]);
});

test("a view has one address, and comes back from it", () => {
  assert.equal(viewQuery(viewOf(new URLSearchParams("tab=none&x=1&q=+&agent="))), "");
  const view = viewOf(new URLSearchParams("agent=bot&tab=failing&q=a+b&olderThan=24h&x=y"));
  assert.deepEqual(view, { tab: "failing", q: "a b", agent: "bot", olderThan: "24h" });
  assert.equal(viewQuery(view), "?tab=failing&q=a+b&agent=bot&olderThan=24h");
  assert.deepEqual(viewOf(new URLSearchParams(viewQuery(view))), view);
  assert.equal(viewAddress(view, "a/b"), "#/threads/a%2Fb?tab=failing&q=a+b&agent=bot&olderThan=24h");
  assert.equal(viewAddress({ tab: "open" }), "#/");
  assert.deepEqual(filtersOf(view), { q: "a b", agent: "bot", olderThan: "24h" });
  assert.ok(isFiltered(view) && !isFiltered({ tab: "failing" }));
});

test("each tab has the threads that it asks for", () => {
  const threads = ["waiting", "failing", "unanswered", "running", "idle", "closed"].map((activity) => thread(activity, 1, activity));
  const found = Object.fromEntries(TABS.map(({ tab }) => [tab, threads.filter((t) => has(tab, t)).map((t) => t.id)]));
  assert.deepEqual(found.open, ["waiting", "failing", "unanswered", "running", "idle"]);
  for (const t of threads) assert.deepEqual(found[t.id], [t.id]);
  assert.deepEqual(selectionOf("closed"), { status: "closed" });
  assert.deepEqual(selectionOf("failing"), { activity: "failing" });
});

const press = (key, more = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, repeat: false, ...more });
const list = { list: "other", field: false, off: false };

test("no key means two things in one place", () => {
  for (const where of Object.keys(PLACES)) {
    const also = { list: ["page"], thread: ["page", "list"], approvals: ["page"], card: ["page", "approvals"], message: [] }[where] ?? [];
    const keys = KEYS.filter((key) => key.where === where || also.includes(key.where)).flatMap((key) => key.keys);
    assert.deepEqual(keys, [...new Set(keys)], where);
  }
});

test("each command's keys run it where they apply, and nowhere else", () => {
  for (const key of KEYS.filter((one) => one.command)) {
    for (const name of key.keys) {
      const [, mod, letter] = /^(Mod\+)?(.+)$/.exec(name);
      const e = press(letter, { ctrlKey: mod !== undefined });
      const single = letter.length === 1 && !mod;
      const at = { ...list, list: key.where === "list" ? "row" : "none", field: key.command === "leave" };
      assert.equal(commandOf(e, at), key.command, name);
      assert.equal(commandOf({ ...e, altKey: true }, at), undefined);
      assert.equal(commandOf({ ...e, repeat: true }, at), key.repeats ? key.command : undefined, name);
      assert.equal(commandOf(e, { ...at, off: true }), single ? undefined : key.command, `${name} while keys are off`);
      if (single) assert.equal(commandOf(e, { ...at, field: true }), undefined, `${name} is written`);
      if (key.where === "list") for (const other of ["none", "card"]) assert.equal(commandOf(e, { ...at, list: other }), undefined, `${name} in ${other}`);
    }
  }
});

test("arrows move only within the list, and other keys mean nothing", () => {
  assert.equal(commandOf(press("ArrowDown"), list), undefined);
  assert.equal(commandOf(press("j"), list), "next");
  assert.equal(commandOf(press("e", { ctrlKey: true }), list), undefined);
  assert.equal(commandOf(press("Escape"), list), undefined, "there is no field to leave");
  assert.equal(commandOf(press("q"), list), undefined);
});

test("keys are shown as keyboards show them", () => {
  assert.equal(keyName("Mod+f", false), "Ctrl+F");
  assert.equal(keyName("Mod+f", true), "⌘F");
  assert.equal(keyName("Shift+Enter", false), "Shift+Enter");
  assert.equal(keyName("ArrowDown", false), "↓");
  assert.equal(keyName("j", true), "j");
});

test("the palette finds labels that have all words, beginnings first", () => {
  const items = ["Approvals", "Theme: dark", "Reopen", "Open the map", "MCP servers"].map((label) => ({ label }));
  const found = (text) => matching(items, text).map(({ label }) => label);
  assert.deepEqual(found(""), ["Approvals", "Theme: dark", "Reopen", "Open the map", "MCP servers"]);
  assert.deepEqual(found("open"), ["Open the map", "Reopen"]);
  assert.deepEqual(found("DARK th"), ["Theme: dark"]);
  assert.deepEqual(found("mcp map"), []);
});

test("stored views are read as far as they make sense", () => {
  assert.deepEqual(namedViews("{"), []);
  assert.deepEqual(namedViews('{"name":"x"}'), []);
  const stored = [{ name: "Refunds", query: "?tool=refund&tab=waiting&x=1" }, { name: 1, query: "" }, null, { name: "", query: "" }];
  assert.deepEqual(namedViews(JSON.stringify(stored)), [{ name: "Refunds", query: "?tab=waiting&tool=refund" }]);
  const many = Array.from({ length: 20 }, (_, i) => ({ name: `v${i}`, query: "" }));
  assert.equal(namedViews(JSON.stringify(many)).length, 12);
});

test("an action leaves out the threads that it does not concern", () => {
  const threads = ["waiting", "failing", "closed"].map((activity) => thread(activity, 1, activity));
  const concerned = (action) => threads.filter((t) => leftOut(action, t) === undefined).map((t) => t.id);
  assert.deepEqual(concerned("close"), ["waiting", "failing"]);
  assert.deepEqual(concerned("retry"), ["failing"]);
  assert.deepEqual(
    threads.map((t) => leftOut("retry", t)),
    ["has not failed", undefined, "is closed"],
  );
});

test("some run at a time, errors stop nobody else, and a person can stop", async () => {
  const signal = new AbortController();
  const ended = [];
  let running = 0,
    most = 0;
  const run = async (n) => {
    most = Math.max(most, ++running);
    await Promise.resolve();
    running--;
    if (n === 2) throw new Error("no");
  };
  await runAll([1, 2, 3, 4, 5], 2, run, (n, error) => ended.push(error ? `${n} ${error.message}` : n), signal.signal);
  assert.deepEqual(new Set(ended), new Set([1, "2 no", 3, 4, 5]));
  assert.equal(most, 2);
  ended.length = 0;
  const stop = (n) => ended.push(n) === 2 && signal.abort();
  await runAll([1, 2, 3, 4, 5], 1, run, stop, signal.signal);
  assert.deepEqual(ended, [1, 2]);
});

test("a thread that begins to wait is news once", () => {
  const newly = new NewlyWaiting();
  const call = (threadId, toolName = "pay") => ({ threadId, preview: `${threadId} begins`, request: { agent: "bot", toolName } });
  const next = (approvals, inputs = []) => newly.next({ approvals, inputs }).map(({ title, text }) => `${title}: ${text}`);
  assert.deepEqual(next([call("a")]), [], "it waited before");
  assert.deepEqual(next([call("a"), call("b"), call("b", "ship")]), ["b begins: bot asks to call pay"]);
  assert.deepEqual(next([call("a"), call("b", "ship")]), []);
  assert.deepEqual(next([call("b")], [{ threadId: "c", title: "C" }]), ["C: A call asks for input"]);
  assert.deepEqual(next([call("a"), call("b")]), ["a begins: bot asks to call pay"], "it waits again");
});
