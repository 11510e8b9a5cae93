// A page with a thread, made with @threadmill/client: tests of useThread drive it and look at window.thread.

import { useThread } from "@threadmill/client/react";
import { loadMessages } from "@threadmill/client/ai";
import { Client } from "@threadmill/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const id = location.hash.slice(1);
const tools = ["locate_exactly"];

window.openStreams = 0;
const client = new Client({ baseURL: query.get("api"), fetch: async (url, init) => {
  const response = await fetch(url, init);
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
  window.openStreams++;
  let open = true;
  const close = () => open && (open = false, window.openStreams--);
  init.signal?.addEventListener("abort", close);
  return new Response(response.body.pipeThrough(new TransformStream({ flush: close })), response);
} });

const text = (m) => m.parts.filter((p) => p.type === "text").map((p) => p.text).join("");
const lengths = new Map();
const problems = [];
window.ran = 0;

/** Notes what a person would see flicker: an answer that becomes shorter, or disappears. */
function look(messages) {
  for (const [id, length] of lengths) {
    const now = messages.find((m) => m.id === id);
    if (!now) problems.push(`${id} has gone`);
    else if (text(now).length < length) problems.push(`${id} went from ${length} to ${text(now).length}`);
  }
  lengths.clear();
  messages.forEach((m) => lengths.set(m.id, text(m).length));
}

const clean = (messages) => JSON.parse(JSON.stringify(messages.map(({ id, role, parts, metadata }) => ({
  id, role, turn: metadata?.turn, sender: metadata?.sender, parts: parts.filter((p) => p.type !== "reasoning" && p.type !== "data-reset"),
}))));

const sorted = (v) => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort().map(([k, w]) => [k, sorted(w)])) : Array.isArray(v) ? v.map(sorted) : v);

/** Whether the page shows what one shows that is opened now. */
window.fresh = async () => {
  const direct = new Client({ baseURL: query.get("direct") });
  const [here, there] = [window.thread.messages, await loadMessages(direct, id, { tools })].map((messages) => JSON.stringify(sorted(clean(messages))));
  window.difference = here === there ? "" : `${here}\n${there}`;
  return here === there;
};

Object.assign(window, { problems });

function Page() {
  const thread = useThread({
    client, id, tools, sender: query.get("name"), limit: id === "pages" ? 3 : undefined, body: { onWaiting: "answer" },
    onToolCall: () => ({ city: "Bern", ran: ++window.ran }),
  });
  window.thread = thread;
  look(thread.messages);
  return (
    <main data-status={thread.status}>
      {thread.messages.map((m) => (
        <section key={m.id} data-role={m.role}>
          {text(m)} {m.parts.filter((p) => p.toolCallId).map((p) => `[${p.toolName ?? p.type.slice(5)} ${p.state} ${JSON.stringify(p.output ?? null)}]`)}
        </section>
      ))}
      {thread.error && <p role="alert">{thread.error.message}</p>}
    </main>
  );
}

createRoot(document.getElementById("root")).render(<StrictMode><Page /></StrictMode>);
