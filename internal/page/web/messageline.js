// A message in a thread.

import { entityAddress } from "./addresses.js";
import { fill, h, hue, time } from "./dom.js";
import { GrowingText } from "./growing.js";
import { actions, retry } from "./lineactions.js";
import { markdown } from "./markdown.js";
import { passageName } from "./passages.js";
import { tookText } from "./took.js";

/** @import { Context } from "./lineactions.js" */
/** @import { Line, Retrieval } from "./timeline.js" */

export class MessageLine {
  #element;
  #who = h("strong", { class: "who" });
  #when = h("span", { class: "when" });
  #thought = h("pre", { class: "thought-text", tabIndex: 0 });
  #thoughts = h("details", { class: "thought", hidden: true }, h("summary", { onclick: () => (this.#touched = true) }, "Thoughts"), this.#thought);
  #body = h("div", { class: "body" });
  #sources = h("details", { class: "sources", hidden: true });
  #foot = h("div", { class: "foot" });
  #growingThought = new GrowingText(this.#thought);
  #growingBody = new GrowingText(this.#body);
  /** Whether the person has opened or closed the thoughts. */
  #touched = false;
  /** The text that is shown as Markdown. @type {string | undefined} */
  #source;
  /** @type {Retrieval | undefined} */
  #found;

  /** @param {HTMLElement} element */
  constructor(element) {
    this.#element = element;
    fill(element, h("header", null, this.#who, this.#when), this.#thoughts, this.#body, this.#sources, this.#foot);
  }

  /** @param {Line} line @param {Context} context */
  show(line, context) {
    this.#element.className = `line message ${line.role} ${line.state}`;
    if (line.agent) this.#element.classList.add(`hue-${hue(line.agent)}`);
    fill(this.#who, line.agent ?? line.sender ?? line.role);
    const took = tookText(line);
    fill(this.#when, took && h("span", { class: "took", title: took.detail }, took.text), time(line.createdAt), actions(line, context));
    this.#thoughts.hidden = !line.thought;
    if (line.thought) {
      this.#growingThought.show(line.thought);
      // Thoughts are open while there is nothing else to read.
      if (!this.#touched) this.#thoughts.open = line.state === "streaming" && !line.text;
    }
    const text = line.text ?? "";
    if (line.state === "streaming" || line.state === "failed") {
      this.#body.setAttribute("data-text", "");
      this.#growingBody.show(text);
      this.#source = undefined;
    } else if (this.#source !== text) {
      this.#source = text;
      markdown(this.#body, text);
    }
    this.#showSources(line.found);
    fill(
      this.#foot,
      line.state === "streaming" && !line.text && !line.thought && h("span", { class: "hint" }, "…"),
      line.state === "interrupted" && h("span", { class: "badge" }, "interrupted"),
      line.error && h("p", { class: "error", role: "alert" }, line.error),
      (line.error || line.state === "failed") && retry(line, context),
    );
  }

  /** Unfolds what has a text. */
  reveal() {}

  /** Shows what an agent was given: passages, which its reply may cite by their numbers, and facts. @param {Retrieval} [found] */
  #showSources(found) {
    if (this.#found === found) return;
    this.#found = found;
    const passages = found?.passages ?? [],
      facts = found?.facts ?? [];
    this.#sources.hidden = passages.length + facts.length === 0;
    fill(
      this.#sources,
      h("summary", null, [passages.length > 0 && `Sources (${passages.length})`, facts.length > 0 && `Known (${facts.length})`].filter(Boolean).join(", ")),
      found?.warning && h("p", { class: "hint" }, found.warning),
      passages.length > 0 &&
        h(
          "ol",
          null,
          passages.map((p) => h("li", null, passageName(p), h("pre", { class: "prose", tabIndex: 0 }, p.text))),
        ),
      facts.length > 0 &&
        h(
          "ul",
          null,
          facts.map((f) => h("li", null, h("a", { href: entityAddress(f.entity), class: "title" }, f.name), ` (${f.type}): ${f.text}`)),
        ),
    );
  }
}
