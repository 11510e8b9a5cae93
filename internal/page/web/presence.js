// Who else looks at a thread.

import { fill, h } from "./dom.js";
import { myName } from "./person.js";
import { presenceText } from "./presencetext.js";
import { client, newId, server } from "./session.js";

/** How often the server is asked, in milliseconds. */
const EVERY = 10_000;

/** This window. */
const WINDOW = newId();

class Presence extends HTMLElement {
  threadId = "";
  #timer = 0;
  /** Counts the requests: only the response to the last one is shown. */
  #asked = 0;

  connectedCallback() {
    this.text = h("span", { role: "status" });
    fill(this, this.text);
    this.changed = () => this.#see();
    document.addEventListener("visibilitychange", this.changed);
    this.#see();
  }

  disconnectedCallback() {
    document.removeEventListener("visibilitychange", /** @type {() => void} */ (this.changed));
    clearTimeout(this.#timer);
    this.#ask(true);
  }

  async #see() {
    clearTimeout(this.#timer);
    const visible = document.visibilityState === "visible";
    const asked = ++this.#asked;
    const others = await this.#ask(!visible);
    if (!this.isConnected || !this.text || asked !== this.#asked) return;
    const text = presenceText(others, server.name || myName());
    if (this.text.textContent !== text) fill(this.text, text);
    if (visible) this.#timer = window.setTimeout(() => this.#see(), EVERY);
  }

  /** Says whether this window shows the thread. @param {boolean} left @returns {Promise<string[]>} The names of the others, none if they are unknown. */
  async #ask(left) {
    const by = server.name ? undefined : myName() || "somebody";
    try {
      return (await client.presence(this.threadId, { id: WINDOW, by, left })).others.map(({ name }) => name);
    } catch {
      return []; // it is asked again soon, and nothing depends on it
    }
  }
}

customElements.define("tm-presence", Presence);
