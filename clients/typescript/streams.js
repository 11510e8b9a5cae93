// What the clients of chats share: connections that are cut, and waiting until they come back.

/** ConnectionError means that a response was cut, or that there was none. The turn goes on, and can be resumed. */
export class ConnectionError extends TypeError {
  /** @param {ErrorOptions} [options] */
  constructor(options) {
    super("The network connection was cut", options); // useChat looks for "network"
    this.name = "ConnectionError";
  }
}

/** A stream on which nothing arrives for this long is dead, in milliseconds: the server writes a comment every 15 s. */
const SILENCE = 40_000;

/** The longest wait before another attempt, in milliseconds. */
const MAX_WAIT = 15_000;

/** A reason why a connection ended, as a {@link ConnectionError} unless the client has ended it. @param {unknown} error */
export function cut(error) {
  return error instanceof Error && error.name === "AbortError" ? error : new ConnectionError({ cause: error });
}

/**
 * The bytes of a stream, and how it ends: complete says so of the last bytes as text, since a proxy may close a stream as if it
 * were complete. Without complete, the stream just ends.
 * @param {ReadableStream<Uint8Array<ArrayBufferLike>>} body
 * @param {(end: string) => boolean} [complete]
 * @returns {ReadableStream<Uint8Array<ArrayBufferLike>>}
 */
export function whole(body, complete) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let end = "";
  return new ReadableStream({
    async pull(controller) {
      const silence = setTimeout(() => reader.cancel().catch(() => {}), SILENCE);
      try {
        const { done, value } = await reader.read();
        if (!done) {
          end = (end + decoder.decode(value, { stream: true })).slice(-32);
          controller.enqueue(value);
        } else if (complete?.(end) ?? true) {
          controller.close();
        } else {
          throw new ConnectionError();
        }
      } catch (error) {
        const reason = cut(error);
        if (complete || !(reason instanceof ConnectionError)) controller.error(reason);
        else controller.close();
      } finally {
        clearTimeout(silence);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/**
 * Waits before another attempt: at first a quarter of a second, then longer, and spread, so that viewers do not return all at once.
 * The wait ends when the signal does, or when the browser is online again.
 * @param {number} failures @param {AbortSignal} signal @param {number} [retryAfter] in seconds, as the server said.
 */
export function backOff(failures, signal, retryAfter) {
  const ms = retryAfter ? retryAfter * 1000 : Math.min(MAX_WAIT, 250 * 2 ** failures) * (0.5 + Math.random() / 2);
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      globalThis.removeEventListener?.("online", done);
      resolve(undefined);
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    globalThis.addEventListener?.("online", done);
    if (signal.aborted) done();
  });
}
