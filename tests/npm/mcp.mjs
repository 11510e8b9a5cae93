// Uses a Threadmill server with the MCP clients of npm. It fails unless each tool works as an assistant needs it.
//
//   node run.mjs mcp.mjs <client: sdk or client> <transport: http or stdio> <base URL> <scenario> [<starter>]

import assert from "node:assert/strict";

const [version, transport, base, scenario, starter] = process.argv.slice(2);

// sdk knows the protocol with sessions, client is asked for the one without.
const packages = {
  async sdk() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    return { client: new Client({ name: "test", version: "1" }), StreamableHTTPClientTransport, StdioClientTransport, call: (c, params, options) => c.callTool(params, undefined, options) };
  },
  async client() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
    return { client, StreamableHTTPClientTransport, StdioClientTransport, call: (c, params, options) => c.callTool(params, options) };
  },
};

let cut; // aborts the response of the next request that calls a tool
async function cutting(url, init) {
  const response = await fetch(url, init);
  if (cut === undefined || !String(init?.body).includes("tools/call")) return response;
  const after = cut;
  cut = undefined;
  let seen = "";
  return new Response(response.body.pipeThrough(new TransformStream({
    transform(piece, controller) {
      controller.enqueue(piece);
      seen += new TextDecoder().decode(piece);
      if (seen.includes(after)) controller.error(new TypeError("the connection was cut"));
    },
  })), response);
}

const { client, call, StreamableHTTPClientTransport, StdioClientTransport } = await packages[version]();
await client.connect(transport === "http"
  ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { fetch: cutting })
  : new StdioClientTransport({ command: starter, args: ["mcp", "--api", base], env: { PATH: process.env.PATH, HOME: "/nowhere" }, stderr: "inherit" }));

/** The result of a tool, which the client has validated with the tool's schema. */
async function use(name, args, options) {
  const result = await call(client, { name, arguments: args }, options);
  if (result.isError) throw new Error(result.content[0].text);
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  return result.structuredContent;
}

const scenarios = {
  async ask() {
    const { tools } = await client.listTools(); // the client validates results with their schemas from now on
    assert.equal(tools.length, 10);
    const lines = [];
    // The client drops progress that it reads together with the result: the reply is a long one.
    const answer = await use("ask_agent", { message: 'use note {"text":"milk"}\nthen\ncount 100 every 20ms', agent: "assistant" }, { onprogress: (p) => lines.push(p.message) });
    assert.equal(answer.status, "completed");
    assert.match(answer.text, /98 99 100$/);
    assert.ok(lines.includes("assistant calls note") && lines.includes("note has ended"), lines.join());
    assert.deepEqual(await use("wait_for_turn", { thread: answer.thread, event: answer.event }), answer);
    const more = await use("ask_agent", { message: "and more", thread: answer.thread });
    assert.equal(more.text, "and more");
    const page = await use("read_thread", { thread: answer.thread });
    assert.equal(page.messages.map((m) => m.senderType).join(), "user,agent,tool,agent,user,agent");
    const { resources } = await client.listResources();
    assert.equal(resources.length, 2);
    const read = await client.readResource({ uri: `threadmill://threads/${answer.thread}` });
    assert.equal(JSON.parse(read.contents[0].text).messages.length, 6);
    assert.ok((await use("list_agents", {})).agents.some((a) => a.name === "assistant"));
    await assert.rejects(use("ask_agent", { message: "x", agent: "asistant" }), /agent: .*assistant/);
    await assert.rejects(use("ask_agent", { message: "x", thread: "none" }), /there is no thread/);
    await assert.rejects(use("ask_agent", { message: "" }), /message/);
  },
  async approval() {
    const asked = await use("ask_agent", { message: 'use ask {"text":"milk"}', agent: "assistant" });
    assert.equal(asked.status, "waiting_for_approval");
    const [one] = asked.approvals;
    assert.deepEqual((await use("list_approvals", {})).approvals, [one]);
    await assert.rejects(use("decide_approval", { thread: one.thread, toolCallId: one.toolCallId, decision: "approve" }), /by: is required/);
    await assert.rejects(use("decide_approval", { thread: one.thread, toolCallId: one.toolCallId, decision: "approve", by: "ann", digest: "other" }), /look at the request again/);
    const decided = await use("decide_approval", { thread: one.thread, toolCallId: one.toolCallId, decision: "approve", by: "ann", digest: one.digest });
    assert.equal(decided.result, "accepted");
    const answer = await use("wait_for_turn", { thread: asked.thread, event: asked.event });
    assert.equal(answer.status, "completed");
    assert.match(answer.text, /asked: milk/);
    const again = await use("decide_approval", { thread: one.thread, toolCallId: one.toolCallId, decision: "approve", by: "ann" });
    assert.equal(again.result, "already_resolved");
    const denied = await use("ask_agent", { message: 'use ask {"text":"more"}', thread: asked.thread, agent: "assistant" });
    await use("decide_approval", { thread: denied.thread, toolCallId: denied.approvals[0].toolCallId, decision: "deny", reason: "no more milk", by: "ann" });
    assert.match((await use("wait_for_turn", { thread: denied.thread, event: denied.event })).text, /no more milk/);
  },
  async input() {
    const asked = await use("ask_agent", { message: "use book {}", agent: "assistant" });
    assert.equal(asked.status, "waiting_for_input");
    const [one] = asked.inputs;
    const [question] = one.questions;
    assert.equal(question.message, "When do you come?");
    const [field] = Object.keys(question.schema.properties);
    const answer = (round, id, content) => use("answer_input", { thread: one.thread, toolCallId: one.toolCallId, round, answers: { [id]: { action: "accept", content } } });
    await assert.rejects(answer(1, "when", { [field]: 5 }), /answers\.when/);
    assert.equal((await answer(1, "when", { [field]: "monday" })).result, "accepted");
    const second = await use("wait_for_turn", { thread: asked.thread, event: asked.event });
    assert.equal(second.status, "waiting_for_input");
    assert.equal(second.inputs[0].questions[0].url, "https://pay.example/42");
    await answer(2, "pay");
    assert.match((await use("wait_for_turn", { thread: asked.thread, event: asked.event })).text, /booked: .*paid: accept/);
  },
  // The questions of a sub-agent are those of its parent thread.
  async "sub-agent input"() {
    const asked = await use("ask_agent", { message: 'use call_agent {"agent":"second","message":"use book {}"}', agent: "assistant" });
    assert.equal(asked.status, "waiting_for_input");
    const [one] = asked.inputs;
    assert.deepEqual([one.thread, one.agent, one.questions[0].message], [asked.thread, "second", "When do you come?"]);
    assert.deepEqual((await use("list_approvals", { thread: asked.thread })).inputs, [one]);
    const answer = (content) => use("answer_input", { thread: one.thread, toolCallId: one.toolCallId, round: 1, answers: { when: content ? { action: "accept", content } : { action: "decline" } } });
    await assert.rejects(answer({ day: "sunday" }), /answers\.when/);
    assert.equal((await answer()).result, "accepted");
    assert.equal((await answer()).result, "already_resolved");
    assert.match((await use("wait_for_turn", { thread: asked.thread, event: asked.event })).text, /not booked: decline/);
  },
  // The time of the wait ends before the turn does.
  async running() {
    const asked = await use("ask_agent", { message: "count 60 every 50ms", agent: "assistant", waitSeconds: 1 });
    assert.equal(asked.status, "running");
    const answer = await use("wait_for_turn", { thread: asked.thread, event: asked.event });
    assert.match(answer.text, /58 59 60/);
  },
  // The connection is cut in the middle of the call.
  async cut() {
    cut = "is writing";
    const args = { message: "count 60 every 20ms", agent: "assistant", requestId: "7c0e6f0e-91a5-4a0c-9d3c-1d5a1f6a0001" };
    const lines = [];
    const once = (options) => use("ask_agent", args, { onprogress: (p) => lines.push(p.message), ...options });
    // A session goes on with the last event; without sessions the client waits in vain, and repeats the request.
    const answer = version === "sdk" ? await once() : await assert.rejects(once({ timeout: 1000 })).then(() => once());
    assert.equal(cut, undefined, "it was cut");
    assert.match(answer.text, /58 59 60/);
    const page = await use("read_thread", { thread: answer.thread });
    assert.equal(page.messages.length, 2, "nothing was posted twice");
  },
};

await scenarios[scenario]();
await client.close();
