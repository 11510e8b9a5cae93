// Compares what waits by the page's time line with what internal/turn says, after each event of each turn.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Timeline } from "../../internal/page/web/timeline.js";

for (const [i, { events, want }] of JSON.parse(readFileSync(0, "utf8")).entries()) {
  const timeline = new Timeline();
  for (const [at, e] of events.entries()) {
    timeline.apply(e, String(at));
    assert.deepEqual(timeline.waiting.map((line) => line.callId).sort(), want[at], `turn ${i}, event ${at}: ${JSON.stringify(e)}`);
  }
}
