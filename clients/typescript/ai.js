// Threads as chats of the AI SDK: a transport for useChat, and when it sends by itself what a person has answered.

import { DefaultChatTransport } from "ai";
import { ConnectionError, cut, whole } from "./streams.js";

export { ConnectionError };

/** @import { UIMessage, UIMessageChunk } from "ai" */
/** @import { Client } from "./threadmill.js" */
/** @import { components } from "./api.js" */

/** @typedef {components["schemas"]["UIMetadata"]} ThreadMetadata */
/** @typedef {UIMessage<ThreadMetadata, any>} ThreadMessage A message of a thread. */

/**
 * @typedef {object} ThreadTransportOptions
 * @property {Client} client It has the address and the token.
 * @property {string[]} [agents] The agents of a thread that is new. Default: the default agent.
 * @property {string} [title] The title of a thread that is new.
 * @property {string[]} [tools] The tools of the frontend: their parts are tool-<name>. Those of all others are dynamic-tool.
 * @property {string} [sender] Who writes and decides, without API keys. A decision needs a name. Default: user.
 * @property {6 | 7} [version] The major version of ai. Default: 7.
 * @property {object} [body] More fields of each POST /v1/chat, such as onBusy.
 */

/** A resumed stream begins with the whole message. It is shown once nothing has arrived for QUIET ms, after MOST ms at the latest. */
const QUIET = 50,
  MOST = 500;

/**
 * Calls and requests for approval that the server knows to be answered, by their ids. A message alone does not tell whether
 * this client has answered, or the server has told it of an answer.
 * @type {Set<string>}
 */
const answered = new Set();

/**
 * ThreadTransport connects a chat of the AI SDK to a thread, whose id is that of the chat.
 * @template {UIMessage} [M=ThreadMessage]
 * @extends {DefaultChatTransport<M>}
 */
export class ThreadTransport extends DefaultChatTransport {
  /** @param {ThreadTransportOptions} options */
  constructor({ client, agents, title, tools, sender, version = 7, body }) {
    super({
      api: `${client.baseURL}/v1/chat`,
      headers: () => client.authorization(),
      body: { ...body, agents, title, tools, sender, version },
      fetch: /** @type {typeof fetch} */ (
        async (url, init) => {
          let response;
          try {
            response = await client.fetch(url, init);
          } catch (error) {
            throw cut(error);
          }
          // A stream that cannot be resumed now can be later. The answer to a post is the person's to read.
          if (init?.method === "GET" && (response.status >= 500 || response.status === 429)) throw new ConnectionError();
          return response;
        }
      ),
      prepareReconnectToStreamRequest: ({ api, id }) => ({ api: `${api}/${encodeURIComponent(id)}/stream?version=${version}` }),
    });
  }

  /** @type {DefaultChatTransport<M>["sendMessages"]} */
  async sendMessages(options) {
    const meant = options.messages.find((m) => m.id === options.messageId);
    if (options.trigger !== "submit-message" || !meant || (meant.role === "user" && !isKnown(meant))) return super.sendMessages(options);
    // The server reads the last message: it has to be the one with the answers.
    const ready = isReady(meant) ? meant : (options.messages.find(isReady) ?? meant);
    const keys = unsent(ready);
    keys.forEach((key) => answered.add(key));
    try {
      const stream = await super.sendMessages({
        ...options,
        messageId: ready.id,
        messages: [...options.messages.slice(0, options.messages.indexOf(ready)), ready],
      });
      if (ready === meant) return stream;
      // The SDK would write this stream into the message that it meant. What follows is shown when the chat is resumed.
      await stream.cancel();
      return new ReadableStream({ start: (controller) => controller.close() });
    } catch (error) {
      keys.forEach((key) => answered.delete(key));
      throw error;
    }
  }

  /** @type {DefaultChatTransport<M>["reconnectToStream"]} */
  async reconnectToStream(options) {
    const stream = await super.reconnectToStream(options);
    return stream && together(stream);
  }

  /**
   * @param {ReadableStream<Uint8Array<ArrayBufferLike>>} stream
   * @returns {ReadableStream<UIMessageChunk>}
   */
  processResponseStream(stream) {
    return super.processResponseStream(whole(stream, (end) => end.trimEnd().endsWith("data: [DONE]"))).pipeThrough(
      new TransformStream({
        transform(chunk, controller) {
          note(chunk);
          controller.enqueue(chunk);
        },
      }),
    );
  }
}

/**
 * Whether a chat sends by itself: something in a message was answered here and is not sent yet, and everything that waits in the
 * last step of that message is answered. It is for useChat and a {@link ThreadTransport}.
 * @param {{ messages: UIMessage[] }} chat
 */
export function sendAutomaticallyWhen({ messages }) {
  return messages.some(isReady);
}

/**
 * Loads the messages of a thread, for useChat. There are none of a thread that does not exist.
 * @param {Client} client
 * @param {string} id The thread.
 * @param {{ tools?: string[], limit?: number, signal?: AbortSignal }} [options] tools: as those of the transport; limit: the most
 * messages from the thread's end, at most 200. Default: 50.
 * @returns {Promise<ThreadMessage[]>}
 */
export async function loadMessages(client, id, options) {
  return (await loadPage(client, id, options)).messages;
}

/**
 * Loads a page of the messages of a thread, for useChat.
 * @param {Client} client
 * @param {string} id The thread.
 * @param {{ cursor?: string, tools?: string[], limit?: number, signal?: AbortSignal }} [options] cursor: the previous of the page that
 * follows, by default the newest messages; the others as those of {@link loadMessages}.
 * @returns {Promise<{ messages: ThreadMessage[], previous?: string }>} previous: the cursor of the previous page, if there is one.
 */
export async function loadPage(client, id, { signal, ...query } = {}) {
  /** @type {{ messages: ThreadMessage[], previous?: string }} */
  let page;
  try {
    page = /** @type {typeof page} */ (await client.request("GET /v1/chat/{id}/messages", { path: { id }, query, signal }));
  } catch (error) {
    if (/** @type {{ status?: number }} */ (error).status === 404) return { messages: [] };
    throw error;
  }
  for (const part of page.messages.flatMap((m) => m.parts)) {
    const key = answerOf(part);
    if (key) answered.add(key);
  }
  return page;
}

/**
 * Stops the turn of a thread. stop() of the AI SDK only closes the connection.
 * @param {Client} client
 * @param {string} id The thread.
 * @returns {Promise<void>}
 */
export async function stop(client, id) {
  await client.request("POST /v1/chat/{id}/stop", { path: { id } });
}

/**
 * Tries again after an error. A message that the thread does not have is sent, a turn that failed is run again, and an answer
 * that there is already is shown: nothing is posted twice.
 * @param {{ messages: UIMessage[], regenerate: (options?: { body?: object }) => Promise<void>, sendMessage: (message: any) => Promise<void> }} chat
 * @returns {Promise<void>}
 */
export function retry(chat) {
  const last = chat.messages.at(-1);
  if (last?.role === "user" && !isKnown(last)) return chat.sendMessage({ ...last, messageId: last.id });
  return chat.regenerate();
}

/**
 * Has the last message of the person answered again, also if it was answered: the thread keeps both.
 * @param {{ regenerate: (options?: { body?: object }) => Promise<void> }} chat
 * @returns {Promise<void>}
 */
export function regenerate(chat) {
  return chat.regenerate({ body: { again: true } });
}

/** Whether a message is one that was loaded. @param {UIMessage} message */
function isKnown(message) {
  return /** @type {ThreadMetadata | undefined} */ (message.metadata)?.threadId !== undefined;
}

/** The key of the answer that a part has, if any. @param {any} part @returns {string | undefined} */
function answerOf(part) {
  switch (part.state) {
    case "approval-responded":
      return part.approval?.id && `approval ${part.approval.id}`;
    case "output-available":
    case "output-error":
      return part.toolCallId && `output ${part.toolCallId}`;
  }
  return undefined;
}

/** @param {UIMessage} message @returns {string[]} */
function unsent(message) {
  const { turn } = /** @type {ThreadMetadata} */ (message.metadata ?? {});
  if (message.role !== "assistant" || turn) return [];
  return message.parts
    .map(answerOf)
    .filter((key) => key !== undefined && !answered.has(key))
    .map(String);
}

/** @param {UIMessage} message */
function isReady(message) {
  if (unsent(message).length === 0) return false;
  const step = message.parts.slice(message.parts.findLastIndex((p) => p.type === "step-start") + 1);
  return !step.some((part) => ["approval-requested", "input-available", "input-streaming"].includes(/** @type {{ state?: string }} */ (part).state ?? ""));
}

/** Notes what the server says of answers. @param {any} chunk */
function note(chunk) {
  switch (chunk.type) {
    case "tool-input-available": // the client is to run it, also if it has done so too early
      return answered.delete(`output ${chunk.toolCallId}`);
    case "tool-output-available":
    case "tool-output-error":
      return answered.add(`output ${chunk.toolCallId}`);
    case "tool-approval-request":
      return answered.delete(`approval ${chunk.approvalId}`);
    case "tool-approval-response":
      return answered.add(`approval ${chunk.approvalId}`);
  }
}

/**
 * The chunks of a stream, the first ones together: a message that is begun again is not shown before it is as long as it was.
 * @param {ReadableStream<UIMessageChunk>} stream
 * @returns {ReadableStream<UIMessageChunk>}
 */
function together(stream) {
  /** @type {UIMessageChunk[] | undefined} */
  let held = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let since = 0;
  /** @param {TransformStreamDefaultController<UIMessageChunk>} controller */
  const release = (controller) => {
    clearTimeout(timer);
    const chunks = held ?? [];
    held = undefined;
    try {
      chunks.forEach((chunk) => controller.enqueue(chunk));
    } catch {
      // nobody reads it any more
    }
  };
  return stream.pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        if (!held) return controller.enqueue(chunk);
        held.push(chunk);
        if (held.length === 1) return; // the beginning comes before the rest is read
        since ||= Date.now();
        clearTimeout(timer);
        timer = setTimeout(() => release(controller), Math.max(0, Math.min(QUIET, since + MOST - Date.now())));
      },
      flush: release,
    }),
  );
}
