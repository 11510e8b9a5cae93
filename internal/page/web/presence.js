// Who else looks at a thread.

import { fill, h } from "./dom.js";
import { myName } from "./person.js";
import { presenceText } from "./presencetext.js";
import { client, server } from "./session.js";

/** How often the server is asked, in milliseconds. */
const EVERY = 10_000;

/** This window. */
const WINDOW = crypto.randomUUID?.() ?? String(Math.random()); // only pages of https and localhost have UUIDs

class Presence extends HTMLElement {
  threadId = "";
  #timer = 0;

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
    const others = await this.#ask(!visible);
    if (!this.isConnected || !this.text) return;
    const text = presenceText(others, server.name || myName());
    if (this.text.textContent !== text) fill(this.text, text);
    clearTimeout(this.#timer);
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
