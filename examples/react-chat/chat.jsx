// A chat with all agents of a Threadmill server: replies as they are written, tools, approvals with a
// reason, a stop that stops, a reload that goes on where the turn is, and tabs that follow each other.

import { Client } from "@threadmill/client";
import { useThread } from "@threadmill/client/react";
import { getToolName, isToolUIPart } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const client = new Client({ baseURL: query.get("api") ?? "http://localhost:8080" });

// Decisions need the name of a person. A server with API keys knows it by the key.
const sender = query.get("name") ?? "guest";

// One thread for each address: a reload, and another tab with the same address, show the same.
if (!location.hash) location.hash = crypto.randomUUID();
const id = location.hash.slice(1);

function Chat({ agents }) {
  const [text, setText] = useState("");
  const thread = useThread({ client, id, agents, sender });
  const { messages, sendMessage, retry, stop, status, error, connection } = thread;
  const busy = status === "submitted" || status === "streaming";

  function send(event) {
    event.preventDefault();
    if (text.trim() === "") return;
    sendMessage({ text });
    setText("");
  }

  return (
    <>
      <h1>Threadmill and React {connection === "open" && <small>live</small>}</h1>
      <p className="note">With {agents.join(" and ")}. Address one of them with @name.</p>
      {thread.older && <button onClick={() => thread.loadOlder()}>Older messages</button>}
      {messages.map((message) => (
        <section key={message.id} className="message" data-role={message.role}>
          {message.role === "user" && <b>{message.metadata?.sender ?? "you"}</b>}
          {message.parts.map((part, i) => <Part key={part.toolCallId ?? i} part={part} parts={message.parts} thread={thread} />)}
        </section>
      ))}
      {error && (
        <p className="error" role="alert">
          {error.message} <button onClick={retry}>Try again</button>
        </p>
      )}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(e) => setText(e.target.value)} placeholder={busy ? "The agents are at work…" : "Write a message"} disabled={busy} />
        {busy && <button type="button" onClick={stop}>Stop</button>}
      </form>
    </>
  );
}

function Part({ part, parts, thread }) {
  if (part.type === "text") return <div className="text">{part.text}</div>;
  if (part.type === "reasoning") return <div className="reasoning">{part.text}</div>;
  if (part.type === "data-agent") return <b>{part.data.name}</b>;
  if (part.type === "data-error") return <div className="error">{part.data.error}</div>;
  if (part.type === "data-retrieval") return <Sources {...part.data} />;
  if (part.type === "data-event") return <div className="note">{part.data.type}</div>;
  if (!isToolUIPart(part)) return null;
  const request = parts.find((p) => p.type === "data-approval" && p.id === part.toolCallId)?.data;
  return (
    <div className="tool">
      <b>{getToolName(part)}</b> <span className="note">{part.state}</span>
      <pre>{JSON.stringify(part.input, null, 2)}</pre>
      {thread.waiting.includes(part) && part.state === "approval-requested" && <Decision part={part} request={request} thread={thread} />}
      {part.output !== undefined && <pre>{typeof part.output === "string" ? part.output : JSON.stringify(part.output, null, 2)}</pre>}
      {part.errorText && <pre className="error">{part.errorText}</pre>}
    </div>
  );
}

/** What an agent was given for its reply, which cites the passages by their numbers. */
function Sources({ passages, facts = [] }) {
  return (
    <div className="sources">
      {passages.map((p, i) => (
        <details key={p.id}>
          <summary>[{i + 1}] {[p.source, ...(p.path ?? [])].join(" › ")}</summary>
          {p.text}
        </details>
      ))}
      {facts.map((f) => <div key={f.entity}>{f.name}: {f.text}</div>)}
    </div>
  );
}

function Decision({ part, request, thread }) {
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const decide = (decision) => decision.catch((error) => setProblem(error.message));
  return (
    <p>
      {request?.reason} {request?.workingDirectory && <>in {request.workingDirectory}</>}
      <input aria-label="Reason" value={reason} onChange={(e) => setReason(e.target.value)} placeholder="A reason, if you deny it" />
      <button onClick={() => decide(thread.approve(part))}>Approve</button>{" "}
      <button onClick={() => decide(thread.approve(part, { scope: "session" }))}>For the session</button>{" "}
      <button onClick={() => decide(thread.deny(part, reason || undefined))}>Deny</button>
      {problem && <span className="error" role="alert">{problem}</span>}
    </p>
  );
}

const { agents } = await client.request("GET /v1/agents");
createRoot(document.getElementById("root")).render(<Chat agents={agents.map((a) => a.name)} />);
