// A chat with all agents of a Threadmill server: replies as they are written, tools, approvals with a
// reason, a stop that stops, a reload that goes on where the turn is, and tabs that follow each other.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, getToolName, isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const api = (query.get("api") ?? "http://localhost:8080") + "/v1";

// Decisions need the name of a person. A server with API keys knows it by the key.
const sender = query.get("name") ?? "guest";

// One thread for each address: a reload, and another tab with the same address, show the same.
if (!location.hash) location.hash = crypto.randomUUID();
const id = location.hash.slice(1);

async function get(path) {
  const response = await fetch(api + path);
  if (!response.ok) throw new Error((await response.json()).detail);
  return response.json();
}

/** Shows what others write: useChat itself follows only what this tab has sent. Returns whether it does so now. */
function useFollow({ messages, setMessages, resumeStream }, busy) {
  const [others, setOthers] = useState(0);
  const [live, setLive] = useState(false);
  const known = useRef(new Set());
  known.current = new Set(messages.map((m) => m.id));
  useEffect(() => {
    const events = new EventSource(`${api}/threads/${id}/events?from=now`); // reconnects by itself
    events.onopen = () => setLive(true);
    events.onerror = () => setLive(false);
    events.onmessage = ({ data }) => {
      const { type, message } = JSON.parse(data);
      if (type === "message" && message.senderType === "user" && !known.current.has(message.id)) setOthers((n) => n + 1);
    };
    return () => events.close();
  }, []);
  useEffect(() => {
    if (others === 0 || busy) return;
    setOthers(0);
    get(`/chat/${id}/messages`).then(({ messages: newest }) => {
      setMessages((now) => [...now.slice(0, Math.max(0, now.findIndex((m) => m.id === newest[0]?.id))), ...newest]);
      resumeStream();
    });
  }, [others, busy]);
  return live;
}

function Chat({ agents, initial }) {
  const [text, setText] = useState("");
  const [previous, setPrevious] = useState(initial.previous); // the cursor of older messages
  const chat = useChat({
    id,
    messages: initial.messages,
    resume: true, // goes on where the turn is
    transport: new DefaultChatTransport({
      api: api + "/chat",
      body: { version: 7, sender },
      prepareReconnectToStreamRequest: () => ({ api: `${api}/chat/${id}/stream?version=7` }),
    }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const { messages, setMessages, sendMessage, regenerate, addToolApprovalResponse, status, error } = chat;
  const busy = status === "submitted" || status === "streaming";
  const live = useFollow(chat, busy);

  async function older() {
    const page = await get(`/chat/${id}/messages?cursor=${previous}`);
    setMessages((now) => [...page.messages, ...now]);
    setPrevious(page.previous);
  }

  function send(event) {
    event.preventDefault();
    if (text.trim() === "") return;
    sendMessage({ text });
    setText("");
  }

  return (
    <>
      <h1>Threadmill and React {live && <small>live</small>}</h1>
      <p className="note">With {agents.join(" and ")}. Address one of them with @name.</p>
      {previous && <button onClick={older}>Older messages</button>}
      {messages.map((message) => (
        <section key={message.id} className="message" data-role={message.role}>
          {message.role === "user" && <b>{message.metadata?.sender ?? "you"}</b>}
          {message.parts.map((part, i) => <Part key={part.toolCallId ?? i} part={part} parts={message.parts} decide={addToolApprovalResponse} />)}
        </section>
      ))}
      {error && (
        <p className="error" role="alert">
          {error.message} <button onClick={() => regenerate()}>Try again</button>
        </p>
      )}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(e) => setText(e.target.value)} placeholder={busy ? "The agents are at work…" : "Write a message"} disabled={busy} />
        {busy && (
          // The SDK's stop() only closes the connection.
          <button type="button" onClick={() => fetch(`${api}/chat/${id}/stop`, { method: "POST" })}>
            Stop
          </button>
        )}
      </form>
    </>
  );
}

function Part({ part, parts, decide }) {
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
      {part.state === "approval-requested" && <Decision part={part} request={request} decide={decide} />}
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

function Decision({ part, request, decide }) {
  const [reason, setReason] = useState("");
  const answer = (approved) => decide({ id: part.approval.id, approved, reason: reason || undefined });
  return (
    <p>
      {request?.reason} {request?.workingDirectory && <>in {request.workingDirectory}</>}
      <input aria-label="Reason" value={reason} onChange={(e) => setReason(e.target.value)} placeholder="A reason, if you deny it" />
      <button onClick={() => answer(true)}>Approve</button> <button onClick={() => answer(false)}>Deny</button>
    </p>
  );
}

const agents = (await get("/agents")).agents.map((a) => a.name);
const opened = await fetch(api + "/threads", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ id, agents }) });
if (!opened.ok && opened.status !== 409) throw new Error((await opened.json()).detail); // 409: it is there already
const initial = await get(`/chat/${id}/messages`);
createRoot(document.getElementById("root")).render(<Chat agents={agents} initial={initial} />);
