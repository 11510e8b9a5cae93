// Tests of requests that follow changes.

import assert from "node:assert/strict";
import test from "node:test";
import { Paced } from "../../../internal/page/web/paced.js";

test("a request that fails does not end those after it", async () => {
  const timers = [];
  globalThis.window = { setTimeout: (run) => timers.push(run) };
  let asked = 0;
  const paced = new Paced(async () => {
    asked++;
    if (asked === 1) throw new Error("no connection");
  }, 0);
  paced.refresh();
  await assert.rejects(timers.shift()(), /no connection/);
  paced.refresh();
  await timers.shift()();
  assert.equal(asked, 2);
});
