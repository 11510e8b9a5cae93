// The types of the page say what a value is: none of them is any, which turns the checks of TestPageTypes off.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

/** The types in the comments of a module. @param {string} module */
function* typesOf(module) {
  for (const [comment] of module.matchAll(/\/\*\*.*?\*\//gs)) {
    for (const { index, 0: tag } of comment.matchAll(/@\w+\s*\{/g)) {
      let end = index + tag.length;
      for (let open = 1; open > 0 && end < comment.length; end++) open += { "{": 1, "}": -1 }[comment[end]] ?? 0;
      yield comment.slice(index, end);
    }
  }
}

const isAny = (/** @type {string} */ type) => /\bany\b/.test(type.replace(/"[^"]*"/g, ""));

test("no type is any", () => {
  assert.ok([...typesOf("/** @param {{ a: any }} b */")].some(isAny));
  const folder = new URL("../../../internal/page/web/", import.meta.url);
  const modules = readdirSync(folder).filter((name) => name.endsWith(".js"));
  assert.ok(modules.length > 50);
  for (const name of modules) {
    for (const type of typesOf(readFileSync(new URL(name, folder), "utf8"))) assert.ok(!isAny(type), `${name}: ${type}`);
  }
});
