// Watches a thread with the page's client and its timeline, cut at 100 random points, without cuts, and after its end.
//
//   node client.mjs <base URL>

import assert from "node:assert/strict";
import { Client } from "../../clients/typescript/threadmill.js";
import { Timeline } from "../../internal/page/web/timeline.js";

const [baseURL] = process.argv.slice(2);

// The client waits before it connects again, 250 ms and then random times; here it need not.
const later = globalThis.setTimeout;
globalThis.setTimeout = (call, ms, ...rest) => later(call, [250, 500].includes(ms) || !Number.isInteger(ms) ? 1 : ms, ...rest);

let cuts = 0;
async function cutting(url, init) {
  const response = await fetch(url, init);
  if (cuts >= 100 || !String(url).endsWith("/events")) return response;
  let left = Math.floor(Math.random() * 8000);
  return new Response(response.body.pipeThrough(new TransformStream({
    transform(piece, controller) {
      controller.enqueue(piece.slice(0, Math.max(0, left)));
      left -= piece.length;
      if (left >= 0) return;
      cuts++;
      if (cuts % 2 === 0) controller.terminate();
      else controller.error(new TypeError("the connection was cut"));
    },
  })), response);
}

/** What the page shows of a thread, once it is closed. */
async function shown(client) {
  const timeline = new Timeline();
  const seen = [];
  await client.watch("cuts", { onEvent: (event, id) => (timeline.apply(event, id), seen.push(id)) });
  assert.equal(new Set(seen).size, seen.length, "no event comes twice");
  return timeline.lines.map(({ kind, key, text, thought, state, name, args, output, status }) => ({ kind, key, text, thought, state, name, args, output, status: status?.status }));
}

const whole = new Client({ baseURL });
await whole.openThread({ id: "cuts", agents: ["assistant"] });
const views = [new Client({ baseURL }), new Client({ baseURL, fetch: cutting })].map(shown);
for (const content of ['use note {"text":"a"}\nthen\nthink so\ncount 1000 every 4ms\nuse note {"text":"b"}\nthen\nend', "count 500 every 4ms"]) {
  const turn = await whole.request("POST /v1/threads/{id}/messages", { path: { id: "cuts" }, query: { wait: true }, body: { content } });
  assert.equal(turn.status, "completed");
}
await whole.request("DELETE /v1/threads/{id}", { path: { id: "cuts" } });
const [all, cut] = await Promise.all(views); // which end when it is closed
const late = [];
const end = await whole.eventsBefore("cuts", {});
await whole.watch("cuts", { lastEventId: end.lastEventId, onEvent: (event) => late.push(event.type), onState: (state) => late.push(state) });
assert.deepEqual(late, ["connecting", "closed"], "a closed thread is not asked again");
assert.ok(cuts > 50, `${cuts} cuts`);
assert.match(JSON.stringify(all), /998 999 1000/);
assert.deepEqual(cut, all);
console.log("ok");
process.exit(0);
