// The form that opens a thread.

import { everyAgent } from "./agentlist.js";
import { counter, offWhileLong } from "./counter.js";
import { act, button, fill, h } from "./dom.js";
import { guard } from "./leaving.js";
import { messageBytes } from "./limits.js";
import { myName, person } from "./person.js";
import { client, newId, server } from "./session.js";

class NewThread extends HTMLElement {
  #unguard = () => {};

  async connectedCallback() {
    const agents = h("div", { class: "choices" });
    const text = h("textarea", { rows: 4, "aria-label": "Message", placeholder: "What should they do?" });
    const unknown = h("p", { class: "hint", role: "status" });
    const id = newId();
    let uncertain = false; // whether an attempt may have opened the thread
    const title = h("input", { "aria-label": "Title", placeholder: "Title (optional)" });
    const open = button(
      "Open the thread",
      () =>
        act(open, async () => {
          const chosen = [...agents.querySelectorAll("input:checked")].map((i) => /** @type {HTMLInputElement} */ (i).value);
          const message = text.value.trim() === "" ? undefined : { content: text.value, sender: await person() };
          keep(true);
          try {
            await client.openThread({ id, title: title.value.trim() || undefined, agents: chosen.length > 0 ? chosen : undefined, message });
          } catch (error) {
            const { status } = /** @type {import("./client/threadmill.js").APIError} */ (error);
            // The id is this form's: 409 means that an attempt whose answer was lost has opened the thread.
            if (status !== 409) {
              const isUnknown = status === 0 || status >= 500;
              // What is refused for what it says was refused before as well.
              uncertain = isUnknown || (uncertain && ![400, 413, 422].includes(status));
              keep(uncertain);
              throw error;
            }
          }
          this.#unguard();
          location.hash = `#/threads/${id}`;
        }),
      { class: "primary" },
    );
    const titleLimit = counter(title, server.limits.title),
      size = (/** @type {string} */ content) => messageBytes({ threadId: id, sender: myName() || "x".repeat(server.limits.name), content }),
      textLimit = counter(text, server.limits.message, { size });
    /** Keeps the form as it was sent. @param {boolean} kept */
    const keep = (kept) => {
      title.readOnly = text.readOnly = kept;
      for (const choice of agents.querySelectorAll("input")) choice.disabled = kept;
      unknown.textContent = uncertain ? "The server may have opened the thread. Opening it again sends the same, and opens no second one." : "";
    };
    const enable = () => offWhileLong(open, [title, text]);
    title.addEventListener("input", enable);
    text.addEventListener("input", enable);
    const enter = (/** @type {KeyboardEvent} */ e) => {
      if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      if (!e.repeat) open.click();
    };
    title.addEventListener("keydown", enter);
    text.addEventListener("keydown", enter);
    fill(
      this,
      h(
        "div",
        { class: "new-thread" },
        h("h1", null, "New thread"),
        h("p", { class: "hint" }, "Choose one agent or several, or none for the default one."),
        agents,
        title,
        titleLimit.line,
        text,
        textLimit.line,
        unknown,
        h("div", { class: "row" }, open),
      ),
    );
    this.#unguard = guard(() => (text.value + title.value).trim() !== "");
    text.focus();
    await act(null, async () => {
      const list = await everyAgent();
      fill(
        agents,
        list.map((a) =>
          h(
            "label",
            { class: "choice-card" },
            h("input", { type: "checkbox", value: a.name }),
            h(
              "span",
              null,
              h("strong", null, a.name),
              a.default && h("span", { class: "badge" }, "default"),
              h("span", { class: "sub" }, a.description || a.model),
            ),
          ),
        ),
      );
    });
  }

  disconnectedCallback() {
    this.#unguard();
  }
}

customElements.define("tm-new-thread", NewThread);
