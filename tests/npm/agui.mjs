// Talks to a thread with a client of AG-UI. It fails unless a page would show the right thing.
//
//   node run.mjs agui.mjs <@ag-ui/client | agui-old> <base URL> <scenario>

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createKeys } from "./keys.mjs";
import { patience, until } from "./until.mjs";

const [client, base, scenario] = process.argv.slice(2);
const { HttpAgent } = await import(client);
const old = client === "agui-old"; // it knows no cancelled runs, and no lists of calls that wait for the client

const got = []; // by all clients
const warnings = [];
console.warn = (...args) => warnings.push(args.join(" ")); // of what a client drops, or cannot apply

function agent(threadId, { messages = [], ...options } = {}) {
  const one = new Connecting({ url: `${base}/v1/ag-ui`, threadId, initialMessages: messages, ...options });
  one.events = [];
  one.subscribe({ onEvent: ({ event }) => void (one.events.push(event), got.push(event)) });
  return one;
}

let ids = 0;
const say = (one, content, options = {}) => {
  one.addMessage({ id: `${one.threadId}-${++ids}`, role: "user", content });
  return one.runAgent(options);
};

/** What a person sees. */
const view = (messages) => messages.filter((m) => m.role !== "reasoning" && m.role !== "activity").map((m) => [m.role, m.content || "", (m.toolCalls ?? []).map((c) => `${c.function.name} ${c.function.arguments}`).join(), m.toolCallId ?? ""].join("|"));

class Connecting extends HttpAgent {
  connect(input) {
    return new HttpAgent({ url: `${this.url}/connect`, headers: this.headers, fetch: this.fetch }).run(input);
  }

  connectAgent(...options) {
    this.pendingInterrupts = []; // the thread tells what it waits for
    return super.connectAgent(...options);
  }
}

/** The messages as a client has them that connects now. */
async function connected(threadId) {
  const one = agent(threadId);
  await one.connectAgent();
  return one;
}

/** The events that make no messages, but for those that say what is going on at the moment. */
const customs = (one) => one.events.filter((e) => e.type === "CUSTOM" && e.name !== "threadmill.tool-progress").map((e) => JSON.stringify([e.name, e.value])).sort();

/** Fails unless a client has what one has that connects last. */
async function same(one) {
  const whole = await connected(one.threadId);
  assert.deepEqual(view(one.messages), view(whole.messages));
  assert.deepEqual(customs(one), customs(whole));
  assert.deepEqual(one.pendingInterrupts, whole.pendingInterrupts);
}

const post = async (path, body) => {
  const response = await fetch(base + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.text());
};
const decide = (threadId, call, decision) => post(`/v1/threads/${threadId}/approvals/${call}`, { by: "bob", ...decision });

/** Answers interrupts. */
const answers = (interrupts, payload) => ({ forwardedProps: { sender: "ann" }, resume: interrupts.map((i) => ({ interruptId: i.id, status: payload ? "resolved" : "cancelled", payload })) });
const approve = (interrupts) => answers(interrupts, { approved: true });

/** The messages as a client has them that loads the older ones page by page. */
async function paged(threadId) {
  const one = agent(threadId);
  await one.connectAgent({ forwardedProps: { limit: 1 } });
  for (let previous = one.state.previous; previous; ) {
    const page = await (await fetch(`${base}/v1/ag-ui/${threadId}/messages?limit=1&cursor=${previous}`)).json();
    one.setMessages([...page.messages, ...one.messages]);
    previous = page.previous;
  }
  return one;
}

/** The calls that wait for the client. The old client has no list of them: they have no result. */
const pending = (one) => {
  const ids = one.messages.flatMap((m) => m.toolCalls ?? []).map((c) => c.id).filter((id) => !one.messages.some((m) => m.toolCallId === id));
  const { outcome } = last(one);
  if (old) assert.deepEqual(outcome, { type: "success" });
  else assert.deepEqual(outcome.pendingToolCallIds, ids);
  return ids;
};

const last = (one) => one.events.findLast((e) => e.type === "RUN_FINISHED");

const scenarios = {
  async reply() {
    const one = agent("reply");
    await say(one, "think about it\nhello **you**");
    assert.equal(one.messages.at(-1).content, "hello **you**");
    assert.equal(one.messages.find((m) => m.role === "reasoning")?.content, "about it");
    assert.equal(last(one).outcome.type, "success");
    await say(one, "and again");
    assert.equal(one.messages.at(-1).content, "and again");
    assert.deepEqual(view((await connected("reply")).messages), view(one.messages));
    assert.deepEqual(view((await paged("reply")).messages), view(one.messages), "in pages");
  },

  async tools() {
    const one = agent("tools");
    await say(one, 'use note {"text":"a"}\nuse nothing {}\nthen\ndone');
    const lines = view(one.messages);
    assert.match(lines[1], /^assistant\|\|note {"text":"a"},nothing {}/);
    assert.match(lines.slice(2, 4).join(), /noted: a/);
    assert.match(lines.slice(2, 4).join(), /unknown tool/);
    assert.deepEqual(view((await connected("tools")).messages), view(one.messages));
    assert.deepEqual(view((await paged("tools")).messages), view(one.messages), "in pages");
    assert.equal(one.messages.find((m) => m.toolCalls?.length > 0).name, "assistant");
  },

  async interrupt() {
    const one = agent("interrupt");
    await say(one, 'use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\ndone');
    const [first, second] = one.pendingInterrupts;
    const other = agent("interrupt");
    await say(other, "and another thing");
    assert.match(other.events.find((e) => e.type === "RUN_ERROR").message, /waits for a decision on its call of ask/);
    assert.equal(first.metadata.request.toolName, "ask");
    await assert.rejects(other.runAgent({ resume: [{ interruptId: first.id, status: "cancelled" }] }), /send it in a run of its own/, "no message is lost");
    for (const [answer, field] of [
      [{ payload: { approved: true } }, "status"],
      [{ status: "Resolved", payload: { approved: true } }, "status"],
      [{ status: "resolved" }, "payload.approved"],
      [{ status: "cancelled", payload: { approved: true } }, "payload.approved"],
      [{ status: "resolved", payload: { approved: false, APPROVED: true } }, "APPROVED"],
      [{ status: "resolved", payload: { approved: true }, sender: null }, "sender"],
    ]) {
      const { sender = "ann", ...entry } = answer;
      const refused = await fetch(`${base}/v1/ag-ui`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({
        threadId: "interrupt", runId: "forged", resume: [{ interruptId: first.id, ...entry }], forwardedProps: { sender: sender ?? undefined },
      }) });
      assert.equal(refused.status, 422, field);
      assert.ok((await refused.text()).includes(field), field);
    }
    const twice = await fetch(`${base}/v1/ag-ui`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({
      threadId: "interrupt", runId: "twice", messages: [{ id: "twice", role: "user", content: [{ type: "text", text: "seen", TEXT: "stored" }] }], forwardedProps: { onWaiting: "answer" },
    }) });
    assert.equal(twice.status, 422, await twice.text());
    await one.runAgent({ forwardedProps: { sender: "ann" }, resume: [
      { interruptId: first.id, status: "resolved", payload: { approved: true, editedArgs: { text: "edited" } } },
      { interruptId: second.id, status: "cancelled", payload: { reason: "not b" } },
    ] });
    const shown = view(one.messages).join("\n");
    assert.match(shown, /asked: edited/);
    assert.match(shown, /denied/);
    assert.equal(one.pendingInterrupts.length, 0);
    assert.equal(one.events.filter((e) => e.type === "TOOL_CALL_START").length, 2, "nothing is sent twice");
    assert.equal(last(one).outcome.type, "success");
    assert.deepEqual(view((await connected("interrupt")).messages), view(one.messages));
    assert.deepEqual(view((await paged("interrupt")).messages), view(one.messages), "in pages");
  },

  async "interrupt elsewhere"() {
    const one = agent("elsewhere");
    await say(one, 'use ask {"text":"a"}\nthen\ndone');
    const [pending] = one.pendingInterrupts;
    const decided = await fetch(`${base}/v1/threads/elsewhere/approvals/${pending.toolCallId}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ decision: "approve", by: "bob" }) });
    assert.equal(decided.status, 200);
    await until(async () => view((await connected("elsewhere")).messages).some((l) => l.includes("done")));
    await one.runAgent({ resume: [{ interruptId: pending.id, status: "resolved", payload: { approved: false } }] });
    assert.match(view(one.messages).join("\n"), /asked: a/);
    assert.match(one.messages.at(-1).content, /done/);
  },

  async "client tool"() {
    const one = agent("client");
    await say(one, "use locate {}\nthen\nfound");
    const [callId] = pending(one);
    one.addMessage({ id: "where", role: "tool", toolCallId: callId, content: '{"city":"Bern"}' });
    await one.runAgent();
    assert.match(one.messages.at(-1).content, /found/);
    assert.match(one.messages.at(-1).content, /Bern/);
  },

  async input() {
    const one = agent("input");
    await say(one, "use book {}\nthen\ndone");
    const [when] = last(one).outcome.interrupts;
    assert.deepEqual([when.reason, when.message], ["input_required", "When do you come?"]);
    assert.deepEqual(when.responseSchema.properties.content.required, ["day"]);
    assert.ok(!JSON.stringify(one.messages).includes("request_input"), "the interrupt is the question");
    const busy = new Connecting({ url: `${base}/v1/ag-ui`, threadId: "input" });
    let refusal = "";
    busy.subscribe({ onEvent: ({ event }) => void (refusal += event.type === "RUN_ERROR" ? event.message : "") });
    busy.addMessage({ id: "new", role: "user", content: "hello?" });
    await busy.runAgent().catch(() => {});
    assert.match(refusal, /waits for input/);
    const answer = (i, payload) => one.runAgent({ forwardedProps: { sender: "ann" }, resume: [{ interruptId: i.id, status: payload ? "resolved" : "cancelled", payload }] });
    await answer(when, { action: "accept", content: { day: "monday" } });
    const [pay] = last(one).outcome.interrupts;
    assert.match(pay.message, /Please pay. https:\/\/pay.example\/42/);
    assert.deepEqual(last(await connected("input")).outcome.interrupts.map((i) => i.id), [pay.id]);
    await answer(pay, { action: "accept" });
    assert.equal(last(one).outcome.type, "success");
    assert.match(view(one.messages).join("\n"), /booked: secret state.*paid: accept/);
    assert.match(one.messages.at(-1).content, /done/);
    assert.deepEqual(view((await connected("input")).messages), view(one.messages));
    assert.deepEqual(view((await paged("input")).messages), view(one.messages), "in pages");

    const other = agent("cancelled-input");
    await say(other, "use book {}\nthen\ndone");
    await other.runAgent({ forwardedProps: { sender: "ann" }, resume: [{ interruptId: last(other).outcome.interrupts[0].id, status: "cancelled" }] });
    assert.match(view(other.messages).join("\n"), /not booked: cancel/);
  },

  async "sub-agent input"() {
    const text = 'use call_agent {"agent":"second","message":"use book {}\\nthen\\nlooked"}\nthen\ndone';
    const one = agent("sub");
    await say(one, text);
    const [when] = last(one).outcome.interrupts;
    assert.deepEqual([when.reason, when.message, when.metadata.input.agent, when.toolCallId], ["input_required", "When do you come?", "second", undefined]);
    assert.deepEqual(when.responseSchema.properties.content.required, ["day"]);
    const tab = await connected("sub");
    assert.deepEqual(tab.pendingInterrupts, one.pendingInterrupts);
    const wrong = await fetch(`${base}/v1/ag-ui`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({
      threadId: "sub", runId: "wrong", messages: [], tools: [], context: [], state: {}, forwardedProps: { sender: "ann" },
      resume: [{ interruptId: when.id, status: "resolved", payload: { action: "accept", content: { day: "sunday" } } }],
    }) });
    assert.equal(wrong.status, 422);
    assert.match(await wrong.text(), /day: must be one of/);
    const answer = (who, i, payload) => who.runAgent({ forwardedProps: { sender: "ann" }, resume: [{ interruptId: i.id, status: payload ? "resolved" : "cancelled", payload }] });
    await answer(one, when, { action: "accept", content: { day: "monday" } });
    const [pay] = last(one).outcome.interrupts;
    assert.match(pay.message, /Please pay. https:\/\/pay.example\/42/);
    await answer(tab, when, { action: "decline" }).catch(() => {}); // late
    const other = await connected("sub");
    assert.deepEqual(other.pendingInterrupts.map((i) => i.id), [pay.id]);
    await answer(other, pay, { action: "accept" });
    assert.equal(last(other).outcome.type, "success");
    assert.match(view(other.messages).join("\n"), /booked: secret state.*paid: accept[^]*looked[^]*assistant\|[^]*done/);
    await answer(one, pay); // late
    assert.equal(one.pendingInterrupts.length, 0, "answered elsewhere");
    for (const each of [one, other]) assert.deepEqual(view(each.messages), view((await connected("sub")).messages));
    assert.deepEqual(view((await paged("sub")).messages), view(one.messages), "in pages");

    const declined = agent("declined");
    await say(declined, text);
    await answer(declined, last(declined).outcome.interrupts[0]);
    assert.match(view(declined.messages).join("\n"), /not booked: cancel/);
  },

  async agents() {
    const one = agent("agents");
    await say(one, "hello", { forwardedProps: { agents: ["assistant", "second"] } });
    assert.deepEqual(one.messages.filter((m) => m.role === "assistant").map((m) => m.name).sort(), ["assistant", "second"]);
  },

  async "sub-agent"() {
    const one = agent("parent");
    await say(one, 'use call_agent {"agent":"second","message":"look into it"}\nuse call_agent {"agent":"nobody","message":"look"}\nuse ask {"text":"a"}\nthen\ndone');
    await one.runAgent({ forwardedProps: { sender: "ann" }, resume: one.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: { approved: true } })) });
    assert.match(view(one.messages).join("\n"), /look into it/);
    const subs = one.events.filter((e) => e.type.startsWith("SUBAGENT"));
    if (old) {
      assert.deepEqual(subs, [], "clients of other old versions fail on them");
    } else {
      assert.deepEqual([...new Set(subs.filter((e) => e.type === "SUBAGENT_STARTED").map((e) => e.name))], ["second", "nobody"]);
      assert.ok(subs.some((e) => e.type === "SUBAGENT_FINISHED" && e.outcome.type === "success"));
      assert.ok(subs.some((e) => e.type === "SUBAGENT_ERROR" && /nobody/.test(e.message)));
      assert.ok(one.messages.find((m) => m.toolCalls?.some((c) => c.id === subs[0].parentToolCallId)));
    }
    const other = await connected("parent");
    assert.deepEqual(view(other.messages), view(one.messages));
    assert.equal(other.state.thread.id, "parent");
  },

  async error() {
    const one = agent("error");
    await say(one, "fail").catch(() => {});
    assert.match(one.events.find((e) => e.type === "RUN_ERROR").message, /400/);
    const bad = await fetch(`${base}/v1/ag-ui`, { method: "POST", headers: { "content-type": "application/json" }, body: '{"threadId":"a/b"}' });
    assert.equal(bad.status, 422);
    assert.doesNotMatch(await bad.text(), /[{}]/);
    const empty = await fetch(`${base}/v1/ag-ui`, { method: "POST", headers: { "content-type": "application/json" }, body: '{"threadId":"error","messages":[]}' });
    assert.equal(empty.status, 422);
  },

  async cancelled() {
    const one = agent("cancelled");
    const run = say(one, "count 10000 every 20ms");
    await until(() => / 5 /.test(one.messages.at(-1)?.content ?? ""));
    assert.equal((await fetch(`${base}/v1/chat/cancelled/stop`, { method: "POST" })).status, 202);
    await run;
    assert.equal(last(one).outcome.type, old ? "success" : "cancelled");
    assert.match(one.messages.at(-1).content, /^1 2 3 4 5/);
  },

  async cuts() {
    let cuts = 0;
    const wire = async (url, init) => {
      const response = await fetch(url, init);
      if (cuts >= 100) return response;
      let left = Math.floor(Math.random() * 20_000);
      return new Response(response.body.pipeThrough(new TransformStream({
        transform(piece, controller) {
          controller.enqueue(piece.slice(0, Math.max(0, left)));
          left -= piece.length;
          if (left < 0) {
            cuts++;
            controller.terminate();
          }
        },
      })), response);
    };
    const one = agent("cuts", { fetch: wire });
    await say(one, 'use note {"text":"a"}\nthen\nthink so\ncount 1500 every 4ms\nuse note {"text":"b"}\nthen\nend').catch(() => {});
    await until(async () => last(one) !== undefined || void (await one.connectAgent().catch(() => {})));
    const whole = await connected("cuts");
    assert.ok(cuts > 20, `${cuts} cuts`);
    assert.match(JSON.stringify(one.messages), /1498 1499 1500/);
    assert.deepEqual(view(one.messages), view(whole.messages));
    assert.deepEqual(view((await paged("cuts")).messages), view(whole.messages), "in pages");
  },

  async sources() {
    const given = (one) => one.events.filter((e) => e.type === "CUSTOM" && e.name === "threadmill.retrieval").map((e) => e.value);
    const check = (one) => {
      assert.equal(given(one).length, 1, JSON.stringify(given(one).map((g) => g.messageId)));
      const [found] = given(one);
      assert.deepEqual(found.passages.map((p) => `${p.source}: ${p.path.join(" > ")}`).sort(), ["travel.md: Handbook > Travel", "vacation.md: Handbook > Vacation"]);
      assert.match(found.facts[0].text, /works at Acme/);
      assert.ok(one.messages.some((m) => m.id === found.messageId && m.role === "assistant"), "it names the reply");
      return found;
    };
    const one = agent("sources");
    await say(one, "Sarah has vacation");
    const live = check(one);
    assert.deepEqual(check(await connected("sources")), live, "after a reload");

    const asks = agent("sources-asks");
    await say(asks, 'Sarah has vacation\nuse ask {"text":"a"}\nthen\ncount 60 every 20ms');
    const before = check(asks);
    const run = asks.runAgent({ forwardedProps: { sender: "ann" }, resume: asks.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: { approved: true } })) });
    await until(() => / 10 /.test(asks.messages.at(-1)?.content ?? ""));
    const resumed = await connected("sources-asks");
    assert.match(resumed.messages.at(-1).content, / 60$/);
    assert.deepEqual(check(resumed), before, "on a resumed stream");
    await run;
    assert.deepEqual(check(asks), before, "once");
    assert.deepEqual(check(await connected("sources-asks")), before, "in the end");
  },

  async resume() {
    const one = agent("resume");
    const run = say(one, "use note {\"text\":\"a\"}\nthen\ncount 100 every 20ms");
    await until(() => / 10 /.test(one.messages.at(-1)?.content ?? ""));
    one.abortRun();
    await run;
    const tabs = await Promise.all([connected("resume"), connected("resume")]);
    for (const tab of tabs) assert.match(tab.messages.at(-1).content, /98 99 100$/);
    assert.deepEqual(view(tabs[0].messages), view((await connected("resume")).messages));
  },

  async "decided since"() {
    const open = agent("since");
    await say(open, 'use ask {"text":"a"}\nuse ask {"text":"b"}\nuse ask {"text":"c"}\nthen\ncount 60 every 20ms');
    const asked = open.pendingInterrupts;
    const [a, b, c] = asked.map((i) => i.toolCallId);
    await decide("since", a, { decision: "approve", scope: "session" });
    await decide("since", b, { decision: "deny", reason: "not b" });
    const loaded = await connected("since");
    const cut = agent("since", { messages: open.messages.slice(0, 1) });
    await cut.runAgent();
    const late = agent("since", { messages: open.messages });
    await late.runAgent(answers(asked.slice(0, 2), { approved: false })); // what it says about those changes nothing
    for (const one of [loaded, cut, late]) {
      assert.deepEqual(one.pendingInterrupts.map((i) => i.toolCallId), [c], "what was decided is not asked again");
      await until(async () => view((await connected("since")).messages).some((l) => l.includes("asked: a")));
    }
    await decide("since", c, { decision: "approve", toolArgs: { text: "c" }, args: { text: "edited" } });
    const runs = [open.runAgent(answers(asked, { approved: false })), loaded.runAgent(approve(loaded.pendingInterrupts)), late.runAgent(approve(late.pendingInterrupts)), cut.connectAgent()];
    await until(() => / 10 /.test(open.messages.at(-1).content));
    const middle = await connected("since");
    await Promise.all(runs);
    for (const one of [open, loaded, late, cut, middle]) {
      assert.match(view(one.messages).join("\n"), /asked: a[^]*asked: edited|asked: edited[^]*asked: a/);
      assert.match(view(one.messages).join("\n"), /tool\|denied/);
      assert.match(one.messages.at(-1).content, / 60$/);
      assert.equal(one.pendingInterrupts.length, 0);
      const whole = await connected("since");
      assert.deepEqual(view(one.messages), view(whole.messages));
      assert.deepEqual([...new Set(customs(one))], customs(whole));
    }
    await same(open);
    await same(middle);
    assert.equal((await (await fetch(`${base}/v1/threads/since/grants`)).json()).grants.length, 1);
  },

  async "sub-agent asks"() {
    const one = agent("sub-input");
    await say(one, 'use call_agent {"agent":"second","message":"use ask {\\"text\\":\\"a\\"}\\nuse ask {\\"text\\":\\"b\\"}\\nthen\\nlooked"}\nthen\ndone');
    await until(async () => (one.pendingInterrupts.length < 2 && (await one.connectAgent()), one.pendingInterrupts.length === 2)); // the second request comes a moment later
    const [first, second] = one.pendingInterrupts;
    assert.deepEqual([first.message, first.metadata.request.agent, first.metadata.request.arguments], ["second wants to call ask", "second", '{"text":"a"}']);
    assert.equal(one.messages.find((m) => m.toolCalls?.some((c) => c.id === first.toolCallId)).name, "second");
    const tab = await connected("sub-input");
    assert.deepEqual(tab.pendingInterrupts, one.pendingInterrupts);
    const { resume: [yes] } = approve([first]);
    await one.runAgent({ ...answers([first, second]), resume: [yes, { interruptId: second.id, status: "cancelled" }] });
    const lines = view(one.messages).join("\n");
    assert.match(lines, /tool\|[^]*looked[^]*assistant\|[^]*done/);
    assert.match(lines, /tool\|approved/);
    assert.match(lines, /tool\|denied/);
    if (!old) assert.deepEqual(one.events.filter((e) => e.type === "SUBAGENT_FINISHED").map((e) => e.outcome.type).filter((t, i, all) => t !== all[i - 1]), ["suspended", "success"]);
    await tab.runAgent(approve(tab.pendingInterrupts)); // late
    for (const each of [one, tab]) assert.deepEqual(view(each.messages), view((await connected("sub-input")).messages));
  },

  async expired() {
    const hurry = async (threadId) => {
      const one = agent(threadId);
      await say(one, "use hurry {}\nthen\ndone");
      const [interrupt] = one.pendingInterrupts;
      const { expiresAt } = interrupt.metadata.request;
      assert.ok(expiresAt);
      assert.equal("expiresAt" in interrupt, !old, "the old client would do nothing any more");
      await until(async () => new Date() >= new Date(expiresAt) && view((await connected(threadId)).messages).some((l) => l.startsWith("tool|denied")));
      return one;
    };
    const goesOn = await hurry("expired");
    await say(goesOn, "and then?", answers(goesOn.pendingInterrupts)); // in one run
    assert.equal(last(goesOn).outcome.type, "success");
    assert.match(view(goesOn.messages).join("\n"), /tool\|denied[^]*done[^]*user\|and then[^]*assistant\|and then/);
    await same(goesOn);
    await say(goesOn, "and now?");
    await same(goesOn);

    const waits = await hurry("expired-alone");
    await waits.runAgent(answers(waits.pendingInterrupts));
    assert.match(view(waits.messages).join("\n"), /tool\|denied[^]*done/);
    await say(waits, "and then?");
    await same(waits);

    const approves = await hurry("expired-late");
    const late = approves.runAgent(approve(approves.pendingInterrupts));
    if (!old) await assert.rejects(late, /can no longer be answered/); // the client's own check
    await (old ? late : say(approves, "and then?", answers(approves.pendingInterrupts)));
    assert.match(view(approves.messages).join("\n"), /tool\|denied[^]*done/);
    await same(approves);
  },

  async "client tool with approval"() {
    const one = agent("careful");
    await say(one, "use locate_exactly {}\nthen\nfound");
    assert.equal(one.pendingInterrupts.length, 1);
    await one.runAgent(approve(one.pendingInterrupts));
    assert.equal(one.pendingInterrupts.length, 0);
    const [callId] = pending(one);
    const tab = await connected("careful");
    assert.deepEqual(pending(tab), [callId]);
    one.addMessage({ id: "where", role: "tool", toolCallId: callId, content: '{"city":"Bern"}' });
    await one.runAgent();
    assert.match(one.messages.at(-1).content, /Bern[^]*found/);
    await same(one);
    await one.runAgent(); // repeated, as after a cut
    await same(one);
    await tab.runAgent();
    assert.deepEqual(view(tab.messages), view(one.messages));
  },

  async "two agents ask"() {
    const one = agent("two");
    await say(one, 'use ask {"text":"a"}\nthen\ndone', { forwardedProps: { agents: ["assistant", "second"] } });
    assert.deepEqual(last(one).outcome.interrupts.map((i) => i.metadata.request.agent).sort(), ["assistant", "second"], "they arrive together");
    await one.runAgent(approve(one.pendingInterrupts));
    assert.equal(last(one).outcome.type, "success");
    assert.equal(one.messages.filter((m) => m.role === "assistant" && /done$/.test(m.content)).length, 2);
    await same(one);
  },

  async "missed end"() {
    const one = agent("missed");
    const run = say(one, "think so\ncount 60 every 20ms");
    await until(() => / 10 /.test(one.messages.at(-1)?.content ?? ""));
    one.abortRun();
    await run;
    const part = structuredClone(one.messages);
    const goesOn = agent("missed", { messages: part });
    await goesOn.runAgent(); // while the turn goes on
    await until(async () => / 60$/.test((await connected("missed")).messages.at(-1).content));
    const wrong = structuredClone(part);
    wrong.at(-1).content = "1 2 three";
    const copies = {
      connects: async (c) => { await c.connectAgent(); return c; },
      "runs again": async (c) => { await c.runAgent(); return c; },
      "has nothing": async (c) => { c.setMessages(part.slice(0, 1)); await c.runAgent(); return c; },
      "has it wrong": async (c) => { c.setMessages(wrong); await c.runAgent(); return c; },
      "has it wrong, and sends it last": async (c) => { c.setMessages([...wrong.slice(1), wrong[0]]); await c.runAgent(); return c; },
    };
    for (const [name, comes] of Object.entries(copies)) {
      const c = await comes(agent("missed", { messages: part }));
      assert.match(c.messages.findLast((m) => m.role === "assistant").content, /^1 2 3 .* 60$/, name);
      assert.equal(c.messages.filter((m) => m.role === "assistant").length, 1, name);
      assert.equal(c.messages.filter((m) => m.role === "user").length, 1, name);
      await same(c);
    }
    await same(goesOn);
    assert.equal((await connected("missed")).messages.filter((m) => m.role === "user").length, 1, "nothing is posted twice");
    for (const c of [agent("missed", { messages: part }), agent("missed", { messages: wrong })]) {
      await say(c, `go on ${c.messages.at(-1).content.length}`);
      assert.match(c.messages.find((m) => m.role === "assistant").content, / 60$/);
    }
    await same(await connected("missed"));
  },

  async progress() {
    const one = agent("progress");
    await say(one, "use report {}\nthen\ndone");
    assert.deepEqual(one.events.filter((e) => e.name === "threadmill.tool-progress").map((e) => e.value.progress), ["half", { done: true }]);
    await same(one);
  },

  async queue() {
    const one = agent("queue");
    const first = say(one, "count 40 every 20ms");
    await until(() => / 5 /.test(one.messages.at(-1)?.content ?? ""));
    const tab = await agent("queue");
    await say(tab, "and then", { forwardedProps: { onBusy: "enqueue" } });
    await first;
    assert.match(one.messages.at(-1).content, / 40$/);
    assert.equal(tab.messages.at(-1).content, "and then");
    assert.deepEqual((await connected("queue")).messages.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
  },

  async steer() {
    const one = agent("steer");
    const first = say(one, 'use note {"text":"a"}\nthen\ncount 60 every 20ms\nuse note {"text":"b"}\nthen\nend');
    await until(() => / 10 /.test(one.messages.at(-1)?.content ?? ""));
    const tab = agent("steer");
    await say(tab, "change of plan", { forwardedProps: { onBusy: "steer" } });
    await first;
    assert.match(tab.messages.at(-1).content, /change of plan/);
    assert.equal(last(one).outcome.type, "success");
    assert.equal((await connected("steer")).messages.filter((m) => m.role === "user").length, 2);
  },

  async "reload at every stage"() {
    const one = agent("stages");
    const tabs = [];
    const openAll = async (run) => {
      let over = false;
      run.finally(() => (over = true));
      for (; !over; await sleep(40)) {
        const tab = agent("stages");
        tab.following = tab.connectAgent().catch(() => tabs.splice(tabs.indexOf(tab), 1)); // the thread is not there yet
        tabs.push(tab);
      }
    };
    const first = say(one, 'think so\nuse note {"text":"a"}\nuse report {}\nthen\ncount 30 every 20ms\nuse ask {"text":"b"}\nuse note {"text":"c"}\nthen\ncount 30 every 20ms');
    await openAll(first);
    const second = one.runAgent(approve(one.pendingInterrupts));
    await openAll(second);
    assert.match(one.messages.at(-1).content, / 30$/);
    assert.ok(tabs.length > 10, `${tabs.length} reloads`);
    for (const tab of tabs) {
      await tab.following;
      if (tab.pendingInterrupts.length > 0) await tab.connectAgent();
      assert.deepEqual(view(tab.messages), view(one.messages));
      await same(tab);
    }
  },

  async "keys and roles"() {
    const who = await createKeys(base, { ann: ["read", "post"], bob: ["read", "post", "approve"], eve: ["read"] });
    const as = (name, options = {}) => agent("keys", { headers: name && { authorization: `Bearer ${who[name]}` }, ...options });
    for (const [name, status] of [["", /401/], ["eve", /403/]]) await assert.rejects(say(as(name), "hello"), status);
    const ann = as("ann");
    await say(ann, 'use ask {"text":"a"}\nthen\ndone');
    assert.equal(ann.pendingInterrupts.length, 1);
    const resume = [{ interruptId: ann.pendingInterrupts[0].id, status: "resolved", payload: { approved: true } }];
    await assert.rejects(ann.runAgent({ resume }), /403/);
    const bob = as("bob");
    await bob.connectAgent();
    await bob.runAgent({ resume });
    assert.match(bob.messages.at(-1).content, /asked: a/);
    const eve = as("eve");
    await eve.connectAgent();
    assert.deepEqual(view(eve.messages), view(bob.messages));
    assert.equal(eve.events.find((e) => e.name === "threadmill.decision").value.by, "bob");

    // The questions of a sub-agent need the role post, as those of the thread itself.
    const asked = as("ann", { threadId: "keys-input" });
    await say(asked, 'use call_agent {"agent":"second","message":"use book {}"}\nthen\ndone');
    const input = [{ interruptId: asked.pendingInterrupts[0].id, status: "resolved", payload: { action: "decline" } }];
    const reads = as("eve", { threadId: "keys-input" });
    await reads.connectAgent();
    await assert.rejects(reads.runAgent({ resume: input }), /403/);
    await asked.runAgent({ resume: input });
    assert.match(view(asked.messages).join("\n"), /not booked: decline/);
  },

  async killed() {
    // The test kills the server, and starts it again. The client rejects promises of its own then, too.
    process.on("unhandledRejection", () => {});
    const one = agent("killed");
    await say(one, 'use shell_cmd {"command":"echo a"}\nthen\ncount 300 every 10ms').catch(() => {});
    let answered = false;
    for (const end = Date.now() + patience; !/ 300$/.test(one.messages.at(-1)?.content ?? ""); await sleep(50)) {
      assert.ok(Date.now() < end, JSON.stringify(one.messages).slice(0, 300));
      if (one.pendingInterrupts.length > 0 && !answered) {
        answered = true;
        await one.runAgent(approve(one.pendingInterrupts)).catch(() => {
          console.log("resuming"); // the answer may be repeated
          answered = false;
        });
        continue;
      }
      console.log("resuming");
      await one.connectAgent().catch(() => {});
    }
    assert.deepEqual(view((await connected("killed")).messages), view(one.messages));
  },

  async order() {
    const one = agent("order");
    await say(one, 'use ask {"text":"a"}\nuse note {"text":"n"}\nuse ask {"text":"b"}\nuse ask {"text":"c"}\nthen\ndone');
    const tab = await connected("order");
    for (const i of [...one.pendingInterrupts].reverse()) {
      await decide("order", i.toolCallId, { decision: "approve" });
      await until(async () => view((await connected("order")).messages).some((l) => l.startsWith(`tool|asked: ${JSON.parse(i.metadata.request.arguments).text}`)));
    }
    await one.runAgent(approve(one.pendingInterrupts));
    await tab.connectAgent();
    assert.deepEqual(one.messages.filter((m) => m.role === "tool").map((m) => m.content), ["noted: n", "asked: c", "asked: b", "asked: a"]);
    await same(one);
    assert.deepEqual(view(tab.messages), view(one.messages));

    // Two agents speak at once: who begins first need not end first.
    for (let i = 0; i < 5; i++) {
      const both = agent(`order-${i}`);
      await say(both, 'count 20 every 3ms\nuse note {"text":"n"}\nuse note {"text":"m"}\nthen\ncount 10 every 3ms', { forwardedProps: { agents: ["assistant", "second"] } });
      await same(both);
    }
  },

  async "events once"() {
    // A client that goes on gets no event again, one that was cut gets what it missed, and one that connects gets them all.
    const one = agent("once");
    await say(one, 'Sarah has vacation\nuse ask {"text":"a"}\nthen\nnow\nuse ask {"text":"b"}\nthen\nuse locate {}\nthen\ndone');
    await one.runAgent(approve(one.pendingInterrupts));
    const before = structuredClone(one.messages);
    await decide("once", one.pendingInterrupts[0].toolCallId, { decision: "approve" });
    await one.runAgent(approve(one.pendingInterrupts));
    assert.equal(one.events.filter((e) => e.name === "threadmill.decision").length, 2);
    await same(one);
    const cut = agent("once", { messages: before });
    await cut.runAgent();
    assert.deepEqual(cut.events.filter((e) => e.name === "threadmill.decision").map((e) => e.value.by), ["bob"], "it had the first");
    const [callId] = pending(one);
    one.addMessage({ id: "where", role: "tool", toolCallId: callId, content: "Bern" });
    await one.runAgent();
    assert.match(one.messages.at(-1).content, /done/);
    await same(one);
    await one.runAgent();
    await say(one, "and again");
    await same(one);
  },

  async "retried call"() {
    const one = agent("retried");
    await say(one, "count 30 every 5ms");
    assert.deepEqual(one.messages.filter((m) => m.role === "assistant").map((m) => m.content), [Array.from({ length: 30 }, (_, i) => i + 1).join(" ")], "what was said in vain is gone");
    assert.deepEqual(view(one.messages), view((await connected("retried")).messages));
  },
};

await scenarios[scenario]();
if (old) {
  const bad = got.filter((e) => e.type.startsWith("SUBAGENT") || "protocolVersion" in e || "pendingToolCallIds" in (e.outcome ?? {}) || !["success", "interrupt", undefined].includes(e.outcome?.type));
  assert.deepEqual(bad, [], "the old client knows nothing of them");
}
assert.deepEqual(warnings, []);
