// Talks to a thread with the agent of @threadmill/client, from a project that has the package installed.
//
//   node agent.mjs <base URL>

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@threadmill/client";
import { ThreadAgent } from "@threadmill/client/ag-ui";
import { until } from "./until.mjs";

const [base] = process.argv.slice(2);

const view = (messages) => messages.filter((m) => m.role !== "reasoning" && m.role !== "activity").map((m) => [m.role, m.content ?? "", JSON.stringify(m.toolCalls ?? [])].join("|"));

async function loaded(threadId) {
  const one = new ThreadAgent({ client: new Client({ baseURL: base }), threadId });
  await one.connectAgent();
  return view(one.messages);
}

let ids = 0;
const say = (one, content) => (one.addMessage({ id: `${one.threadId}-${++ids}`, role: "user", content }), one.runAgent());

// The connection is cut again and again, before and in the middle of responses; some look complete, some requests do not arrive.
let cuts = 0;
const client = new Client({ baseURL: base, fetch: async (url, init) => {
  if (cuts < 30 && cuts % 5 === 4) {
    cuts++;
    throw new TypeError("fetch failed");
  }
  const response = await fetch(url, init);
  if (response.status !== 200 || cuts >= 30) return response;
  let left = Math.floor(Math.random() * 15_000);
  return new Response(response.body.pipeThrough(new TransformStream({
    transform(piece, controller) {
      controller.enqueue(piece.slice(0, Math.max(0, left)));
      left -= piece.length;
      if (left >= 0) return;
      if (++cuts % 2 === 0) controller.terminate();
      else controller.error(new TypeError("terminated"));
    },
  })), response);
} });

// The agent waits before it connects again; here it need not.
const later = globalThis.setTimeout;
globalThis.setTimeout = (call, ms, ...rest) => later(call, ms > 100 && ms < 20_000 ? 1 : ms, ...rest);

const errors = [];
const one = new ThreadAgent({ client, threadId: "agent", sender: "ann" });
one.subscribe({ onRunFailed: ({ error }) => void errors.push(error) });
await say(one, 'use note {"text":"a"}\nthen\ncount 1000 every 4ms\nuse ask {"text":"b"}\nthen\nend');
assert.ok(cuts > 5, `${cuts} cuts`);
assert.equal(one.pendingInterrupts.length, 1);
await one.runAgent({ resume: one.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: { approved: true } })) });
assert.match(view(one.messages).join(), /998 999 1000/);
assert.match(one.messages.at(-1).content, /end/);
assert.deepEqual(view(one.messages), await loaded("agent"));
assert.deepEqual(errors, [], "a cut is no error of the run");
assert.equal(one.messages.filter((m) => m.role === "user").length, 1, "it is posted once");

const stopped = new ThreadAgent({ client, threadId: "stopped", sender: "ann" });
const run = say(stopped, "count 10000 every 20ms");
await until(() => / 5 /.test(stopped.messages.at(-1)?.content ?? ""));
await stopped.clone().stop();
await run;
assert.deepEqual(view(stopped.messages), await loaded("stopped"));
await stopped.stop(); // nothing runs

// An agent that leaves a run neither keeps its connection nor comes back to it.
const signals = [];
const observed = new Client({ baseURL: base, fetch: (url, init) => (signals.push(init.signal), fetch(url, init)) });
const detached = new ThreadAgent({ client: observed, threadId: "detached", sender: "ann" });
let over = false;
say(detached, "count 10000 every 20ms").then(() => (over = true));
await until(() => / 5 /.test(detached.messages.at(-1)?.content ?? ""));
await detached.detachActiveRun();
await until(() => over);
const { length } = detached.messages.at(-1).content;
const again = detached.connectAgent();
await until(() => signals.length > 1 && detached.messages.at(-1)?.content.length > length + 50);
assert.deepEqual(signals.map((s) => s.aborted), [true, false]);
await detached.stop();
await again;
assert.deepEqual(view(detached.messages), await loaded("detached"));

const fresh = new ThreadAgent({ client: new Client({ baseURL: base }), threadId: "fresh", sender: "ann", title: "Greetings" });
await fresh.connectAgent();
assert.deepEqual(fresh.messages, [], "a thread that does not exist yet has nothing");
await say(fresh, "hello");
assert.deepEqual(view(fresh.messages), await loaded("fresh"));
assert.equal((await fresh.client.thread("fresh")).title, "Greetings");

const left = new ThreadAgent({ client: new Client({ baseURL: base, fetch: () => Promise.reject(new TypeError("fetch failed")) }), threadId: "left" });
const waiting = left.connectAgent();
left.abortRun();
await waiting;

const secret = new ThreadAgent({ client: new Client({ baseURL: base }), threadId: "a/b" });
await assert.rejects(secret.connectAgent(), "a refusal is an error");
const elsewhere = new ThreadAgent({ client: new Client({ baseURL: `${base}/elsewhere` }), threadId: "fresh" });
await assert.rejects(elsewhere.connectAgent(), /404/, "a server that does not have the path is no empty thread");
console.log("ok");
process.exit(0);
