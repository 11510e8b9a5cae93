// Talks to a thread with the AI SDK, as useChat does. It prints what a page would show.
//
//   node run.mjs aisdk.mjs <ai6 | ai7 | workflow> <base URL> <scenario>
//
// workflow is version 7 with the transport that resumes at each chunk.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createKeys } from "./keys.mjs";
import { patience, until } from "./until.mjs";

const [client, base, scenario] = process.argv.slice(2);
const indexed = client === "workflow";
const version = indexed ? "ai7" : client;
const { WorkflowChatTransport } = indexed || scenario === "sources" ? await import("@ai-sdk/workflow/client") : {};
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } = await import(version);

class State {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (m) => (this.messages = [...this.messages, m]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (i, m) => (this.messages = this.messages.map((old, at) => (at === i ? this.snapshot(m) : old)));
  snapshot = (v) => structuredClone(v);
}

class Chat extends AbstractChat {
  constructor({ messages = [], ...options }) {
    super({ ...options, state: new State(messages) });
  }
}

const seen = [];
// The workflow transport cannot ask for version 7 when it resumes a chat.
const sdk = client === "ai7" ? 7 : 6;

function chat(id, options = {}) {
  const { body = {}, messages, fetch: wire, transport = indexed ? workflow({ body: { version: sdk, ...body }, fetch: wire }) : undefined, ...rest } = options;
  return new Chat({
    id, messages, transport: transport ?? new DefaultChatTransport({
      api: `${base}/v1/chat`, body: { sender: "ann", version: sdk, ...body }, fetch: wire,
      prepareReconnectToStreamRequest: ({ api }) => ({ api: `${api}/${id}/stream?version=${sdk}` }),
    }),
    onData: (part) => seen.push(part), onError: (e) => seen.push({ type: "error", message: e.message }), ...rest,
  });
}

/** The transport that resumes at each chunk. */
function workflow({ body: fixed = {}, ...options } = {}) {
  const transport = new WorkflowChatTransport({
    api: `${base}/v1/chat`, maxConsecutiveErrors: 1000,
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
      headers: { "content-type": "application/json" }, body: { sender: "ann", ...fixed, ...body, id, messages, trigger, messageId, indexed: true },
    }),
    ...options,
  });
  return Object.assign(transport, { resumeStreamIsReplay: true }); // a resumed chat begins its message again
}

/** A fetch whose responses are cut at random points, the first 100 times. */
function scissors(span = undefined) {
  const it = { cuts: 0, size: 0 };
  it.fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (response.status !== 200 || it.cuts >= 100) return response;
    let left = Math.floor(Math.random() * (span ?? it.size + 2000));
    let got = 0;
    return new Response(response.body.pipeThrough(new TransformStream({
      transform(piece, controller) {
        got += piece.length;
        it.size = Math.max(it.size, got);
        controller.enqueue(piece.slice(0, Math.max(0, left)));
        left -= piece.length;
        if (left < 0) {
          it.cuts++;
          controller.error(new TypeError("the connection was cut"));
        }
      },
    })), response);
  };
  return it;
}

/** Loads the messages as a page does when it is opened. */
async function reload(id, query = "") {
  const response = await fetch(`${base}/v1/chat/${id}/messages${query}`);
  assert.equal(response.status, 200);
  return (await response.json()).messages;
}

/** What a person sees of messages. */
function view(messages) {
  return messages.map((m) => ({
    role: m.role,
    parts: m.parts.flatMap((p) => {
      if (p.type === "text") return p.text === "" ? [] : [`text ${p.text}`];
      if (p.type === "dynamic-tool" || p.type.startsWith("tool-")) return [`tool ${p.toolName ?? p.type.slice(5)} ${p.state} ${JSON.stringify(p.input)} ${JSON.stringify(p.output ?? p.errorText ?? null)}`];
      return [];
    }),
  }));
}

async function same(c) {
  await until(async () => {
    try {
      assert.deepEqual(view(await reload(c.id)), view(c.messages));
      return true;
    } catch (error) {
      globalThis.last = error;
      return false;
    }
  }).catch((error) => { throw globalThis.last ?? error; });
  let joined = [];
  for (let previous = ""; previous !== undefined;) {
    const page = await (await fetch(`${base}/v1/chat/${c.id}/messages?limit=1&cursor=${previous}`)).json();
    joined = [...page.messages, ...joined];
    previous = page.previous;
  }
  assert.deepEqual(view(joined), view(c.messages), "in pages");
}

/** Fails unless a client has all parts as one that loads the chat, but for those that are live only. */
async function exactly(c) {
  const parts = (m) => m.parts.filter((p) => p.type !== "reasoning" && p.type !== "data-reset").map(({ state, approval, ...p }) => ({
    ...p, state, ...approval && { approval: sdk === 7 ? approval : { id: approval.id } }, // version 6 has no chunk for a decision
  }));
  const clean = (v) => JSON.parse(JSON.stringify(v));
  for (const [i, m] of (await reload(c.id)).entries()) {
    assert.equal(c.messages[i].id, m.id);
    if (m.role === "assistant") assert.deepEqual(clean(parts(c.messages[i])), clean(parts(m)));
  }
}

const post = (path, body) => fetch(base + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

const scenarios = {
  async reply() {
    const c = chat("reply");
    await c.sendMessage({ text: "think about it\nhello **you**" });
    assert.equal(c.status, "ready");
    assert.equal(c.messages.length, 2);
    const [, answer] = c.messages;
    assert.deepEqual(view([answer])[0].parts, ["text hello **you**"]);
    assert.equal(answer.parts.find((p) => p.type === "reasoning")?.text, indexed ? undefined : "about it");
    assert.equal(answer.parts.find((p) => p.type === "data-agent").data.name, "assistant");
    await c.sendMessage({ text: "and again" });
    assert.equal(c.messages.length, 4, c.error?.message);
    await same(c);
  },

  async tools() {
    const c = chat("tools");
    await c.sendMessage({ text: 'use note {"text":"a"}\nuse note {"text":"b"}\nuse nothing {}\nthen\ndone' });
    assert.deepEqual(view(c.messages)[1].parts.slice(0, 2), ['tool note output-available {"text":"a"} "noted: a"', 'tool note output-available {"text":"b"} "noted: b"']);
    assert.match(view(c.messages)[1].parts[2], /tool nothing output-error \{\}/);
    await same(c);
    const typed = chat("typed", { body: { tools: ["note"] } });
    await typed.sendMessage({ text: 'use note {"text":"a"}\nthen\ndone' });
    assert.ok(typed.messages[1].parts.some((p) => p.type === "tool-note"));
  },

  async approval() {
    const c = chat("approval", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\ndone' });
    const waiting = () => c.lastMessage.parts.filter((p) => p.state === "approval-requested");
    assert.equal(waiting().length, 2);
    assert.equal(c.messages.length, 2);
    const request = c.lastMessage.parts.find((p) => p.type === "data-approval").data;
    assert.equal(request.toolName, "ask");
    const [first, second] = waiting();
    await c.addToolApprovalResponse({ id: first.approval.id, approved: true });
    await c.addToolApprovalResponse({ id: second.approval.id, approved: false, reason: "not b" });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.equal(c.messages.length, 2, "the same message goes on");
    const parts = view(c.messages)[1].parts;
    assert.match(parts[0], /tool ask output-available .*asked: a/);
    assert.match(parts[1], /tool ask output-denied/);
    assert.equal(c.lastMessage.parts.find((p) => p.type === "data-decision" && p.data.decision === "deny").data.reason, "not b");
    assert.equal(c.lastMessage.parts.filter((p) => p.type === "text").length, 1, "nothing is sent twice");
    await same(c);
  },

  async "approval elsewhere"() {
    const c = chat("elsewhere", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const id = c.lastMessage.parts.find((p) => p.state === "approval-requested").toolCallId;
    const decided = await fetch(`${base}/v1/threads/elsewhere/approvals/${id}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ decision: "approve", by: "bob" }) });
    assert.equal(decided.status, 200);
    await until(async () => view(await reload("elsewhere"))[1].parts.some((p) => p.startsWith("text")));
    // The page is opened again; a late answer changes nothing.
    const again = chat("elsewhere", { messages: await reload("elsewhere") });
    await again.resumeStream();
    assert.match(view(again.messages)[1].parts[0], /output-available/);
    await c.addToolApprovalResponse({ id, approved: false });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.match(view(c.messages)[1].parts[0], /output-available/);
  },

  async "decided since"() {
    // Three clients whose streams have ended at the request: one has it open, one was cut, and one loads the chat.
    const text = 'use ask {"text":"a"}\nuse ask {"text":"b"}\nuse ask {"text":"c"}\nthen\ncount 40 every 20ms';
    const options = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses };
    const open = chat("since", options);
    await open.sendMessage({ text });
    const cut = chat("since", { ...options, messages: structuredClone(open.messages.slice(0, 1)) });
    await cut.resumeStream();
    const [a, b, c] = open.lastMessage.parts.filter((p) => p.state === "approval-requested").map((p) => p.toolCallId);
    const decide = async (call, decision) => assert.equal((await post(`/v1/threads/since/approvals/${call}`, decision)).status, 200);
    await decide(a, { decision: "approve", by: "bob", scope: "session" });
    await decide(b, { decision: "deny", by: "bob", reason: "not b" });
    const loaded = chat("since", { ...options, messages: await reload("since") });
    await loaded.resumeStream();
    for (const one of [loaded, cut]) {
      await one.resumeStream();
      const states = () => one.lastMessage.parts.filter((p) => p.toolName === "ask").map((p) => p.state);
      assert.deepEqual(states(), ["output-available", "output-denied", "approval-requested"], "what was decided is not asked again");
      assert.equal(one.lastMessage.parts.find((p) => p.type === "data-decision" && p.id === b).data.reason, "not b");
    }
    await decide(c, { decision: "approve", by: "bob", toolArgs: { text: "c" }, args: { text: "edited" } });
    await Promise.all([open, cut, loaded].map((one) => one.resumeStream()));
    for (const one of [open, cut, loaded]) {
      assert.equal(one.status, "ready", one.error?.message);
      assert.match(view(one.messages)[1].parts[2], /output-available .*asked: edited/);
      assert.match(view(one.messages)[1].parts.at(-1), / 40$/);
      assert.equal(one.messages.length, 2);
      await same(one);
      await exactly(one);
    }
    assert.equal((await (await fetch(`${base}/v1/threads/since/grants`)).json()).grants.length, 1);
  },

  async "assumed otherwise"() {
    // The person approves what somebody else has denied, and denies what somebody else has approved.
    const c = chat("assumed", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\ndone' });
    const [a, b] = c.lastMessage.parts.filter((p) => p.state === "approval-requested").map((p) => p.toolCallId);
    await post(`/v1/threads/assumed/approvals/${a}`, { decision: "deny", by: "bob" });
    await post(`/v1/threads/assumed/approvals/${b}`, { decision: "approve", by: "bob" });
    await c.addToolApprovalResponse({ id: a, approved: true });
    await c.addToolApprovalResponse({ id: b, approved: false });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.match(view(c.messages)[1].parts[0], /output-denied/);
    assert.match(view(c.messages)[1].parts[1], /output-available/);
    await same(c);
    await exactly(c);
  },

  async expired() {
    const c = chat("expired", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: "use hurry {}\nthen\ndone" });
    const part = c.lastMessage.parts.find((p) => p.toolName === "hurry");
    await until(async () => JSON.stringify(await reload("expired")).includes("output-denied"));
    await c.addToolApprovalResponse({ id: part.approval.id, approved: true }); // too late
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.match(view(c.messages)[1].parts[0], /output-denied/);
    assert.equal(c.lastMessage.parts.find((p) => p.type === "data-decision").data.decision, "expired");
    await same(c);
    await exactly(c);
  },

  async "sub-agent asks"() {
    const c = chat("sub", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use call_agent {"agent":"second","message":"use ask {\\"text\\":\\"a\\"}\\nuse ask {\\"text\\":\\"b\\"}\\nthen\\nlooked"}\nthen\ndone' });
    assert.equal(c.status, "ready", c.error?.message);
    const asked = () => c.lastMessage.parts.filter((p) => p.state === "approval-requested");
    await until(async () => asked().length === 2 || void (await c.resumeStream())); // the second request comes a moment later
    const first = asked()[0];
    assert.deepEqual([first.toolName, first.input], ["ask", { text: "a" }]);
    const names = c.lastMessage.parts.slice(0, c.lastMessage.parts.indexOf(first)).filter((p) => p.type === "data-agent");
    assert.equal(names.at(-1).data.name, "second");
    assert.equal(c.lastMessage.parts.find((p) => p.type === "data-approval").data.agent, "second");
    const tab = chat("sub", { messages: await reload("sub") });
    await tab.resumeStream();
    assert.deepEqual(view(tab.messages), view(c.messages));
    for (const [i, part] of asked().entries()) await c.addToolApprovalResponse({ id: part.approval.id, approved: i === 0 });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text"))).catch((e) => { throw new Error(c.status + JSON.stringify([c.messages, seen.slice(-3)]) ); });
    const parts = view(c.messages)[1].parts;
    assert.match(parts[0], /tool call_agent output-available .*looked/);
    assert.match(parts[1], /tool ask output-available .*Approved by ann/);
    assert.match(parts[2], /tool ask output-denied/);
    await same(c);
    await exactly(c);
  },

  async "client tool with approval"() {
    let ran = 0;
    const c = chat("careful", {
      body: { tools: ["locate_exactly"] }, sendAutomaticallyWhen: (o) => lastAssistantMessageIsCompleteWithApprovalResponses(o) || lastAssistantMessageIsCompleteWithToolCalls(o),
      onToolCall({ toolCall }) {
        if (toolCall.toolName !== "locate_exactly") return;
        ran++;
        c.addToolOutput({ tool: "locate_exactly", toolCallId: toolCall.toolCallId, output: { city: `Bern ${ran}` } });
      },
    });
    await c.sendMessage({ text: "use locate_exactly {}\nthen\nfound" });
    const part = () => c.lastMessage.parts.find((p) => p.type === "tool-locate_exactly");
    await until(() => c.status === "ready" && part()?.state === "approval-requested");
    c.addToolApprovalResponse({ id: part().approval.id, approved: true });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.equal(c.messages.length, 2);
    assert.equal(part().state, "output-available");
    const parts = view(await reload("careful", "?tools=locate_exactly"));
    assert.deepEqual(parts, view(c.messages));
    assert.match(JSON.stringify(parts), /found.*Bern/);
    assert.ok((await reload("careful", "?tools=locate_exactly"))[1].parts.some((p) => p.type === "tool-locate_exactly"), "the type is the same after a reload");
  },

  async "two agents ask"() {
    const c = chat("two", { body: { agents: ["assistant", "second"] }, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const asked = c.lastMessage.parts.filter((p) => p.state === "approval-requested");
    assert.equal(asked.length, 2, "they arrive together");
    for (const part of asked) await c.addToolApprovalResponse({ id: part.approval.id, approved: true });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.filter((p) => p.startsWith("text")).length === 2);
    assert.equal(c.messages.length, 2);
  },

  async "missed end"() {
    const c = chat("missed");
    const sent = c.sendMessage({ text: "count 60 every 20ms" });
    await until(() => / 10 /.test(JSON.stringify(view(c.messages)[1] ?? {})));
    await c.stop(); // cuts the connection only
    await sent;
    await until(async () => (await reload("missed"))[1]?.metadata.turn === "completed");
    const again = chat("missed", { messages: structuredClone(c.messages) });
    await c.resumeStream();
    assert.match(view(c.messages)[1].parts.at(-1), / 60$/);
    await same(c);
    await exactly(c);
    await again.regenerate(); // what a button does that says "try again"
    assert.match(view(again.messages)[1].parts.at(-1), / 60$/);
    assert.equal((await reload("missed")).length, 2, "nothing is posted twice");
    await same(again);
  },

  async "nothing new"() {
    const c = chat("nothing", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const send = (messages) => post("/v1/chat", { id: "nothing", sender: "ann", messages, trigger: "submit-message" });
    for (const metadata of [undefined, null, "mine", 7, ["a"], { place: 9 }, { place: "", mine: { deep: true } }, { place: "999999999" }, { place: "1:999999999" }]) {
      const messages = structuredClone(c.messages);
      messages[1].metadata = metadata;
      const response = await send(messages);
      assert.equal(response.status, 200, JSON.stringify(metadata));
      assert.match(await response.text(), /"finishReason":"tool-calls"[^]*\[DONE\]/);
      const said = structuredClone(messages[0]);
      said.metadata = metadata;
      assert.equal((await send([said])).status, 200, JSON.stringify(metadata));
    }
    await post(`/v1/threads/nothing/approvals/${c.lastMessage.parts.find((p) => p.state === "approval-requested").toolCallId}`, { decision: "deny", by: "bob" });
    await c.resumeStream();
    assert.match(JSON.stringify(view(c.messages)), /output-denied/);
    assert.match(await (await send(c.messages)).text(), /"finishReason":"stop"[^]*\[DONE\]/);
    assert.equal(c.status, "ready", "the client is not made to send again");
  },

  async progress() {
    const c = chat("progress");
    await c.sendMessage({ text: "use report {}\nthen\ndone" });
    assert.deepEqual(seen.filter((p) => p.type === "data-tool-progress").map((p) => [p.data.toolName, p.data.progress]), [["report", "half"], ["report", { done: true }]]);
    assert.ok(!c.lastMessage.parts.some((p) => p.type === "data-tool-progress"), "it is shown while it lasts");
    await same(c);
    await exactly(c);
  },

  async queue() {
    const c = chat("queue");
    const first = c.sendMessage({ text: "count 40 every 20ms" });
    await until(() => / 5 /.test(JSON.stringify(view(c.messages)[1] ?? {})));
    const tab = chat("queue", { messages: await reload("queue"), body: { onBusy: "enqueue" } });
    await tab.sendMessage({ text: "and then" });
    await first;
    assert.equal(tab.status, "ready", tab.error?.message);
    assert.match(view([c.lastMessage])[0].parts.at(-1), / 40$/);
    assert.deepEqual(view([tab.lastMessage])[0].parts, ["text and then"]);
    const all = await reload("queue");
    assert.deepEqual(all.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
    assert.deepEqual(view([all[1], all[3]]), view([c.lastMessage, tab.lastMessage]));
  },

  async "message while waiting"() {
    const c = chat("while", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const tab = chat("while", { messages: await reload("while") });
    await tab.sendMessage({ text: "something else" });
    assert.equal(tab.status, "ready", tab.error?.message);
    assert.deepEqual(view([tab.lastMessage])[0].parts, ["text something else"]);
    assert.match(JSON.stringify(view(await reload("while"))[1]), /approval-requested/, "the call still waits");
    await c.addToolApprovalResponse({ id: c.lastMessage.parts.find((p) => p.state === "approval-requested").approval.id, approved: true });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.match(JSON.stringify(view(c.messages)[1]), /asked: a/);
    assert.deepEqual(view(await reload("while")).map((m) => m.parts.at(-1).split("\n").at(-1)).slice(1).toSorted(), view([...c.messages.slice(1), ...tab.messages.slice(-2)]).map((m) => m.parts.at(-1).split("\n").at(-1)).toSorted());
  },

  async "reload at every stage"() {
    const c = chat("stages", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    const sent = c.sendMessage({ text: 'think so\nuse note {"text":"a"}\nuse report {}\nthen\ncount 30 every 20ms\nuse ask {"text":"b"}\nuse note {"text":"c"}\nthen\ncount 30 every 20ms' });
    const tabs = [];
    const open = async () => {
      const messages = await fetch(`${base}/v1/chat/stages/messages`).then((r) => r.status === 200 ? r.json() : { messages: [] });
      if (messages.messages.length === 0) return;
      const tab = chat("stages", { messages: messages.messages });
      tabs.push(tab);
      tab.following = tab.resumeStream();
    };
    const stages = async (most) => {
      await until(async () => {
        assert.notEqual(c.status, "error", c.error?.message);
        if (tabs.length < most) await open(); // on a slow machine, each makes it slower
        await sleep(40);
        return c.status === "ready";
      });
    };
    await until(() => c.status !== "ready");
    await stages(20);
    await sent;
    const request = c.lastMessage.parts.find((p) => p.state === "approval-requested");
    await open();
    const decided = c.addToolApprovalResponse({ id: request.approval.id, approved: true });
    await until(() => c.status !== "ready");
    await stages(40);
    await decided;
    await until(() => / 30$/.test(view(c.messages)[1].parts.at(-1)));
    assert.ok(tabs.length > 10, `${tabs.length} reloads`);
    for (const tab of tabs) {
      await tab.following;
      await tab.resumeStream(); // those that ended at the request
      assert.equal(tab.status, "ready", tab.error?.message);
      await same(tab);
      await exactly(tab);
    }
    await same(c);
    await exactly(c);
  },

  async "keys and roles"() {
    const who = await createKeys(base, { ann: ["read", "post"], bob: ["read", "post", "approve"], eve: ["read"], dan: ["read", "post"] });
    const as = (name, id, options = {}) => chat(id, {
      ...options, body: { sender: undefined }, fetch: (url, init) => fetch(url, { ...init, headers: { ...init?.headers, ...name && { authorization: `Bearer ${who[name]}` } } }),
    });
    for (const [name, problem] of [["", /API key/], ["eve", /role post/]]) {
      const refused = as(name, "keys");
      await refused.sendMessage({ text: "hello" });
      assert.equal(refused.status, "error");
      assert.match(refused.error.message, problem);
    }
    const stored = async () => (await fetch(`${base}/v1/chat/keys/messages`, { headers: { authorization: `Bearer ${who.eve}` } }).then((r) => r.json())).messages;
    const ann = as("ann", "keys", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await ann.sendMessage({ text: 'use ask {"text":"a"}\nthen\ncount 1000 every 20ms' });
    assert.equal((await stored())[0].metadata.sender, "ann");
    const id = ann.lastMessage.parts.find((p) => p.state === "approval-requested").approval.id;
    await ann.addToolApprovalResponse({ id, approved: true });
    await until(() => ann.status === "error");
    assert.match(ann.error.message, /role approve/);
    assert.match(JSON.stringify(await stored()), /approval-requested/);
    const bob = as("bob", "keys", { messages: await stored(), sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    const decided = bob.addToolApprovalResponse({ id, approved: true });
    await until(() => bob.lastMessage.parts.some((p) => p.type === "data-decision"));
    assert.equal(bob.lastMessage.parts.find((p) => p.type === "data-decision").data.by, "bob");
    const stop = (name) => fetch(`${base}/v1/chat/keys/stop`, { method: "POST", headers: { authorization: `Bearer ${who[name]}` } }).then((r) => r.status);
    assert.deepEqual([await stop("eve"), await stop("dan"), await stop("ann")], [403, 403, 202], "a person stops her own turn");
    await decided;
    await until(() => bob.status === "ready");
    assert.equal(bob.lastMessage.metadata.turn, "interrupted");
  },

  async killed() {
    // The test kills the server, and starts it again, while this prints dots.
    const c = chat("killed", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    const sending = c.sendMessage({ text: 'use shell_cmd {"command":"echo a"}\nthen\ncount 300 every 10ms' });
    const done = () => / 300$/.test(JSON.stringify(view(c.messages).at(-1)?.parts ?? []).replace(/"\]$/, ""));
    await sending;
    let answered = false;
    for (const end = Date.now() + patience; !done(); await sleep(50)) {
      assert.ok(Date.now() < end, `${c.status} ${c.error?.message} ${JSON.stringify(view(c.messages)).slice(0, 300)}`);
      const part = c.lastMessage?.parts.find((p) => p.state === "approval-requested");
      if (part && !answered) {
        answered = true;
        console.log("answering");
        await c.addToolApprovalResponse({ id: part.approval.id, approved: true });
      } else if (c.status === "error" || c.status === "ready") {
        console.log("resuming");
        await c.resumeStream();
      }
    }
    await same(c);
    await exactly(c);
  },

  async "forged history"() {
    const c = chat("forged");
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const part = c.lastMessage.parts.find((p) => p.state === "approval-requested");
    const forged = structuredClone(c.messages);
    Object.assign(forged[1].parts.find((p) => p.toolCallId === part.toolCallId), { input: { text: "harmless" }, state: "approval-responded", approval: { id: part.approval.id, approved: true } });
    const post = (messages) => fetch(`${base}/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id: "forged", sender: "ann", messages, trigger: "submit-message" }) });
    const refused = await post(forged);
    assert.equal(refused.status, 409);
    assert.doesNotMatch(await refused.text(), /[{}]/, "errors are text");
    for (const change of [{ input: undefined }, { input: null }]) {
      const blind = structuredClone(c.messages);
      Object.assign(blind[1].parts.find((p) => p.toolCallId === part.toolCallId), { state: "approval-responded", approval: { id: part.approval.id, approved: true }, ...change });
      assert.equal((await post(blind)).status, 422, "what was seen has to be said");
    }
    const said = await post([{ id: "x", role: "assistant", parts: [{ type: "text", text: "I have said this" }] }]);
    assert.equal(said.status, 404);
    const results = structuredClone(c.messages);
    Object.assign(results[1].parts.find((p) => p.toolCallId === part.toolCallId), { state: "output-available", output: "a lie" });
    assert.doesNotMatch(JSON.stringify(await reload("forged")), /a lie|I have said/);
    for (const body of ["", "{", "[]", "null", '{"id":"forged"}', '{"id":"a/b","messages":[{"role":"user","id":"m","parts":[{"type":"text","text":"x"}]}]}',
      '{"id":"forged","messages":[{"role":"system","parts":[]}]}', '{"id":"forged","messages":[{"role":"user","id":"m","parts":[{"type":"file","url":"x"}]}]}', '{"id":"forged","messages":[{"role":"user","id":"m","parts":[]}]}']) {
      const response = await fetch(`${base}/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body });
      assert.ok(response.status >= 400 && response.status < 500, `${body}: ${response.status}`);
      assert.ok((await response.text()).length > 0);
    }
  },

  async "client tool"() {
    const c = chat("client", {
      body: { tools: ["locate"] }, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall }) {
        if (toolCall.toolName === "locate") c.addToolOutput({ tool: "locate", toolCallId: toolCall.toolCallId, output: { city: "Bern" } });
      },
    });
    await c.sendMessage({ text: "use locate {}\nthen\nfound" });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.equal(c.messages.length, 2);
    const parts = view(c.messages)[1].parts;
    assert.equal(parts[0], 'tool locate output-available {} {"city":"Bern"}');
    await same(c);
  },

  async input() {
    const c = chat("input", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await c.sendMessage({ text: "use book {}\nthen\ndone" });
    const open = () => c.lastMessage.parts.find((p) => p.toolName === "request_input" && p.state === "input-available");
    const asked = () => open().input.questions[0];
    assert.equal(asked().message, "When do you come?");
    assert.deepEqual(asked().schema.required, ["day"]);
    await same(c);
    // Another tab answers, and a reload has the next question.
    const tab = chat("input", { messages: await reload("input"), sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    c.addToolOutput({ tool: "request_input", toolCallId: open().toolCallId, output: { action: "accept", content: { day: "monday" } } });
    await until(() => c.status === "ready" && open() && asked().url === "https://pay.example/42");
    await tab.resumeStream();
    await same(tab);
    c.addToolOutput({ tool: "request_input", toolCallId: open().toolCallId, output: { action: "accept" } });
    await until(() => c.status === "ready" && view(c.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.equal(c.messages.length, 2, "the same message goes on");
    assert.match(JSON.stringify(c.lastMessage.parts.find((p) => p.toolName === "book").output), /booked: secret state.*paid: accept/);
    assert.match(JSON.stringify(view(c.messages)[1].parts), /text .*done/);
    await until(async () => /done/.test(JSON.stringify(view(await reload("input")))));

    const declined = chat("declined", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await declined.sendMessage({ text: "use book {}\nthen\ndone" });
    const part = declined.lastMessage.parts.find((p) => p.toolName === "request_input");
    const late = structuredClone(declined.messages);
    const wrong = structuredClone(declined.messages);
    Object.assign(wrong[1].parts.find((p) => p.toolName === "request_input"), { state: "output-available", output: { action: "accept", content: { day: "sunday" } } });
    const refused = await fetch(`${base}/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id: "declined", sender: "ann", messages: wrong, trigger: "submit-message" }) });
    assert.equal(refused.status, 422);
    assert.match(await refused.text(), /day: must be one of/);
    declined.addToolOutput({ tool: "request_input", toolCallId: part.toolCallId, state: "output-error", errorText: "no" });
    await until(() => declined.status === "ready" && JSON.stringify(declined.lastMessage.parts).includes("not booked: cancel"));
    assert.equal(late.length, 2);
  },

  async "sub-agent input"() {
    const c = chat("sub-input", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await c.sendMessage({ text: 'use call_agent {"agent":"second","message":"use book {}\\nthen\\nlooked"}\nthen\ndone' });
    assert.equal(c.status, "ready", c.error?.message);
    const open = (one = c) => one.lastMessage.parts.find((p) => p.toolName === "request_input" && p.state === "input-available");
    const asked = () => open().input.questions[0];
    assert.deepEqual([asked().message, asked().schema.required, open().input.agent], ["When do you come?", ["day"], "second"]);
    const names = c.lastMessage.parts.slice(0, c.lastMessage.parts.indexOf(open())).filter((p) => p.type === "data-agent");
    assert.equal(names.at(-1).data.name, "second");
    const reloaded = async () => chat("sub-input", { messages: await reload("sub-input"), sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    const tab = await reloaded();
    await tab.resumeStream();
    assert.deepEqual(view(tab.messages), view(c.messages));
    const wrong = structuredClone(c.messages);
    Object.assign(wrong[1].parts.find((p) => p.toolCallId === open().toolCallId), { state: "output-available", output: { action: "accept", content: { day: "sunday" } } });
    const refused = await fetch(`${base}/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id: "sub-input", sender: "ann", messages: wrong, trigger: "submit-message" }) });
    assert.equal(refused.status, 422);
    assert.match(await refused.text(), /day: must be one of/);
    c.addToolOutput({ tool: "request_input", toolCallId: open().toolCallId, output: { action: "accept", content: { day: "monday" } } });
    await until(() => c.status === "ready" && open() && asked().url === "https://pay.example/42");
    // The other tab has it too, and answers there; the sub-agent's own thread counts it once.
    await tab.resumeStream();
    await until(() => tab.status === "ready" && open(tab)?.input.round === 2);
    tab.addToolOutput({ tool: "request_input", toolCallId: open(tab).toolCallId, output: { action: "accept" } });
    await until(() => tab.status === "ready" && view(tab.messages)[1].parts.some((p) => p.startsWith("text")));
    assert.match(view(tab.messages)[1].parts[0], /tool call_agent output-available .*booked: secret state.*paid: accept.*looked/);
    assert.equal(tab.messages.length, 2, "the same message goes on");
    await same(tab);
    await exactly(tab);
    await c.resumeStream();
    assert.ok(!open(), "answered elsewhere");
    await same(c);

    // A question of which nothing comes any more is closed.
    const stopped = chat("stopped");
    await stopped.sendMessage({ text: 'use call_agent {"agent":"second","message":"use book {}\\nthen\\nlooked"}\nthen\ndone' });
    assert.ok(open(stopped));
    assert.equal((await fetch(`${base}/v1/threads/stopped/interrupt`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })).status, 202);
    await until(async () => !JSON.stringify(await reload("stopped")).includes("input-available"));
    await stopped.resumeStream();
    assert.match(JSON.stringify(stopped.lastMessage.parts), /The question was withdrawn/);
    await same(stopped);
  },

  async agents() {
    const c = chat("agents", { body: { agents: ["assistant", "second"] } });
    await c.sendMessage({ text: "hello" });
    const names = c.lastMessage.parts.filter((p) => p.type === "data-agent").map((p) => p.data.name);
    assert.deepEqual([...new Set(names)].sort(), ["assistant", "second"]);
    assert.equal(c.messages.length, 2);
    await same(c);
  },

  async error() {
    const c = chat("error");
    await c.sendMessage({ text: "fail once" });
    assert.equal(c.status, "error");
    assert.match(c.error.message, /400/);
    await c.regenerate();
    assert.equal(c.status, "ready");
    assert.deepEqual(view(c.messages)[1].parts, ["text fail once"]);
    const missing = chat("a b");
    await missing.sendMessage({ text: "x" });
    assert.equal(missing.status, "error");
    assert.doesNotMatch(missing.error.message, /[{}]/);
  },

  async regenerate() {
    const c = chat("regenerate");
    await c.sendMessage({ text: "say it" });
    const before = c.lastMessage.id;
    await c.regenerate(); // "try again": there is an answer
    assert.deepEqual([c.status, c.messages.length, c.lastMessage.id], ["ready", 2, before]);
    await c.regenerate({ body: { again: true } });
    assert.equal(c.status, "ready");
    assert.equal(c.messages.length, 2);
    assert.notEqual(c.lastMessage.id, before);
    assert.deepEqual(view(c.messages)[1].parts, ["text say it"]);
  },

  async stop() {
    const c = chat("stop");
    const sent = c.sendMessage({ text: "count 10000 every 20ms" });
    await until(() => c.lastMessage?.role === "assistant" && (indexed || /5/.test(JSON.stringify(view(c.messages)[1]))));
    const stopped = await fetch(`${base}/v1/chat/stop/stop`, { method: "POST" });
    assert.equal(stopped.status, 202);
    await sent;
    assert.equal(c.status, "ready");
    const text = view(c.messages)[1].parts[0];
    assert.ok(indexed || text.startsWith("text 1 2 3 4 5"), text);
    if (!indexed) await same(c); // nothing was stored of an answer that had not begun for it
  },

  async resume() {
    const c = chat("resume");
    const sent = c.sendMessage({ text: "think first\ncount 100 every 20ms" });
    await until(() => c.lastMessage?.role === "assistant" && / 10 /.test(JSON.stringify(view(c.messages)[1])));
    await c.stop(); // cuts the connection only
    await sent;
    // A reload, and a second tab.
    const tabs = await Promise.all([1, 2].map(async () => chat("resume", { messages: await reload("resume") })));
    await Promise.all(tabs.map((tab) => tab.resumeStream()));
    for (const tab of tabs) {
      assert.equal(tab.status, "ready");
      assert.equal(tab.messages.length, 2);
      assert.equal(view(tab.messages)[1].parts.at(-1), `text ${Array.from({ length: 100 }, (_, i) => i + 1).join(" ")}`);
      await same(tab);
    }
    await tabs[0].resumeStream(); // nothing goes on
    assert.equal(tabs[0].messages.length, 2);
    await same(tabs[0]);
  },

  async cuts() {
    const wire = scissors();
    const c = chat("cuts", { fetch: wire.fetch });
    const whole = chat("cuts");
    const text = 'use note {"text":"a"}\nthen\nthink so\ncount 1500 every 4ms\nuse note {"text":"b"}\nthen\nend';
    const sent = c.sendMessage({ text });
    await until(async () => (await fetch(`${base}/v1/chat/cuts/messages`)).status === 200 && (await reload("cuts")).length > 0);
    whole.messages = (await reload("cuts")).slice(0, 1);
    const follow = whole.resumeStream();
    await sent;
    await until(async () => c.status === "ready" || void (await c.resumeStream()));
    await follow;
    assert.ok(wire.cuts > 20, `${wire.cuts} cuts`);
    assert.deepEqual(view(c.messages), view(whole.messages));
    assert.match(JSON.stringify(view(c.messages)), /1498 1499 1500/);
    await same(c);
  },

  async workflow() {
    console.error = () => {}; // the transport reports each cut there
    const wire = scissors(600);
    const c = chat("workflow", {
      transport: workflow({ fetch: wire.fetch, maxConsecutiveErrors: 1000 }), sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    const line = (i) => `use note {"text":"${i}"}\nuse nothing {}\nthen\n`;
    const lines = Array.from({ length: 10 }, (_, i) => line(i)).join("");
    await c.sendMessage({ text: `think so\n${lines}count 50 every 10ms\nuse ask {"text":"a"}\nthen\n${lines}end` });
    assert.equal(c.status, "ready", c.error?.message);
    const request = c.lastMessage.parts.find((p) => p.state === "approval-requested");
    await c.addToolApprovalResponse({ id: request.approval.id, approved: true });
    await until(() => c.status !== "streaming" && c.status !== "submitted" && c.lastMessage.parts.some((p) => p.text?.endsWith("\nend")));
    assert.equal(c.status, "ready", c.error?.message);
    assert.equal(c.messages.length, 2);
    assert.match(JSON.stringify(view(c.messages)), / 48 49 50/);
    assert.equal(c.lastMessage.parts.filter((p) => p.type === "text" && p.text.endsWith("\nend")).length, 1);
    assert.ok(wire.cuts >= 20, `${wire.cuts} cuts`);
    await same(c);

    const idle = chat("workflow", { messages: await reload("workflow"), transport: workflow() });
    await idle.resumeStream();
    assert.deepEqual([idle.status, idle.messages.length], ["ready", 2], idle.error?.message);
    const sent = c.sendMessage({ text: "count 50 every 20ms" });
    await until(async () => (await reload("workflow")).length >= 3);
    const tabWire = scissors(300);
    const tab = chat("workflow", { messages: await reload("workflow"), transport: workflow({ fetch: tabWire.fetch, maxConsecutiveErrors: 1000 }) });
    await tab.resumeStream();
    await sent;
    assert.ok(tabWire.cuts > 0);
    await same(c);
    assert.deepEqual(view(tab.messages), view(c.messages));
    for (const id of ["~", "~e30", "~bnVsbA", `~${btoa('{"t":"workflow","m":"x","f":"-1"}')}`, `~${btoa('{"t":"../x","m":"x"}')}`, `~${btoa('{"t":"workflow","m":"x","f":{"Seq":-1}}')}`]) {
      const response = await fetch(`${base}/v1/chat/${id}/stream?startIndex=0`);
      assert.equal(response.status, 404, id);
      assert.match(await response.text(), /x-workflow-run-id/);
    }
    for (const query of ["startIndex=-2", "startIndex=x", "startIndex=99999999999999999999", "version=5"]) assert.equal((await fetch(`${base}/v1/chat/workflow/stream?${query}`)).status, 422, query);
  },

  async "retried call"() {
    const c = chat("retried");
    await c.sendMessage({ text: "count 30 every 5ms" });
    assert.equal(c.status, "ready", c.error?.message);
    const whole = `text ${Array.from({ length: 30 }, (_, i) => i + 1).join(" ")}`;
    const { parts } = c.lastMessage;
    if (sdk === 7) {
      assert.deepEqual(view(c.messages)[1].parts, [whole], "what was said before is taken back");
      assert.deepEqual(parts.filter((p) => p.type === "data-agent").map((p) => p.data.name), ["assistant"]);
    } else {
      assert.equal(view(c.messages)[1].parts.at(-1), whole);
      assert.ok(parts.findIndex((p) => p.type === "data-reset") < parts.findLastIndex((p) => p.type === "text"), "what stands before it is void");
    }
  },

  async sources() {
    /** What an agent was given, as a message has it: each source once, with its number, and all of it. */
    const given = (m) => m.parts.flatMap((p) => {
      if (p.type === "source-document") return [[p.sourceId, p.title, p.filename, p.mediaType, p.providerMetadata.threadmill]];
      if (p.type === "data-retrieval") return [[p.id, p.data]];
      return [];
    });
    const order = (m) => m.parts.map((p) => p.type).filter((type) => type !== "reasoning");
    const check = async (c, many = 1) => {
      const sources = c.lastMessage.parts.filter((p) => p.type === "source-document");
      assert.deepEqual(sources.map((s) => s.providerMetadata.threadmill.number), [1, 2], JSON.stringify(c.lastMessage.parts));
      assert.equal(new Set(sources.map((s) => s.sourceId)).size, 2);
      for (const s of sources) assert.deepEqual([s.title, s.mediaType], ["Handbook", "text/plain"]);
      assert.deepEqual(sources.map((s) => `${s.filename}: ${s.providerMetadata.threadmill.section}`).sort(), ["travel.md: Handbook > Travel", "vacation.md: Handbook > Vacation"]);
      const all = c.lastMessage.parts.filter((p) => p.type === "data-retrieval");
      assert.equal(all.length, many, JSON.stringify(c.lastMessage.parts));
      for (const one of all) {
        assert.deepEqual(one.data.passages.map((p) => p.id), sources.map((s) => s.sourceId));
        assert.match(one.data.passages.map((p) => p.text).join(), /thirty days/);
        assert.match(one.data.facts[0].text, /works at Acme/);
        assert.equal(one.data.facts[0].name, "Sarah");
      }
      const again = (await reload(c.id)).findLast((m) => m.role === "assistant");
      assert.deepEqual(given(again), given(c.lastMessage), "as loaded");
      // Parts of two agents may be mixed, and what is being written is not loaded yet.
      if (many === 1) assert.deepEqual(order(again), order(c.lastMessage).slice(0, order(again).length), "in the same order");
    };
    const live = chat("sources");
    await live.sendMessage({ text: "Sarah has vacation" });
    await check(live);
    assert.deepEqual(order(live.lastMessage), ["step-start", "data-agent", "text", "data-retrieval", "source-document", "source-document"]);

    // A reload while a tool waits, a decision, and what follows it.
    const waiting = chat("sources-waiting", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await waiting.sendMessage({ text: 'Sarah has vacation\nuse ask {"text":"a"}\nthen\ncount 60 every 20ms' });
    await check(waiting);
    const second = chat("sources-waiting", { messages: await reload("sources-waiting"), sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    const decided = second.addToolApprovalResponse({ id: second.lastMessage.parts.find((p) => p.state === "approval-requested").approval.id, approved: true });
    await until(() => / 10 /.test(JSON.stringify(view(second.messages)[1])));
    await check(second);
    const resumed = chat("sources-waiting", { messages: await reload("sources-waiting") });
    await resumed.resumeStream();
    assert.match(JSON.stringify(view(resumed.messages)), / 60/);
    await check(resumed);
    await decided;
    await until(() => second.status === "ready");
    await check(second);
    await same(second);

    // A cut before the reply is stored.
    const cut = chat("sources-cut");
    const sending = cut.sendMessage({ text: "Sarah has vacation\ncount 60 every 20ms" });
    await until(() => / 10 /.test(JSON.stringify(view(cut.messages)[1] ?? {})));
    await cut.stop(); // cuts the connection only
    await sending;
    const back = chat("sources-cut", { messages: await reload("sources-cut") });
    await back.resumeStream();
    assert.match(JSON.stringify(view(back.messages)), / 60/);
    await check(back);
    await same(back);

    const indexed = chat("sources-indexed", { transport: workflow() });
    await indexed.sendMessage({ text: "Sarah has vacation" });
    await check(indexed);

    // Two agents that were given the same.
    const both = chat("sources-both", { body: { agents: ["assistant", "second"] } });
    await both.sendMessage({ text: "Sarah has vacation" });
    await check(both, 2);

    // Facts without passages.
    const facts = chat("sources-facts");
    await facts.sendMessage({ text: "Sarah" });
    assert.deepEqual(facts.lastMessage.parts.find((p) => p.type === "data-retrieval").data.facts.map((f) => f.name), ["Sarah"]);
  },

  async steer() {
    const c = chat("steer");
    const sent = c.sendMessage({ text: "use note {\"text\":\"a\"}\nthen\ncount 60 every 20ms\nuse note {\"text\":\"b\"}\nthen\nend" });
    await until(() => / 10 /.test(JSON.stringify(view(c.messages)[1] ?? {})));
    const other = chat("steer", { messages: await reload("steer"), body: { onBusy: "steer" } });
    await other.sendMessage({ text: "change of plan" });
    await sent;
    assert.equal(other.status, "ready");
    assert.match(JSON.stringify(view([other.lastMessage])), /change of plan/);
    await until(async () => (await reload("steer")).length === 4);
    assert.deepEqual((await reload("steer")).map((m) => m.role), ["user", "assistant", "user", "assistant"]);
  },
};

await scenarios[scenario]();
