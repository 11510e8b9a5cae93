import { HttpAgent } from "@ag-ui/client";

/**
 * An agent of AG-UI that is a thread. connectAgent() gets what the thread has, and goes on with the run
 * in progress: after a reload, after a cut, and in a second tab.
 */
export class ThreadAgent extends HttpAgent {
  connect(input) {
    return new HttpAgent({ url: `${this.url}/connect`, headers: this.headers, fetch: this.fetch }).run(input);
  }

  connectAgent(...options) {
    this.pendingInterrupts = []; // the thread says what it waits for
    return super.connectAgent(...options);
  }

  /** Stops the turn. abortRun() only closes the connection. */
  async stop() {
    const response = await fetch(new URL(`chat/${encodeURIComponent(this.threadId)}/stop`, this.url), { method: "POST", headers: this.headers });
    if (!response.ok && response.status !== 409) throw new Error(await response.text());
  }
}
