// A client of the Threadmill API for browsers and Node: requests, streams that resume, approvals.
// It needs nothing but fetch. The types of requests and responses are those of the OpenAPI document.

/** @import { components, paths } from "./api.js" */

/** @typedef {components["schemas"]["AgentEvent"] & { id?: string }} AgentEvent */
/** @typedef {components["schemas"]["Thread"]} Thread */
/** @typedef {components["schemas"]["MessagePost"]} MessagePost */
/** @typedef {components["schemas"]["PostResult"]} PostResult */
/** @typedef {components["schemas"]["DecisionRequest"]} DecisionRequest */
/** @typedef {components["schemas"]["DecideResult"]} DecideResult */
/** @typedef {components["schemas"]["EventPage"]} EventPage */
/** @typedef {components["schemas"]["ThreadPage"]} ThreadPage */
/** @typedef {components["schemas"]["ThreadCounts"]} ThreadCounts */
/** @typedef {components["schemas"]["Approvals"]} Approvals */
/** @typedef {components["schemas"]["Waiting"]} Waiting */
/** @typedef {components["schemas"]["Problem"]} Problem */

/**
 * @typedef {object} ClientOptions
 * @property {string} [baseURL] The address of the API. Default: the origin of the page.
 * @property {string | (() => string | undefined)} [token] The API key, or a function that returns it.
 * @property {typeof fetch} [fetch] Default: the global fetch.
 */

/**
 * @typedef {"connecting" | "open" | "waiting" | "closed"} StreamState
 * connecting: a request is sent; open: events arrive as they happen; waiting: the connection was lost
 * and is tried again; closed: the stream has ended and is not tried again, because its thread is closed,
 * the signal has ended it, or the server refused it, which is then the error.
 */

/**
 * @template E
 * @typedef {object} StreamOptions
 * @property {string} [lastEventId] The id of the last event that is known: the stream continues after it.
 * @property {AbortSignal} [signal] Ends the stream.
 * @property {(event: E, id: string) => void} onEvent
 * @property {(state: StreamState, error?: Error) => void} [onState]
 */

/** @typedef {Record<string, string | number | boolean | string[] | null | undefined>} Query */

/**
 * An operation of the API, such as "GET /v1/threads/{id}".
 * @typedef {{ [P in keyof paths]: { [M in keyof paths[P]]: paths[P][M] extends { responses: unknown } ? `${Uppercase<M & string>} ${P}` : never }[keyof paths[P]] }[keyof paths]} Route
 */

/**
 * @template {Route} R
 * @typedef {R extends `${infer M} ${infer P extends keyof paths}` ? paths[P][Lowercase<M> & keyof paths[P]] : never} Operation
 */

/**
 * What a route takes: the values of its path, its query and its body.
 * @template {Route} R
 * @typedef {(Operation<R> extends { parameters: { path: infer P } } ? { path: P } : { path?: undefined })
 *   & (Operation<R> extends { parameters: { query: infer Q } } ? { query: Q } : Operation<R> extends { parameters: { query?: infer Q } } ? { query?: Q } : unknown)
 *   & (Operation<R> extends { requestBody: { content: { "application/json": infer B } } } ? { body: B }
 *     : Operation<R> extends { requestBody?: { content: { "application/json": infer B } } } ? { body?: B } : { body?: undefined })
 *   & { signal?: AbortSignal }} RequestOptions
 */

/**
 * What a route answers with JSON.
 * @template {Route} R
 * @typedef {Operation<R> extends { responses: infer A } ? [keyof A & (200 | 201 | 202)] extends [never] ? undefined : JSONOf<A[keyof A & (200 | 201 | 202)]> : never} Answer
 */

/**
 * @template T
 * @typedef {T extends { content: { "application/json": infer B } } ? B : undefined} JSONOf
 */

/** The parameters whose arrays are sent with the name repeated. Those of others are joined with commas, as the OpenAPI document says. */
const REPEATED = new Set(["collection", "thread", "after"]);

/** APIError is the refusal of a request. Its message is the detail that the server gave. */
export class APIError extends Error {
  /** @param {number} status @param {Partial<Problem>} problem @param {number} [retryAfter] */
  constructor(status, problem, retryAfter) {
    const places = (problem.errors ?? []).map((e) => [e.location?.replace(/^(body|query|path)\./, ""), e.message].filter(Boolean).join(": "));
    super(places.length > 0 ? places.join("; ") : (problem.detail ?? problem.title ?? `The server answered ${status}`));
    this.name = "APIError";
    /** The status of the response. 0: there was none. */
    this.status = status;
    this.problem = problem;
    /** Seconds after which the request may be sent again, if the server said so. */
    this.retryAfter = retryAfter;
  }
}

/** The longest wait between two attempts to connect, in milliseconds. */
const MAX_WAIT = 15_000;

/** A stream on which nothing arrives for this long is dead: the server writes a comment every 15 s. */
const SILENCE = 40_000;

export class Client {
  /** @param {ClientOptions} [options] */
  constructor(options = {}) {
    this.baseURL = (options.baseURL ?? "").replace(/\/$/, "");
    this.token = options.token;
    this.fetch = options.fetch ?? ((...args) => fetch(...args));
  }

  /**
   * Sends a request and returns the JSON of the response.
   * @template {Route} R
   * @param {R} route Such as "GET /v1/threads/{id}", with the id in options.path.
   * @param {{} extends RequestOptions<R> ? [options?: RequestOptions<R>] : [options: RequestOptions<R>]} options
   * @returns {Promise<Answer<R>>}
   */
  async request(route, ...options) {
    const {
      path: values = {},
      body,
      query,
      signal,
    } = /** @type {{ path?: Record<string, string>, body?: unknown, query?: Query, signal?: AbortSignal }} */ (options[0] ?? {});
    const [method, template = ""] = /** @type {string} */ (route).split(" ");
    const path = template.replace(/\{(\w+)\}/g, (_, name) => {
      const value = values[name];
      if (!value) throw new TypeError(`${route}: path.${name} is missing`);
      return encodeURIComponent(value);
    });
    /** @type {Record<string, string>} */
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await this.#send(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) }, query);
    const text = await response.text();
    return text === "" ? /** @type {Answer<R>} */ (undefined) : JSON.parse(text);
  }

  /** The headers that carry the API key. @returns {Record<string, string>} */
  authorization() {
    const token = typeof this.token === "function" ? this.token() : this.token;
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  /**
   * @param {string} path
   * @param {RequestInit} init
   * @param {Query} [query]
   */
  async #send(path, init, query = {}) {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (Array.isArray(value) && REPEATED.has(name)) value.forEach((one) => params.append(name, one));
      else if (value !== undefined && value !== null && String(value) !== "") params.set(name, String(value));
    }
    init.headers = { ...init.headers, ...this.authorization() };
    const search = params.size > 0 ? `?${params}` : "";
    let response;
    try {
      response = await this.fetch(this.baseURL + path + search, init);
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new APIError(0, { detail: "The server cannot be reached" });
    }
    if (response.ok) return response;
    const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
    throw new APIError(response.status, problemIn(await response.text().catch(() => "")), retryAfter);
  }

  /**
   * Lists threads, the most recently active first, or with the sort attention those that wait or fail first.
   * @param {RequestOptions<"GET /v1/threads">["query"] & { signal?: AbortSignal }} [query]
   * @returns {Promise<ThreadPage>}
   */
  threads({ signal, ...query } = {}) {
    return this.request("GET /v1/threads", { query, signal });
  }

  /**
   * Counts threads by status and activity.
   * @param {RequestOptions<"GET /v1/thread-counts">["query"] & { signal?: AbortSignal }} [query]
   * @returns {Promise<ThreadCounts>}
   */
  threadCounts({ signal, ...query } = {}) {
    return this.request("GET /v1/thread-counts", { query, signal });
  }

  /**
   * Watches the list of threads: calls onEvent with each thread that was opened or changed.
   * @param {StreamOptions<Thread>} options
   * @returns {Promise<void>} When the signal has ended the stream.
   */
  watchThreads(options) {
    return this.#stream("/v1/threads", {}, options, () => false);
  }

  /** @param {string} id @returns {Promise<Thread>} */
  thread(id) {
    return this.request("GET /v1/threads/{id}", { path: { id } });
  }

  /**
   * Opens a thread. Posting to a thread that does not exist is refused.
   * @param {components["schemas"]["NewThread"]} thread
   * @returns {Promise<components["schemas"]["OpenedThread"]>}
   */
  openThread(thread) {
    return this.request("POST /v1/threads", { body: thread });
  }

  /**
   * Posts a message. With an id, a repeated post changes nothing.
   * @param {string} id The thread.
   * @param {MessagePost} message
   * @returns {Promise<PostResult>}
   */
  post(id, message) {
    return /** @type {Promise<PostResult>} */ (this.request("POST /v1/threads/{id}/messages", { path: { id }, body: message })); // without wait
  }

  /**
   * A page of the newest events, or of those before another page.
   * @param {string} id The thread.
   * @param {{ before?: string, limit?: number, signal?: AbortSignal }} [options] before: the previous of the page that follows.
   * @returns {Promise<EventPage>}
   */
  eventsBefore(id, { before = "end", limit = 200, signal } = {}) {
    return /** @type {Promise<EventPage>} */ (this.request("GET /v1/threads/{id}/events", { path: { id }, query: { before, limit }, signal })); // without view
  }

  /**
   * A page of the first events, or of those after another page.
   * @param {string} id The thread.
   * @param {{ cursor?: string, event?: string, limit?: number, signal?: AbortSignal }} [options] cursor: the next of the page that this one
   * follows, or the id of an event. event: the message, record or posted event with which a page without cursor begins.
   * @returns {Promise<EventPage>}
   */
  eventsAfter(id, { cursor, event, limit = 200, signal } = {}) {
    return /** @type {Promise<EventPage>} */ (this.request("GET /v1/threads/{id}/events", { path: { id }, query: { cursor, event, limit }, signal })); // without view
  }

  /**
   * Watches a thread, and resumes after each cut exactly where it was, until the thread is closed or
   * the signal ends the stream. A closed thread ends the stream as soon as everything was received.
   * @param {string} id The thread.
   * @param {StreamOptions<AgentEvent> & { from?: "start" | "now" }} options from: where it begins without lastEventId. Default: start.
   * @returns {Promise<void>}
   */
  watch(id, { from, ...options }) {
    const closes = (/** @type {AgentEvent} */ e) => e.type === "status" && e.status.status === "closed";
    return this.#stream(threadPath(id, "events"), from === undefined ? {} : { from }, options, closes);
  }

  /** @param {string} id @returns {Promise<Approvals>} */
  approvals(id) {
    return this.request("GET /v1/threads/{id}/approvals", { path: { id } });
  }

  /**
   * What waits for people or clients in all threads.
   * @param {RequestOptions<"GET /v1/approvals">["query"] & { signal?: AbortSignal }} [query]
   * @returns {Promise<Waiting>}
   */
  waiting({ signal, ...query } = {}) {
    return this.request("GET /v1/approvals", { query, signal });
  }

  /**
   * Decides on a tool call that waits.
   * @param {string} id The thread.
   * @param {string} toolCallId
   * @param {DecisionRequest} decision
   * @returns {Promise<DecideResult>}
   */
  decide(id, toolCallId, decision) {
    return this.request("POST /v1/threads/{id}/approvals/{toolCallId}", { path: { id, toolCallId }, body: decision });
  }

  /**
   * Answers a tool call that asks for input.
   * @param {string} id The thread.
   * @param {string} toolCallId
   * @param {components["schemas"]["InputAnswers"]} answers
   * @returns {Promise<DecideResult>}
   */
  answerInput(id, toolCallId, answers) {
    return this.request("POST /v1/threads/{id}/tool-calls/{toolCallId}/input", { path: { id, toolCallId }, body: answers });
  }

  /**
   * Sends the result of a tool that this client runs.
   * @param {string} id The thread.
   * @param {string} toolCallId
   * @param {components["schemas"]["ClientResult"]} result
   * @returns {Promise<DecideResult>}
   */
  toolResult(id, toolCallId, result) {
    return this.request("POST /v1/threads/{id}/tool-calls/{toolCallId}/result", { path: { id, toolCallId }, body: result });
  }

  /**
   * Says that somebody looks at a thread, and returns who else does. Repeat it every 10 seconds.
   * @param {string} id The thread.
   * @param {components["schemas"]["PresenceInputBody"]} viewer
   */
  presence(id, viewer) {
    return this.request("POST /v1/threads/{id}/presence", { path: { id }, body: viewer });
  }

  /**
   * Interrupts the turn of an event, or the current one.
   * @param {string} id The thread.
   * @param {components["schemas"]["Interrupt"]} [what]
   */
  interrupt(id, what = {}) {
    return this.request("POST /v1/threads/{id}/interrupt", { path: { id }, body: what });
  }

  /**
   * @template E
   * @param {string} path
   * @param {Record<string, string>} query
   * @param {StreamOptions<E>} options
   * @param {(event: E) => boolean} ends
   */
  async #stream(path, query, { lastEventId, signal, onEvent, onState = () => {} }, ends) {
    let last = lastEventId ?? "";
    let failures = 0;
    while (!signal?.aborted) {
      onState("connecting");
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      signal?.addEventListener("abort", stop);
      try {
        /** @type {Record<string, string>} */
        const headers = { Accept: "text/event-stream" };
        if (last !== "") headers["Last-Event-ID"] = last;
        const response = await this.#send(path, { headers, signal: attempt.signal, cache: "no-store" }, query);
        if (response.status === 204) return onState("closed");
        onState("open");
        for await (const { id, data } of serverSentEvents(response, stop)) {
          failures = 0;
          const event = JSON.parse(data);
          onEvent(event, id);
          if (id !== "") last = id;
          if (ends(event)) return onState("closed");
        }
        throw new APIError(0, { detail: "The connection was cut" });
      } catch (error) {
        if (signal?.aborted) break;
        if (error instanceof APIError && error.status >= 400 && error.status < 500 && error.status !== 429) {
          onState("closed", error);
          throw error;
        }
        onState("waiting", /** @type {Error} */ (error));
        const wait = error instanceof APIError && error.retryAfter ? error.retryAfter * 1000 : Math.min(MAX_WAIT, 250 * 2 ** failures);
        failures++;
        // The first attempts are quick; the others are spread, so that viewers do not return all at once.
        await sleep(failures > 1 ? wait * (0.5 + Math.random() / 2) : wait, signal);
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    }
    onState("closed");
  }

  /**
   * Follows at most 50 threads with one stream, until the signal ends it. Threads begin after an id of one of their own events,
   * such as the lastEventId of a page, or else with their first event.
   * @param {Record<string, string | undefined>} threads For each thread, that id.
   * @param {StreamOptions<components["schemas"]["FollowedEvent"]>} options
   * @returns {Promise<void>} When the signal has ended the stream, or no thread has more events.
   */
  follow(threads, options) {
    const query = new URLSearchParams();
    for (const [id, after] of Object.entries(threads)) {
      query.append("thread", id);
      query.append("after", after || "0");
    }
    return this.#stream(`/v1/events?${query}`, {}, options, () => false);
  }
}

/** The problem in the body of a refusal: a document, or the text that the routes of chats send. @param {string} body @returns {Partial<Problem>} */
function problemIn(body) {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return body !== "" && !body.startsWith("<") ? { detail: body } : {};
  }
}

/** @param {string} id @param {...string} rest */
function threadPath(id, ...rest) {
  return ["/v1/threads", ...[id, ...rest].map(encodeURIComponent)].join("/");
}

/**
 * Waits, at most until the signal ends it or the browser is online again.
 * @param {number} ms @param {AbortSignal} [signal]
 */
function sleep(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      globalThis.removeEventListener?.("online", done);
      resolve(undefined);
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    globalThis.addEventListener?.("online", done);
  });
}

/**
 * The server-sent events of a response. stop is called when nothing arrives any more: a connection
 * that a sleeping machine has lost does not end by itself.
 * @param {Response} response @param {() => void} stop
 * @returns {AsyncGenerator<{ id: string, data: string }>}
 */
async function* serverSentEvents(response, stop) {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "",
    id = "",
    data = "";
  let silence = setTimeout(stop, SILENCE);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(stop, SILENCE);
      const lines = (rest + value).split("\n");
      rest = /** @type {string} */ (lines.pop());
      for (const line of lines) {
        if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) data += (data === "" ? "" : "\n") + line.slice(6);
        else if (line === "" && data !== "") {
          yield { id, data };
          data = "";
        }
      }
    }
  } finally {
    clearTimeout(silence);
    reader.cancel().catch(() => {});
  }
}
