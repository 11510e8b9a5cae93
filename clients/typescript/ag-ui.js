// A thread as an agent of AG-UI, which comes back by itself after a cut.

import { HttpAgent } from "@ag-ui/client";
import { backOff, whole } from "./streams.js";

/** @import { AgentSubscriber, HttpAgentConfig, RunAgentParameters, RunAgentResult } from "@ag-ui/client" */
/** @import { APIError, Client } from "./threadmill.js" */

/** @typedef {{ client: Client, sender?: string, agents?: string[], title?: string } & Omit<HttpAgentConfig, "url" | "headers" | "fetch">} ThreadAgentConfig
 * client: it has the address and the token. sender: who writes and decides, without API keys; a decision needs a name. agents, title: those of a
 * thread that is new; default: the default agent, and a title that is generated, if at all. threadId: the thread, which is opened with the first message.
 */

/**
 * ThreadAgent is an agent of AG-UI that is a thread. connectAgent() gets what the thread has, and goes on with the run in progress: after a
 * reload, and in a second tab. A thread that does not exist yet has nothing. A run that is cut is resumed, with back-off, until it has ended or abortRun() is called.
 */
export class ThreadAgent extends HttpAgent {
  /** @param {ThreadAgentConfig} config */
  constructor({ client, sender, agents, title, ...config }) {
    super({
      ...config,
      url: `${client.baseURL}/v1/ag-ui`,
      fetch: async (url, init) => {
        let response;
        try {
          response = await client.fetch(url, { ...init, headers: { .../** @type {Record<string, string>} */ (init.headers), ...client.authorization() } });
        } catch {
          return nothing();
        }
        if (response.status === 429 || response.status >= 500) return nothing();
        if (response.status === 404 && url.endsWith("/connect")) {
          const problem = await response.text(); // another server has no such path
          return problem.startsWith("there is no thread") ? empty(JSON.parse(/** @type {string} */ (init.body))) : new Response(problem, response);
        }
        return response.ok && response.body ? new Response(whole(response.body).pipeThrough(events()), response) : response;
      },
    });
    this.client = client;
    this.forwardedProps = { sender, agents, title };
    /** What abortRun() ends: all attempts. @type {AbortController} */
    this.following = new AbortController();
  }

  /**
   * @param {Parameters<HttpAgent["runAgent"]>[0]} [parameters]
   * @param {AgentSubscriber} [subscriber]
   * @returns {Promise<RunAgentResult>}
   */
  runAgent(parameters, subscriber) {
    const all = { ...parameters, forwardedProps: { ...this.forwardedProps, ...parameters?.forwardedProps } };
    return this.follow((s) => super.runAgent(all, s), subscriber);
  }

  /**
   * @param {RunAgentParameters} [parameters]
   * @param {AgentSubscriber} [subscriber]
   * @returns {Promise<RunAgentResult>}
   */
  connectAgent(parameters, subscriber) {
    return this.follow((s) => this.reconnect(s, parameters), subscriber);
  }

  /** Stops the turn. abortRun() only closes the connection. @returns {Promise<void>} */
  async stop() {
    try {
      await this.client.request("POST /v1/chat/{id}/stop", { path: { id: this.threadId } });
    } catch (error) {
      if (/** @type {APIError} */ (error).status !== 409) throw error; // it has ended
    }
  }

  abortRun() {
    this.following.abort();
    super.abortRun();
  }

  /**
   * Leaves the run, which goes on without this agent. Whoever uses several runs of an agent leaves one before the next, as CopilotKit does.
   * @returns {Promise<void>}
   */
  async detachActiveRun() {
    const { abortController } = this;
    this.following.abort();
    await super.detachActiveRun();
    abortController.abort(); // the client of AG-UI leaves the connection open
  }

  /** @returns {ThreadAgent} */
  clone() {
    const { client, forwardedProps } = this;
    return Object.assign(/** @type {ThreadAgent} */ (super.clone()), { client, forwardedProps, following: new AbortController() });
  }

  /** @protected @type {HttpAgent["run"]} */
  connect(input) {
    const one = new HttpAgent({ url: `${this.url}/connect`, headers: this.headers, fetch: this.fetch });
    one.abortController = this.abortController;
    return one.run(input);
  }

  /** @protected @param {AgentSubscriber} [subscriber] @param {RunAgentParameters} [parameters] */
  reconnect(subscriber, parameters) {
    this.abortController = new AbortController();
    this.pendingInterrupts = []; // the thread tells what it waits for
    return super.connectAgent(parameters, subscriber);
  }

  /**
   * Makes attempts until a run has ended. One that has not begun may be repeated: messages and answers count once.
   * @protected
   * @param {(subscriber: AgentSubscriber) => Promise<RunAgentResult>} begin
   * @param {AgentSubscriber} [subscriber]
   * @returns {Promise<RunAgentResult>}
   */
  async follow(begin, subscriber) {
    const { signal } = (this.following = new AbortController());
    const known = new Set(this.messages.map((m) => m.id));
    let begun = false,
      ended = false;
    /** @type {AgentSubscriber} */
    const watching = Object.assign(Object.create(subscriber ?? null), {
      /** @param {Parameters<NonNullable<AgentSubscriber["onEvent"]>>[0]} params */
      onEvent(params) {
        begun = true;
        ended ||= params.event.type === "RUN_FINISHED" || params.event.type === "RUN_ERROR";
        return subscriber?.onEvent?.(params);
      },
    });
    for (let failures = 0; ; failures++) {
      const { result } = await (begun ? this.reconnect(watching) : begin(watching));
      if (ended || signal.aborted) return { result, newMessages: this.messages.filter((m) => !known.has(m.id)) };
      await backOff(failures, signal);
      if (signal.aborted) return { result, newMessages: this.messages.filter((m) => !known.has(m.id)) };
    }
  }
}

/** Passes whole events only: the client of AG-UI takes the beginning of one that was cut for a mistake. */
function events() {
  /** @type {Uint8Array<ArrayBufferLike>} */
  let rest = new Uint8Array();
  return new TransformStream({
    /** @param {Uint8Array<ArrayBufferLike>} piece @param {TransformStreamDefaultController<Uint8Array<ArrayBufferLike>>} controller */
    transform(piece, controller) {
      const all = new Uint8Array(rest.length + piece.length);
      all.set(rest);
      all.set(piece, rest.length);
      let end = all.length;
      while (end > 0 && !(all[end - 1] === 10 && all[end - 2] === 10)) end--;
      if (end > 0) controller.enqueue(all.slice(0, end));
      rest = all.slice(end);
    },
  });
}

/** The response for a thread that does not exist yet: a run in which nothing happens. @param {{ threadId: string, runId: string }} input */
function empty({ threadId, runId }) {
  const run = [
    { type: "RUN_STARTED", threadId, runId },
    { type: "RUN_FINISHED", threadId, runId },
  ];
  return new Response(run.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""), { headers: { "Content-Type": "text/event-stream" } });
}

/** The response of a server that cannot be reached: a stream that ends before anything has come. */
function nothing() {
  return new Response(new ReadableStream({ start: (controller) => controller.close() }), { headers: { "Content-Type": "text/event-stream" } });
}
