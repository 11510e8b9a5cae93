// Talks to a thread with the transport of @threadmill/client, from a project that has the package installed and a version of ai.
//
//   node transport.mjs <base URL> <scenario> <version of ai>

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { AbstractChat } from "ai";
import { Client } from "@threadmill/client";
import { ConnectionError, loadMessages, regenerate, retry, sendAutomaticallyWhen, stop, ThreadTransport } from "@threadmill/client/ai";
import { until } from "./until.mjs";

const [base, scenario, version] = process.argv.slice(2);

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

/** A chat of the AI SDK, which counts what it posts. */
class Chat extends AbstractChat {
  constructor({ id, messages = [], client = new Client({ baseURL: base }), tools, body, title, ...options }) {
    const posts = [];
    const counting = Object.assign(Object.create(client), { fetch: (url, init) => {
      if (init?.method === "POST") posts.push(JSON.parse(init.body));
      return client.fetch(url, init);
    } });
    super({ id, state: new State(messages), sendAutomaticallyWhen, transport: new ThreadTransport({ client: counting, sender: "ann", version: Number(version), tools, body, title }), ...options });
    this.posts = posts;
  }
}

const plain = new Client({ baseURL: base });

const tools = (m) => m.parts.filter((p) => p.toolCallId);
const text = (m) => (m?.parts ?? []).filter((p) => p.type === "text").map((p) => p.text).join("|");

/** Fails unless a chat has the parts of a fresh load. */
async function fresh(c, options = {}) {
  const clean = (m) => JSON.parse(JSON.stringify(m.parts.filter((p) => p.type !== "reasoning" && p.type !== "data-reset").map(({ approval, ...p }) => ({ ...p, approval: approval && version === "6" ? { id: approval.id } : approval }))));
  const loaded = await loadMessages(plain, c.id, options);
  assert.deepEqual(c.messages.map((m) => m.id), loaded.map((m) => m.id));
  loaded.forEach((m, i) => m.role === "assistant" && assert.deepEqual(clean(c.messages[i]), clean(m)));
  assert.equal(sendAutomaticallyWhen({ messages: loaded }), false, "what was loaded is not sent");
  assert.equal(sendAutomaticallyWhen(c), false, "what was sent is not sent again");
}

const settled = (c) => until(() => (c.status === "ready" || c.status === "error") && !sendAutomaticallyWhen(c));

const scenarios = {
  async requests() {
    const { paths } = await (await fetch(`${base}/openapi.json`)).json();
    let lists = 0;
    for (const [path, { get }] of Object.entries(paths)) {
      for (const { name, explode, schema } of get?.parameters?.filter((p) => p.in === "query" && [p.schema.type].flat().includes("array")) ?? []) {
        lists++;
        let sent;
        const values = Object.fromEntries([...path.matchAll(/\{(\w+)\}/g)].map(([, value]) => [value, "a/b"]));
        const client = new Client({ baseURL: base, fetch: (url) => (sent = new URL(url), Response.json({})) });
        await client.request(`GET ${path}`, { path: values, query: { [name]: ["x", "y"] } });
        assert.deepEqual(sent.searchParams.getAll(name), explode ? ["x", "y"] : ["x,y"], `${path} ${name} ${schema.type}`);
        assert.ok(!sent.pathname.includes("{") && !sent.pathname.includes("a/b"), sent.pathname);
      }
    }
    assert.ok(lists > 3);
  },

  async reply() {
    const c = new Chat({ id: "reply", title: "Greetings" });
    assert.deepEqual(await loadMessages(plain, "reply"), [], "a thread that does not exist has no messages");
    await c.sendMessage({ text: "hello" });
    assert.equal(text(c.lastMessage), "hello");
    assert.equal(c.posts[0].sender, "ann");
    assert.equal((await plain.thread("reply")).title, "Greetings");
    const loaded = await loadMessages(plain, "reply");
    assert.equal(loaded[0].metadata.sender, "ann");
    await fresh(c);
    await retry(c);
    assert.equal((await loadMessages(plain, "reply")).length, 2, "there is an answer");
    await regenerate(c);
    assert.equal((await loadMessages(plain, "reply")).length, 4, "it is answered again");
    const sent = c.sendMessage({ text: "count 10000 every 20ms" });
    await until(() => / 5 /.test(text(c.lastMessage)));
    await stop(plain, "reply");
    await sent;
    assert.equal((await loadMessages(plain, "reply")).at(-1).metadata.turn, "interrupted");
    const secret = new Client({ baseURL: base, token: () => "tm_unknown" });
    const authorized = [];
    secret.fetch = (url, init) => (authorized.push(new Headers(init.headers).get("Authorization")), fetch(url, init));
    await new Chat({ id: "reply", client: secret }).resumeStream();
    assert.deepEqual(authorized, ["Bearer tm_unknown"]);
  },

  async approvals() {
    const c = new Chat({ id: "approvals" });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nuse ask {"text":"b"}\nthen\ndone' });
    const [a, b] = tools(c.lastMessage);
    await c.addToolApprovalResponse({ id: a.approval.id, approved: true });
    assert.equal(sendAutomaticallyWhen(c), false, "the other one waits");
    await c.addToolApprovalResponse({ id: b.approval.id, approved: false, reason: "not b" });
    await until(() => /done/.test(text(c.lastMessage)));
    await settled(c);
    assert.deepEqual(tools(c.lastMessage).map((p) => p.state), ["output-available", "output-denied"]);
    assert.equal(c.posts.length, 2, "one for the message, one for both decisions");
    await fresh(c);
  },

  async "older message"() {
    const c = new Chat({ id: "older", body: { onWaiting: "answer" } });
    await c.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const [asked] = tools(c.lastMessage);
    await c.sendMessage({ text: "and meanwhile" });
    assert.equal(text(c.lastMessage), "and meanwhile");
    assert.equal(c.messages.length, 4);
    await c.addToolApprovalResponse({ id: asked.approval.id, approved: true });
    await until(() => /done/.test(text(c.messages[1])));
    await settled(c);
    assert.equal(c.posts.at(-1).messages.at(-1).id, c.messages[1].id, "the older message is the last one that is sent");
    assert.equal(c.posts.length, 3);
    assert.equal(c.messages.length, 4);
    await c.sendMessage({ text: "and then" });
    assert.equal(c.posts.length, 4);
    await fresh(c);

    // An older message is answered while another one is.
    const d = new Chat({ id: "meanwhile", body: { onWaiting: "answer" } });
    await d.sendMessage({ text: 'use ask {"text":"a"}\nthen\ndone' });
    const sent = d.sendMessage({ text: "count 60 every 20ms" });
    await until(() => / 10 /.test(text(d.lastMessage)));
    await d.addToolApprovalResponse({ id: tools(d.messages[1])[0].approval.id, approved: true });
    await sent;
    await until(async () => (await loadMessages(plain, "meanwhile"))[1]?.metadata.turn === "completed");
    assert.match(text(d.lastMessage), / 60$/);
    assert.equal(d.messages.length, 4);
    assert.equal(d.posts.length, 3);
  },

  async "client tool with approval"() {
    const c = new Chat({ id: "careful", tools: ["locate_exactly"], onToolCall({ toolCall }) {
      if (toolCall.toolName === "locate_exactly") c.addToolOutput({ tool: "locate_exactly", toolCallId: toolCall.toolCallId, output: { city: "Bern" } });
    } });
    await c.sendMessage({ text: "use locate_exactly {}\nthen\nfound" });
    const part = () => tools(c.lastMessage)[0];
    assert.equal(part().state, "approval-requested");
    assert.equal(c.posts.length, 1);
    await c.addToolApprovalResponse({ id: part().approval.id, approved: true });
    await until(() => /found/.test(text(c.lastMessage)));
    await settled(c);
    assert.equal(part().state, "output-available");
    assert.equal(part().type, "tool-locate_exactly");
    assert.equal(c.posts.length, 3, "the message, the decision, the output");
    await fresh(c, { tools: ["locate_exactly"] });
  },

  async input() {
    const c = new Chat({ id: "input" });
    await c.sendMessage({ text: "use book {}\nthen\ndone" });
    const open = () => tools(c.lastMessage).find((p) => p.toolName === "request_input" && p.state === "input-available");
    await c.addToolOutput({ tool: "request_input", toolCallId: open().toolCallId, output: { action: "accept", content: { day: "monday" } } });
    await until(() => c.status === "ready" && open()?.input.questions[0].url);
    await c.addToolOutput({ tool: "request_input", toolCallId: open().toolCallId, output: { action: "accept" } });
    await until(() => /done/.test(text(c.lastMessage)));
    await settled(c);
    assert.equal(c.posts.length, 3);
    await fresh(c);
  },

  async cuts() {
    let cuts = 0;
    const wire = { clean: false };
    const client = new Client({ baseURL: base, fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (response.status !== 200 || cuts >= 40) return response;
      let left = Math.floor(Math.random() * 20_000);
      return new Response(response.body.pipeThrough(new TransformStream({
        transform(piece, controller) {
          controller.enqueue(piece.slice(0, Math.max(0, left)));
          left -= piece.length;
          if (left >= 0) return;
          wire.clean = ++cuts % 2 === 0;
          if (wire.clean) controller.terminate();
          else controller.error(new TypeError("terminated"));
        },
      })), response);
    } });
    const errors = [];
    const c = new Chat({ id: "cuts", client, onError: (e) => errors.push(e) });
    await c.sendMessage({ text: 'use note {"text":"a"}\nthen\ncount 1500 every 4ms\nuse ask {"text":"b"}\nthen\nend' });
    await until(async () => {
      if (c.status !== "error") return true;
      assert.ok(c.error instanceof ConnectionError, String(c.error));
      await c.resumeStream();
    });
    assert.ok(cuts > 2, `${cuts} cuts`);
    assert.equal(errors.length, cuts, "each is an error, also one that looks like the end");
    await c.addToolApprovalResponse({ id: tools(c.lastMessage).at(-1).approval.id, approved: true });
    await until(async () => {
      if (c.status === "error") await c.resumeStream();
      return c.status === "ready" && /end/.test(text(c.lastMessage));
    });
    assert.match(text(c.lastMessage), /1498 1499 1500/);
    await fresh(c);

    const away = new Chat({ id: "away", client: new Client({ baseURL: base, fetch: () => Promise.reject(new TypeError("fetch failed")) }) });
    await away.sendMessage({ text: "hello" });
    assert.ok(away.error instanceof ConnectionError);
    const back = new Chat({ id: "away", messages: away.messages });
    await retry(back);
    assert.equal(text(back.lastMessage), "hello", "a message that did not arrive is sent");
    assert.equal((await loadMessages(plain, "away")).length, 2);
  },
};

await scenarios[scenario]();
console.log("ok");
process.exit(0);
