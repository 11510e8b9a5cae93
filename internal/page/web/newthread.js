// The form that opens a thread.

import { act, button, fill, h } from "./dom.js";
import { person } from "./person.js";
import { client } from "./session.js";

class NewThread extends HTMLElement {
  async connectedCallback() {
    const agents = h("div", { class: "choices" });
    const text = h("textarea", { rows: 4, "aria-label": "Message", placeholder: "What should they do?" });
    const title = h("input", { "aria-label": "Title", placeholder: "Title (optional)", maxLength: 400 });
    const open = button(
      "Open the thread",
      () =>
        act(open, async () => {
          const chosen = [...agents.querySelectorAll("input:checked")].map((i) => /** @type {HTMLInputElement} */ (i).value);
          const message = text.value.trim() === "" ? undefined : { content: text.value, sender: await person() };
          const thread = await client.openThread({ title: title.value.trim() || undefined, agents: chosen.length > 0 ? chosen : undefined, message });
          location.hash = `#/threads/${encodeURIComponent(thread.id)}`;
        }),
      { class: "primary" },
    );
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
        text,
        h("div", { class: "row" }, open),
      ),
    );
    text.focus();
    await act(null, async () => {
      const list = (await client.request("GET /v1/agents")).agents;
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
}

customElements.define("tm-new-thread", NewThread);
