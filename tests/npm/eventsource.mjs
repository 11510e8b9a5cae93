// Follows a thread with EventSource, as a page without any package does, and posts with fetch.
//
//   node run.mjs eventsource.mjs <base URL> <scenario>

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { EventSource } from "eventsource";
import { patience, until as wait } from "./until.mjs";

const [base, scenario] = process.argv.slice(2);
const id = scenario.replaceAll(" ", "-");
const thread = `${base}/v1/threads/${id}`;

async function post(path, body = {}, status = [200, 201, 202]) {
  const response = await fetch(thread + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  assert.ok(status.includes(response.status), `${path}: ${response.status} ${text}`);
  return text === "" ? {} : JSON.parse(text);
}

const say = (content, options = {}) => post("/messages", { content, sender: "ann", ...options });
const decide = (call, decision = {}) => post(`/approvals/${call}`, { decision: "approve", by: "ann", ...decision });

/** What a page shows. It is made of the events alone. */
class View {
  messages = new Map();
  calls = new Map();
  turns = [];
  thoughts = "";
  progress = [];
  notices = [];
  error = "";

  constructor(options = {}) {
    this.source = new EventSource(`${thread}/events`, options);
    this.source.onmessage = ({ data }) => this.apply(JSON.parse(data));
  }

  apply(e) {
    const call = (of = e) => this.calls.get(of.toolCallId ?? of.request?.toolCallId ?? of.approval?.toolCallId) ?? {};
    switch (e.type) {
      case "message": return void this.messages.set(e.messageId, e.message.content);
      case "stream": return void this.messages.set(e.messageId, (this.messages.get(e.messageId) ?? "") + e.content);
      case "reset": return void this.messages.set(e.messageId, "");
      case "thought": return void (this.thoughts += e.content);
      case "tool_call": return void this.calls.set(e.toolCallId, { ...call(), tool: e.toolName, args: e.toolArgs });
      case "tool_progress": return void this.progress.push(e.data);
      case "tool_result": return void this.calls.set(e.toolCallId, { ...call(), result: e.output });
      case "approval_request": return void this.calls.set(e.request.toolCallId, { tool: e.request.toolName, agent: e.request.agent, ...call(), asks: true });
      case "approval": return void this.calls.set(e.approval.toolCallId, { ...call(), asks: e.approval.missing > 0, decision: e.approval.decision, by: e.approval.by });
      case "client_call": return void this.calls.set(e.call.toolCallId, { ...call(), client: true });
      case "input_request": return void this.calls.set(e.input.toolCallId, { ...call(e.input), question: e.input });
      case "input_received": return void this.calls.set(e.received.toolCallId, { ...call(e.received), question: undefined, answered: e.received });
      case "error": return void (this.error = e.error);
      case "status": return void (e.status.status === "turn_ended" ? this.turns.push(e.status.turn) : this.notices.push(e.status.status));
    }
  }

  asked = () => [...this.calls].filter(([, c]) => c.asks);
  questions = () => [...this.calls.values()].filter((c) => c.question).map((c) => c.question);
  text = () => [...this.messages.values()].join("\n");
}

const views = [];
function view(options) {
  const one = new View(options);
  views.push(one);
  return one;
}

const until = (condition) => wait(condition, () => `not reached: ${condition} ${JSON.stringify(views.map((v) => [...v.calls]))}`);

const ended = (one, n = 1) => until(() => one.turns.length >= n);
const one = (list) => (assert.equal(list.length, 1, JSON.stringify(list)), list[0]);

/** Cuts the connection at random points. */
function scissors() {
  const it = { cuts: 0 };
  it.fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (it.cuts >= 30) return response;
    let left = Math.floor(Math.random() * 3000);
    return new Response(response.body.pipeThrough(new TransformStream({
      transform(piece, controller) {
        controller.enqueue(piece.slice(0, Math.max(0, left)));
        left -= piece.length;
        if (left >= 0) return;
        it.cuts++;
        controller.terminate();
      },
    })), { status: response.status, headers: response.headers });
  };
  return it;
}

/** Answers the questions of the tool that books, first with what does not fit. */
async function book(v, agent) {
  const answer = (q, answers, status) => post(`/tool-calls/${q.toolCallId}/input`, { round: q.round, answers, by: "ann" }, status);
  await until(() => v.questions().length === 1);
  const when = one(v.questions());
  assert.deepEqual([when.agent, when.questions[0].message], [agent, "When do you come?"]);
  const refused = await answer(when, { when: { action: "accept", content: { day: "sunday" } } }, [422]);
  assert.match(JSON.stringify(refused), /day: must be one of/);
  await answer(when, { when: { action: "accept", content: { day: "monday" } } });
  await until(() => v.questions()[0]?.round === 2);
  const pay = one(v.questions());
  assert.equal(pay.questions[0].url, "https://pay.example/42");
  await answer(pay, { pay: { action: "accept" } });
  await ended(v);
  assert.deepEqual([v.questions(), v.calls.get(pay.toolCallId).answered.by], [[], "ann"]);
  assert.match(v.text(), /booked: secret state.*paid: accept/);
}

const scenarios = {
  async reply(v) {
    await say("think about it\nhello");
    await ended(v);
    assert.match(v.text(), /hello/);
    assert.match(v.thoughts, /about it/);
  },
  async tools(v) {
    await say('use note {"text":"a"}\nuse report {}\nthen\ndone');
    await ended(v);
    assert.deepEqual([...v.calls.values()].map((c) => c.result), ["noted: a", "reported"]);
    assert.deepEqual(v.progress, ["half", { done: true }]);
  },
  async approval(v) {
    await say('use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\ndone');
    await until(() => v.asked().length === 2);
    const [[a], [b]] = v.asked();
    await decide(a);
    await decide(b, { decision: "deny", reason: "not b" });
    await ended(v);
    assert.deepEqual([v.calls.get(a).result, v.calls.get(a).by, v.calls.get(b).decision], ["asked: a", "ann", "deny"]);
  },
  async "decided since"(v) {
    await say('use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\nuse ask {"text":"a"}\nthen\ndone');
    await until(() => v.asked().length === 2);
    const [[a], [b]] = v.asked();
    await decide(a, { scope: "session" });
    await decide(b, { args: { text: "edited" } });
    await ended(v);
    assert.deepEqual([...v.calls.values()].map((c) => c.result.split("\n").at(-1)), ["asked: a", "asked: edited", "asked: a"], "the session covers the third");
  },
  async expired(v) {
    await say("use hurry {}\nthen\ndone");
    await ended(v);
    assert.equal(one([...v.calls.values()]).decision, "expired");
  },
  async "sub-agent asks"(v) {
    await say('use call_agent {"agent":"second","message":"use ask {\\"text\\":\\"a\\"}\\nthen\\nlooked"}\nthen\ndone');
    await until(() => v.asked().length === 1);
    const [call, asked] = v.asked()[0];
    assert.equal(asked.agent, "second");
    await decide(call);
    await ended(v);
    assert.match([...v.calls.values()][0].result, /looked/);
  },
  async input(v) {
    await say("use book {}\nthen\ndone");
    await book(v, "assistant");
  },
  async "sub-agent input"(v) {
    await say('use call_agent {"agent":"second","message":"use book {}\\nthen\\nlooked"}\nthen\ndone');
    await book(v, "second");
    assert.match([...v.calls.values()][0].result, /looked/);
  },
  async "client tool"(v) {
    await say("use locate {}\nthen\nfound");
    await until(() => [...v.calls.values()].some((c) => c.client));
    await post(`/tool-calls/${[...v.calls.keys()][0]}/result`, { output: "Bern", by: "ann" });
    await ended(v);
    assert.match(v.text(), /Bern/);
  },
  async "client tool with approval"(v) {
    await say("use locate_exactly {}\nthen\nfound");
    await until(() => v.asked().length === 1);
    const call = v.asked()[0][0];
    assert.ok(!v.calls.get(call).client);
    await decide(call);
    await until(() => v.calls.get(call).client);
    await post(`/tool-calls/${call}/result`, { output: "Bern", by: "ann" });
    await ended(v);
    assert.match(v.text(), /Bern/);
  },
  async queue(v) {
    await say("count 40 every 10ms");
    await say("and then", { onBusy: "enqueue" });
    await ended(v, 2);
    assert.match(v.text(), / 40[^]*and then/);
  },
  async steer(v) {
    await say('use note {"text":"a"}\nthen\ncount 40 every 20ms\nuse note {"text":"b"}\nthen\nend');
    await until(() => / 10 /.test(v.text()));
    await say("change of plan", { onBusy: "steer" });
    await ended(v);
    assert.match(v.text(), /change of plan/);
    assert.deepEqual(v.turns, ["completed"]);
  },
  async "message while waiting"(v) {
    await say('use ask {"text":"a"}\nthen\ndone');
    await until(() => v.asked().length === 1);
    await say("something else");
    await ended(v);
    assert.match(v.text(), /something else/);
    await decide(v.asked()[0][0]);
    await ended(v, 2);
  },
  async stop(v) {
    await say("count 10000 every 20ms");
    await until(() => / 5 /.test(v.text()));
    await post("/interrupt");
    await ended(v);
    assert.deepEqual(v.turns, ["interrupted"]);
  },
  async error(v) {
    const { eventId } = await say("fail once");
    await ended(v);
    assert.match(v.error, /400/);
    await post(`/queue/${eventId}/retry`, { by: "ann" });
    await ended(v, 2);
    assert.deepEqual(v.turns, ["failed", "completed"]);
  },
  async resume(v) {
    await say('use note {"text":"a"}\nthen\ncount 60 every 20ms\nuse ask {"text":"b"}\nthen\ncount 30 every 20ms');
    const open = async (done) => {
      for (; !done(); await sleep(50)) view();
    };
    await open(() => v.asked().length === 1);
    await decide(v.asked()[0][0]);
    await open(() => v.turns.length === 1);
    assert.ok(views.length > 10, `${views.length} reloads`);
    assert.match(v.text(), / 30/);
  },
  async cuts() {
    const wire = scissors();
    const cut = view({ fetch: wire.fetch });
    await say('use note {"text":"a"}\nthen\nthink so\ncount 1500 every 2ms\nuse note {"text":"b"}\nthen\nend');
    await ended(cut);
    assert.ok(wire.cuts > 10, `${wire.cuts} cuts`);
  },
};

/** Like the others, while the test kills the server and starts it again. */
async function killed() {
  const trying = async (request) => {
    for (const end = Date.now() + patience; ; await sleep(50)) {
      try {
        return await request();
      } catch (error) {
        assert.ok(Date.now() < end, error.message);
        console.log("resuming");
      }
    }
  };
  await trying(() => fetch(`${base}/v1/threads`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id }) }));
  await trying(() => say('use shell_cmd {"command":"echo a"}\nthen\ncount 300 every 10ms', { id: "once" }));
  const v = new View();
  v.source.onerror = () => console.log("resuming");
  const done = () => v.turns.length === 1;
  for (const end = Date.now() + patience; !done(); await sleep(50)) {
    assert.ok(Date.now() < end, JSON.stringify([...v.calls]));
    for (const [call] of v.asked()) await trying(() => decide(call));
  }
  assert.match(v.text(), / 299 300$/);
}

if (scenario === "killed") {
  await killed();
} else {
  await fetch(`${base}/v1/threads`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id, agents: ["assistant"] }) });
  const first = view();
  await scenarios[scenario](first);

  // Each view, and one that begins now, shows the same.
  const last = view();
  const shown = (v) => JSON.stringify([[...v.messages], [...v.calls], v.turns]);
  await until(() => views.every((v) => shown(v) === shown(first))).catch((e) => assert.deepEqual(views.map(shown), views.map(() => shown(first)), e.message));
  assert.ok(last.turns.length > 0);
}
