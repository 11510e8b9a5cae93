// A chat made with the client of AG-UI: text as it is written, tools, approvals as interrupts, and a
// reload that goes on where the run is.

import { Client } from "@threadmill/client";
import { ThreadAgent } from "@threadmill/client/ag-ui";

const query = new URLSearchParams(location.search);
const client = new Client({ baseURL: query.get("api") ?? "http://localhost:8080" });

// Decisions need the name of a person. A server with API keys knows it by the key.
const sender = query.get("name") ?? "guest";
const $ = (id) => document.getElementById(id);

// One thread for each address: a reload, and another tab with the same address, show the same.
const isNew = !location.hash;
if (isNew) location.hash = crypto.randomUUID();
const agent = new ThreadAgent({ client, sender, threadId: location.hash.slice(1) });

const given = new Map(); // what agents were given, by reply

agent.subscribe({
  onMessagesChanged: ({ messages }) => show(messages),
  onCustomEvent: ({ event, messages }) => {
    if (event.name !== "threadmill.retrieval") return;
    given.set(event.value.messageId, event.value.passages);
    show(messages);
  },
  onRunErrorEvent: ({ event }) => fail(event.message),
});

function show(messages) {
  $("messages").replaceChildren(...messages.filter((m) => m.content || m.toolCalls).map((m) => {
    const calls = (m.toolCalls ?? []).map((c) => `${c.function.name} ${c.function.arguments}`);
    const sources = (given.get(m.id) ?? []).map((p, i) => `[${i + 1}] ${[p.source, ...(p.path ?? [])].join(" › ")}`);
    return element("div", { className: "message" }, element("b", {}, m.name ?? m.role), [m.content, ...calls, ...sources].filter(Boolean).join("\n"));
  }));
}

function element(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

const fail = (text) => ($("error").textContent = text);

/** Runs the agent, and asks what it stops for. */
async function run(start) {
  fail("");
  $("interrupts").replaceChildren();
  $("text").disabled = true;
  $("stop").hidden = false;
  try {
    await start();
  } catch (error) {
    fail(error.message);
  }
  $("text").disabled = false;
  $("stop").hidden = true;
  ask(agent.pendingInterrupts);
}

/** Asks for a decision on each interrupt. AG-UI takes the answers together. */
function ask(interrupts) {
  const answers = new Map();
  $("interrupts").replaceChildren(...interrupts.map(({ id, message, metadata }) => {
    const place = element("p", {}, `${message} ${metadata.request.arguments} `);
    const answer = (payload) => {
      answers.set(id, { interruptId: id, status: "resolved", payload });
      place.remove();
      if (answers.size === interrupts.length) run(() => agent.runAgent({ resume: [...answers.values()] }));
    };
    place.append(
      element("button", { onclick: () => answer({ approved: true }) }, "Approve"),
      element("button", { onclick: () => answer({ approved: false, reason: prompt("Why not?") ?? "" }) }, "Deny"),
    );
    return place;
  }));
}

$("form").onsubmit = (e) => {
  e.preventDefault();
  const content = $("text").value.trim();
  if (content === "") return;
  $("text").value = "";
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  run(() => agent.runAgent());
};
$("stop").onclick = () => agent.stop().catch((error) => fail(error.message));

if (!isNew) run(() => agent.connectAgent());
