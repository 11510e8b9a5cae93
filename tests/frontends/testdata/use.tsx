// What frontends do with @threadmill/client, in strict TypeScript.
import { APIError, Client, type AgentEvent, type PostResult, type Thread } from "@threadmill/client";
import { ThreadAgent, type ThreadAgentConfig } from "@threadmill/client/ag-ui";
import { ConnectionError, loadMessages, regenerate, retry, sendAutomaticallyWhen, stop, ThreadTransport, type ThreadMessage } from "@threadmill/client/ai";
import { useThread, type ThreadHelpers, type ToolPart } from "@threadmill/client/react";
import { useChat } from "@ai-sdk/react";
import type { ChatTransport } from "ai";

const client = new Client({ baseURL: "http://localhost:8080", token: () => undefined });

export async function requests(): Promise<string> {
  const thread: Thread = await client.thread("t");
  const posted: PostResult = await client.post(thread.id, { content: "hello" });
  // @ts-expect-error messages have no field text
  await client.post("t", { text: "hello" });
  await client.watch("t", { from: "now", onEvent: (event: AgentEvent, id: string) => void (event.type === "stream" && event.content + id) });
  const got = await client.toolResult("t", "call", { output: { any: "JSON" } });
  try {
    await client.decide("t", "call", { decision: "approve", scope: "session" });
  } catch (error) {
    if (error instanceof APIError && error.status === 409) return error.problem.detail ?? "";
    if (error instanceof ConnectionError) return error.message;
  }
  return posted.status + got.result;
}

export async function anyOperation(): Promise<string> {
  const { threads } = await client.request("GET /v1/threads", { query: { status: "open", limit: 10 } });
  const first = (await client.threads({ sort: "attention", tool: "shell_cmd", olderThan: "1h" })).threads[0];
  const since: [string | undefined, string | undefined] = [first?.preview, first?.activitySince];
  const waiting: number = (await client.threadCounts({ agent: "assistant" })).waiting;
  const preview: string | undefined = (await client.waiting({ agent: "assistant", tool: "shell_cmd" })).approvals[0]?.preview;
  await client.openThread({ title: `${waiting} ${preview} ${since}` });
  // @ts-expect-error such an order is not known
  await client.threads({ sort: "oldest" });
  const { grants } = await client.request("GET /v1/threads/{id}/grants", { path: { id: threads[0]?.id ?? "t" } });
  const none: undefined = await client.request("DELETE /v1/threads/{id}", { path: { id: "t" } });
  // @ts-expect-error there is no such operation
  await client.request("GET /v1/thread");
  // @ts-expect-error the path has an id
  await client.request("GET /v1/threads/{id}");
  // @ts-expect-error there is no such status
  await client.request("GET /v1/threads", { query: { status: "any" } });
  // @ts-expect-error a message has content
  await client.request("POST /v1/threads/{id}/messages", { path: { id: "t" }, body: {} });
  const { events, next } = await client.eventsAfter("t", { limit: 10 });
  const said = events.flatMap((e) => (e.type === "message" ? [e.message.content] : []));
  return [grants[0]?.toolName, none, next, ...said].join();
}

export function Chat({ id }: { id: string }) {
  const thread: ThreadHelpers = useThread({ client, id, sender: "ann", tools: ["locate"], onToolCall: async ({ toolCall }) => ({ of: toolCall.toolName }) });
  const part: ToolPart | undefined = thread.waiting[0];
  // @ts-expect-error there may be none
  thread.waiting[0].toolCallId;
  return (
    <main>
      {thread.messages.map((m: ThreadMessage) => <p key={m.id}>{m.metadata?.sender} {m.metadata?.turn === "failed" && <button onClick={() => thread.retry()}>Again</button>}</p>)}
      {part && <button onClick={() => thread.approve(part, { scope: "pattern", pattern: { path: "/tmp/*" } })}>Approve</button>}
      {part && <button onClick={() => thread.deny(part, "no")}>Deny</button>}
      {part && <button onClick={() => thread.answer(part, { action: "accept", content: { day: "monday" } })}>Answer</button>}
      <button onClick={() => thread.sendMessage({ text: "hello" })}>Send</button>
      {thread.older && <button onClick={() => thread.loadOlder()}>Older</button>}
      <button onClick={thread.stop}>Stop</button>
      {thread.loaded && thread.connection} {thread.error?.message}
    </main>
  );
}

export function Plain({ id, messages }: { id: string; messages: ThreadMessage[] }) {
  const transport: ChatTransport<ThreadMessage> = new ThreadTransport({ client, sender: "ann", body: { onBusy: "steer" } });
  const chat = useChat<ThreadMessage>({ id, messages, transport, sendAutomaticallyWhen });
  return <button onClick={() => Promise.all([retry(chat), regenerate(chat), stop(client, id), loadMessages(client, id, { limit: 10 })])}>All</button>;
}

export async function agui(config: ThreadAgentConfig): Promise<number> {
  const agent = new ThreadAgent(config);
  agent.addMessage({ id: "m", role: "user", content: "hello" });
  const { newMessages } = await agent.runAgent({ resume: [] });
  await agent.connectAgent();
  await agent.clone().stop();
  agent.abortRun();
  return newMessages.length;
}
