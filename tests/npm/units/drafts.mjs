// What a person has typed and not sent.

import assert from "node:assert/strict";
import test from "node:test";
import { Draft, forgetDrafts, joined } from "../../../internal/page/web/drafts.js";

test("a text that two tabs have changed loses nothing", () => {
  assert.equal(joined("a", "ab", "a"), "ab");
  assert.equal(joined("a", "a", "ac"), "ac");
  assert.equal(joined("a", "ab", "ac"), "ac\nab");
  assert.equal(joined("a", "ab", "ab"), "ab");
  assert.equal(joined("a", "ab", ""), "ab", "the other tab has sent it");
  assert.equal(joined("a", "", "ac"), "ac", "the other tab went on");
});

/** The storage of a browser. @param {number} room How many bytes it has. */
const storage = (room) => {
  const items = new Map();
  const read = { getItem: (key) => items.get(key) ?? null, removeItem: (key) => items.delete(key) };
  const setItem = (key, value) => {
    if (value.length > room) throw new DOMException("full", "QuotaExceededError");
    items.set(key, value);
  };
  return new Proxy({ ...read, setItem }, { ownKeys: () => [...items.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) });
};

test("tabs share a draft and what is not sent, and people do not", () => {
  globalThis.localStorage = storage(1000);
  const one = new Draft("default", "ann", "t"),
    two = new Draft("default", "ann", "t");
  assert.equal(one.write("hello"), "hello");
  assert.equal(two.write("hi"), "hello\nhi");
  assert.equal(one.read(), "hello\nhi");
  for (const other of [new Draft("default", "bob", "t"), new Draft("other", "ann", "t"), new Draft("default", "ann", "u")]) assert.equal(other.read(), "");
  one.send({ id: "1", content: "hello\nhi" });
  assert.equal(two.read(), "");
  two.send({ id: "2", content: "again" });
  one.update("1", { error: "lost", unknown: true });
  assert.deepEqual(two.unsent, [
    { id: "1", content: "hello\nhi", error: "lost", unknown: true },
    { id: "2", content: "again" },
  ]);
  one.settle((id) => id === "1");
  two.update("1", { error: "late" });
  assert.deepEqual(one.unsent, [{ id: "2", content: "again" }]);
  one.write("more");
  forgetDrafts();
  assert.deepEqual([two.read(), two.unsent], ["", []]);
});

test("what the browser cannot store stays in its tab", () => {
  globalThis.localStorage = storage(60);
  const draft = new Draft("default", "ann", "full");
  draft.write("short");
  const long = "x".repeat(60);
  assert.equal(draft.write(long), long);
  assert.equal(new Draft("default", "ann", "full").read(), long);
  draft.write("short again");
  assert.equal(draft.read(), "short again");
});
