// A thread in React: useChat of the AI SDK, which loads the thread, comes back after a cut, and follows what happens elsewhere.

import { Chat, useChat } from "@ai-sdk/react";
import { isDeepEqualData, isToolUIPart } from "ai";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ConnectionError, loadPage, retry, sendAutomaticallyWhen, stop, ThreadTransport } from "./ai.js";
import { backOff } from "./streams.js";

/** @import { UseChatHelpers } from "@ai-sdk/react" */
/** @import { ChatInit, DynamicToolUIPart, ToolUIPart, UIMessage } from "ai" */
/** @import { ThreadMessage, ThreadTransportOptions } from "./ai.js" */
/** @import { AgentEvent, Client, DecideResult, StreamState } from "./threadmill.js" */
/** @import { components } from "./api.js" */

/** @typedef {ToolUIPart<any> | DynamicToolUIPart} ToolPart */
/** @typedef {components["schemas"]["ApprovalRequest"]} ApprovalRequest */
/** @typedef {components["schemas"]["InputRequest"]} InputRequest */
/** @typedef {{ toolCallId: string, toolName: string, input: any }} ToolCall */

/**
 * @typedef {ThreadTransportOptions & Pick<ChatInit<ThreadMessage>, "onData" | "onError" | "onFinish"> & {
 *   id: string,
 *   limit?: number,
 *   throttle?: number,
 *   onToolCall?: (call: { toolCall: ToolCall }) => unknown,
 * }} UseThreadOptions
 * id: the thread, which is opened with the first message.
 * limit: the most messages to load from the thread's end, at most 200. Default: 50.
 * throttle: the least milliseconds between two renders while a reply is written. Default: none.
 * onToolCall runs a tool of the frontend, once its call waits for that: after its approval. What it returns is the result, and what
 * it throws is the error. Without a return value, the frontend answers later, with addToolOutput.
 */

/** @typedef {{ scope?: "once" | "session" | "pattern", pattern?: Record<string, string>, args?: object, reason?: string }} Approval */
/** @typedef {components["schemas"]["InputAnswer"] | { answers: Record<string, components["schemas"]["InputAnswer"]> }} Answer */

/**
 * @typedef {Omit<UseChatHelpers<ThreadMessage>, "stop"> & {
 *   loaded: boolean,
 *   older: boolean,
 *   loadOlder: () => Promise<void>,
 *   connection: StreamState,
 *   waiting: ToolPart[],
 *   approve: (part: ToolPart, approval?: Approval) => Promise<DecideResult>,
 *   deny: (part: ToolPart, reason?: string) => Promise<DecideResult>,
 *   answer: (part: ToolPart, answer: Answer) => Promise<DecideResult>,
 *   retry: () => Promise<void>,
 *   stop: () => Promise<void>,
 * }} ThreadHelpers
 * loaded: whether the messages were loaded. older: whether the thread has older ones; loadOlder puts up to limit of
 * them before the others, and rejects if they cannot be loaded.
 * connection: of the stream that tells what happens elsewhere.
 * waiting: the tools that wait for this person: with the state approval-requested for approve and deny, request_input for answer.
 * retry tries again after an error, and posts nothing twice. stop stops the turn. The others are those of useChat.
 */

/**
 * A thread as a chat.
 * @param {UseThreadOptions} options
 * @returns {ThreadHelpers}
 */
export function useThread(options) {
  const { client, id } = options;
  const thread = useMemo(() => new Thread(client, id, options), [client, id]);
  thread.options = options;
  const chat = useChat({ chat: thread.chat, throttle: options.throttle, experimental_throttle: options.throttle });
  const { loaded, older, connection, recovering, problem } = useSyncExternalStore(thread.subscribe, thread.snapshot, thread.snapshot);
  useEffect(() => thread.run(), [thread]);
  useEffect(() => thread.changes(chat.status), [thread, chat.status]);

  const { messages, status, error } = chat;
  const waiting = useMemo(() => waitingIn(messages, options.sender), [messages, options.sender]);
  const hidden = recovering && status === "error";
  return {
    ...chat,
    id,
    messages,
    waiting,
    loaded,
    older,
    connection,
    status: hidden ? "streaming" : status,
    error: hidden ? undefined : (error ?? problem),
    approve: thread.approve,
    deny: thread.deny,
    answer: thread.answer,
    retry: thread.retry,
    stop: thread.stop,
    loadOlder: thread.loadOlder,
  };
}

/** The tools that wait for a person. @param {ThreadMessage[]} messages @param {string} [sender] @returns {ToolPart[]} */
function waitingIn(messages, sender) {
  return messages.flatMap((m) =>
    m.role !== "assistant" || m.metadata?.turn
      ? []
      : m.parts.filter(isToolUIPart).filter((part) => {
          if (part.state === "input-available")
            return (part.type === "dynamic-tool" && part.toolName === "request_input") || part.type === "tool-request_input";
          const request = requestOf(m, part),
            approvers = request?.approvers ?? [];
          // Who is a member of a group by now, the server knows.
          return part.state === "approval-requested" && (!sender || request?.groups || approvers.length === 0 || approvers.includes(sender));
        }),
  );
}

/** @param {UIMessage} message @param {ToolPart} part @returns {ApprovalRequest | undefined} */
function requestOf(message, part) {
  const asks = message.parts.find((p) => p.type === "data-approval" && /** @type {any} */ (p).id === part.toolCallId);
  return /** @type {any} */ (asks)?.data;
}

/** @typedef {{ loaded: boolean, older: boolean, connection: StreamState, recovering: boolean, problem?: Error }} State */

/** While a reply is written that no stream of this chat shows, the chat looks for it this often, in milliseconds. */
const LIVE = 1000;

/**
 * Thread keeps a chat of the AI SDK like its thread. The chat's own streams show the turns that it follows. When one has ended, was cut,
 * or something else has happened, the messages are loaded, and the turn in progress is resumed.
 */
class Thread {
  /** @type {AbortController | undefined} */
  #running;
  #watching = false;
  #wake = new AbortController(); // ends the wait for a thread that does not exist
  #open = 0; // the chat's streams
  #syncing = false;
  #stale = true; // whether messages have to be loaded
  #more = true; // whether a turn may go on that no stream shows
  /** @type {string | undefined} */
  #previous; // the cursor of older messages
  /** @type {Promise<void> | undefined} */
  #loadingOlder;
  #shown = 0; // the record up to which the chat has everything
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #live;
  /** @type {Set<string>} */
  #ran = new Set();
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /** @type {State} */
  #state = { loaded: false, older: false, connection: "connecting", recovering: false };

  /** @param {Client} client @param {string} id @param {UseThreadOptions} options */
  constructor(client, id, options) {
    this.client = client;
    this.id = id;
    this.options = options;
    const transport = () => new ThreadTransport(this.options);
    /** @type {Chat<ThreadMessage>} */
    this.chat = new Chat({
      id,
      transport: {
        resumeStreamIsReplay: true,
        sendMessages: (request) => this.#opened(transport().sendMessages(request), request.abortSignal),
        reconnectToStream: (request) => this.#opened(transport().reconnectToStream(request), request.abortSignal),
      },
      sendAutomaticallyWhen,
      onData: (part) => this.options.onData?.(part),
      onError: (error) => {
        if (!(error instanceof ConnectionError)) return this.options.onError?.(error);
        this.#set({ recovering: true });
        this.#more = true;
      },
      onFinish: (end) => {
        const { place } = end.message.metadata ?? {};
        if (place && !end.isAbort && !end.isError) this.#shown = Math.max(this.#shown, recordOf(place));
        this.options.onFinish?.(end);
      },
    });
  }

  /**
   * Counts the streams of the chat that are open.
   * @template {ReadableStream<any> | null} S
   * @param {Promise<S>} connecting @param {AbortSignal} [signal] @returns {Promise<S>}
   */
  async #opened(connecting, signal) {
    this.#open++;
    let over = false;
    const close = () => {
      if (over) return;
      over = true;
      this.#open--;
      setTimeout(() => this.#sync()); // once the chat knows it too
    };
    signal?.addEventListener("abort", close);
    try {
      const stream = await connecting;
      if (stream === null) close();
      return stream && /** @type {S} */ (ending(stream, close));
    } catch (error) {
      close();
      throw error;
    }
  }

  /** @param {() => void} listener */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  snapshot = () => this.#state;

  /** @param {Partial<State>} change */
  #set(change) {
    this.#state = { ...this.#state, ...change };
    this.#listeners.forEach((listener) => listener());
  }

  /** Follows the thread until the returned function is called. A page that is kept in the back/forward cache keeps no streams. */
  run() {
    const begin = () => {
      if (this.#running) return;
      this.#running = new AbortController();
      this.#changed(true);
      this.#watch();
    };
    const end = () => {
      this.#running?.abort();
      this.#running = undefined;
      clearTimeout(this.#live);
      this.#live = undefined;
      this.chat.stop();
    };
    globalThis.addEventListener?.("pagehide", end);
    globalThis.addEventListener?.("pageshow", begin);
    begin();
    return () => {
      globalThis.removeEventListener?.("pagehide", end);
      globalThis.removeEventListener?.("pageshow", begin);
      end();
    };
  }

  /** Notes the status of the chat. @param {string} status */
  changes(status) {
    if (status === "streaming") this.#wake.abort();
    else if (status !== "submitted") this.#sync();
  }

  async #watch() {
    const running = this.#running;
    if (!running || this.#watching) return;
    this.#watching = true;
    for (let failures = 0; !running.signal.aborted; failures++) {
      try {
        await this.client.watch(this.id, {
          from: "now",
          signal: running.signal,
          onEvent: (event, at) => this.#take(event, at),
          onState: (connection) => {
            this.#set({ connection });
            if (connection === "open") this.#changed(true); // something may have happened before
          },
        });
        break;
      } catch (error) {
        if (/** @type {{ status?: number }} */ (error).status !== 404) break;
        this.#wake = new AbortController(); // the thread does not exist yet
        await backOff(failures, AbortSignal.any([running.signal, this.#wake.signal]));
      }
    }
    this.#watching = false;
    if (this.#running !== running) this.#watch();
  }

  /** @param {AgentEvent} event @param {string} at */
  #take(event, at) {
    if (event.type === "client_call") this.#runTools();
    if (event.type === "stream" || event.type === "thought" || event.type === "tool_progress") {
      if (this.#busy || this.#live) return;
      this.#live = setTimeout(() => {
        this.#live = undefined;
        if (!this.#busy) this.#changed(true);
      }, LIVE);
      return;
    }
    if (recordOf(at) > this.#shown) this.#changed(!this.#busy);
  }

  /** @param {boolean} more */
  #changed(more) {
    this.#stale = true;
    this.#more ||= more;
    this.#sync();
  }

  get #busy() {
    return this.#open > 0 || this.chat.status === "submitted" || this.chat.status === "streaming";
  }

  async #sync() {
    if (this.#syncing) return;
    this.#syncing = true;
    let failures = 0;
    try {
      while ((this.#stale || this.#state.recovering) && this.#running && !this.#busy) {
        const { signal } = this.#running;
        this.#stale = false;
        try {
          await this.#load(signal);
          failures = 0;
        } catch (error) {
          if (signal.aborted) continue;
          const { status = 0, retryAfter } = /** @type {{ status?: number, retryAfter?: number }} */ (error);
          if (status >= 400 && status < 500 && status !== 429) {
            this.#set({ recovering: false, problem: /** @type {Error} */ (error) });
            this.options.onError?.(/** @type {Error} */ (error));
            return;
          }
          this.#stale = true;
          await backOff(failures++, signal, retryAfter);
        }
      }
    } finally {
      this.#syncing = false;
    }
  }

  /** @param {AbortSignal} signal */
  async #load(signal) {
    const {
      client,
      chat,
      id,
      options: { tools, limit },
    } = this;
    const { messages: loaded, previous } = await loadPage(client, id, { tools, limit, signal });
    if (signal.aborted || this.#busy) {
      this.#stale = true;
      return;
    }
    const here = chat.messages,
      merged = merge(here, loaded);
    if (merged.length !== here.length || merged.some((m, i) => m !== here[i])) chat.messages = merged;
    if (!here.some((m) => m.id === loaded[0]?.id)) this.#previous = previous; // no older ones are here
    this.#set({ loaded: true, older: this.#previous !== undefined, problem: undefined });
    const going = loaded.filter((m, i) => isOpen(m) || (m.role === "user" && i === loaded.length - 1));
    const news = going.some((m) => !here.some((h) => h.id === m.id && sameParts(h, m)));
    going.forEach((m) => (this.#shown = Math.max(this.#shown, recordOf(m.metadata?.place ?? ""))));
    if (
      tools?.length &&
      loaded.some((m) => isOpen(m) && m.parts.some((p) => p.type.startsWith("tool-") && /** @type {ToolPart} */ (p).state === "input-available"))
    )
      this.#runTools();
    const unsent = merged.length > 0 && merged.at(-1) === here.at(-1) && !loaded.some((m) => m.id === merged.at(-1)?.id);
    if (chat.error instanceof ConnectionError) {
      if (unsent) await retry(chat);
      else chat.clearError();
    }
    if (going.length > 0 && (this.#more || news)) {
      this.#more = false;
      await chat.resumeStream();
    }
    if (chat.status === "error" && chat.error instanceof ConnectionError) throw chat.error;
    this.#set({ recovering: false });
  }

  loadOlder = () => (this.#loadingOlder ??= this.#loadOlder().finally(() => (this.#loadingOlder = undefined)));

  async #loadOlder() {
    const {
      client,
      chat,
      id,
      options: { tools, limit },
    } = this;
    const cursor = this.#previous;
    if (cursor === undefined) return;
    const { messages, previous } = await loadPage(client, id, { cursor, tools, limit });
    if (cursor !== this.#previous) return; // other messages are here now
    this.#previous = previous;
    chat.messages = [...messages, ...chat.messages];
    this.#set({ older: previous !== undefined });
  }

  async #runTools() {
    const {
      client,
      id,
      options: { onToolCall, tools = [], sender },
    } = this;
    if (!onToolCall) return;
    let calls;
    try {
      calls = (await client.approvals(id)).clientCalls;
    } catch {
      return; // the next event, or the next load, tries again
    }
    for (const call of calls.filter((c) => tools.includes(c.toolName) && !this.#ran.has(c.toolCallId))) {
      this.#ran.add(call.toolCallId);
      this.#runTool(call, onToolCall, sender);
    }
  }

  /** @param {components["schemas"]["ClientCall"]} call @param {NonNullable<UseThreadOptions["onToolCall"]>} onToolCall @param {string} [by] */
  async #runTool({ toolCallId, toolName, arguments: text }, onToolCall, by) {
    let output,
      isError = false;
    try {
      output = await onToolCall({ toolCall: { toolCallId, toolName, input: JSON.parse(text) } });
    } catch (error) {
      output = error instanceof Error ? error.message : String(error);
      isError = true;
    }
    if (output === undefined) return;
    try {
      await this.client.toolResult(this.id, toolCallId, { output, isError, by });
    } catch (error) {
      const { status = 0 } = /** @type {{ status?: number }} */ (error);
      if (status === 404 || status === 409) return; // another tab has answered
      this.#ran.delete(toolCallId);
      this.options.onError?.(/** @type {Error} */ (error));
    }
  }

  /** @param {ToolPart} part @param {Approval} [approval] */
  approve = (part, { scope, pattern, args, reason } = {}) => this.#decide(part, { decision: "approve", scope, pattern, args, reason });

  /** @param {ToolPart} part @param {string} [reason] */
  deny = (part, reason) => this.#decide(part, { decision: "deny", reason });

  /** @param {ToolPart} part @param {components["schemas"]["DecisionRequest"]} decision */
  #decide(part, decision) {
    const message = this.chat.messages.find((m) => m.parts.some((p) => isToolUIPart(p) && p.toolCallId === part.toolCallId));
    const round = message && requestOf(message, part)?.round;
    return this.client.decide(this.id, part.toolCallId, { ...decision, round, toolArgs: part.input, by: this.options.sender });
  }

  /** @param {ToolPart} part @param {Answer} answer */
  answer = (part, answer) => {
    const { toolCallId, round, questions } = /** @type {InputRequest} */ (part.input);
    const answers = "answers" in answer ? answer.answers : Object.fromEntries(questions.map((q) => [q.id, answer]));
    return this.client.answerInput(this.id, toolCallId, { round, answers, by: this.options.sender });
  };

  retry = () => retry(this.chat);

  stop = () => stop(this.client, this.id);
}

/** The record of a place in a thread. @param {string} place */
function recordOf(place) {
  return Number.parseInt(place, 10) || 0;
}

/** Whether the turn of a message goes on. @param {ThreadMessage} message */
function isOpen({ role, metadata }) {
  return role === "assistant" && metadata?.place !== undefined && !metadata.turn;
}

/**
 * The messages as they were loaded, after older ones that were not. What is the same stays the same object, with what is live only,
 * such as thoughts. An answer in progress has text here that is not stored yet. A message of the person that could not be sent stays.
 * @param {ThreadMessage[]} here @param {ThreadMessage[]} loaded @returns {ThreadMessage[]}
 */
function merge(here, loaded) {
  const byId = new Map(here.map((m) => [m.id, m]));
  const first = here.findIndex((m) => m.id === loaded[0]?.id);
  const out = [
    ...here.slice(0, Math.max(0, first)),
    ...loaded.map((m) => {
      const had = byId.get(m.id);
      if (!had) return m;
      if (sameParts(had, m)) return isDeepEqualData(plain(had.metadata), plain(m.metadata)) ? had : { ...had, metadata: m.metadata };
      return isOpen(m) && had.parts.length >= m.parts.length ? had : m;
    }),
  ];
  const last = here.at(-1);
  return last?.role === "user" && !last.metadata?.threadId && !loaded.some((m) => m.id === last.id) ? [...out, last] : out;
}

/** Whether two messages have the same, but for what is live only. @param {ThreadMessage} a @param {ThreadMessage} b */
function sameParts(a, b) {
  const [one, other] = [a, b].map(({ parts }) => plain(parts.filter((p) => p.type !== "reasoning" && p.type !== "data-reset")));
  return isDeepEqualData(one, other);
}

/** A stream that calls end when it is over. @template T @param {ReadableStream<T>} stream @param {() => void} end @returns {ReadableStream<T>} */
function ending(stream, end) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
      } catch (error) {
        end();
        controller.error(error);
      }
    },
    cancel(reason) {
      end();
      return reader.cancel(reason);
    },
  });
}

/** @param {unknown} value */
function plain(value) {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}
