// Tests of what the page says of others who look at a thread.

import assert from "node:assert/strict";
import test from "node:test";
import { presenceText } from "../../../internal/page/web/presencetext.js";

test("who else looks at a thread", () => {
  assert.equal(presenceText([], "ann"), "");
  assert.equal(presenceText(["bob"], "ann"), "Also here: bob");
  assert.equal(presenceText(["bob", "bob"], "ann"), "Also here: bob");
  assert.equal(presenceText(["bob", "cleo", "dan"], "ann"), "Also here: bob, cleo and dan");
  assert.equal(presenceText(["bob", "cleo", "dan", "eve"], "ann"), "Also here: bob, cleo and 2 others");
  assert.equal(presenceText(["ann"], "ann"), "Also here: you, in another window");
  assert.equal(presenceText(["ann", "bob"], "ann"), "Also here: bob and you, in another window");
});
