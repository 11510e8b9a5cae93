// A person or a thing: what messages say, how it is related, and what was merged into it.

import { entitiesAddress, entityAddress, lineAddress } from "./addresses.js";
import { APIError } from "./client/threadmill.js";
import { confirmed } from "./dialog.js";
import { plural } from "./documentparts.js";
import { act, button, fill, h, notify, time } from "./dom.js";
import { chooseEntity } from "./merging.js";
import { person } from "./person.js";
import { client, may } from "./session.js";
import { loading } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["EntityView"]} Entity */
/** @typedef {components["schemas"]["EntityMerge"]} Merge */
/** @typedef {components["schemas"]["Mention"]} Mention */
/** @typedef {components["schemas"]["Relation"]} Relation */

class EntityView extends HTMLElement {
  /** The id of the entity. */
  entity = "";

  #next = "";
  #aborted = new AbortController();
  #about = h("div");
  #count = h("h3");
  #mentions = h("ul", { class: "rows", "aria-label": "Mentions" });
  #more = button("Show more", () => act(this.#more, () => this.#readMentions()), { class: "quiet", hidden: true });

  connectedCallback() {
    fill(this, h("p", null, h("a", { href: entitiesAddress() }, "‹ People and things")), this.#about);
    fill(this.#about, loading());
    this.#read();
  }

  disconnectedCallback() {
    this.#aborted.abort();
  }

  async #read() {
    const { signal } = this.#aborted;
    try {
      /** @type {Entity} */
      const e = await client.request("GET /v1/entities/{id}", { path: { id: this.entity }, signal });
      document.title = `${e.name} · Threadmill`;
      this.#show(e);
      this.#next = "";
      fill(this.#mentions);
      await this.#readMentions();
    } catch (error) {
      if (signal.aborted) return;
      const absent = error instanceof APIError && error.status === 404;
      fill(
        this.#about,
        absent
          ? h(
              "div",
              { class: "empty", role: "status" },
              h("h2", null, "Nobody knows of it any more"),
              h("p", { class: "hint" }, "Somebody deleted it, or the link is wrong."),
            )
          : h(
              "p",
              { class: "error", role: "alert" },
              /** @type {Error} */ (error).message,
              " ",
              button("Try again", () => this.#read(), { class: "quiet" }),
            ),
      );
    }
  }

  /** @param {Entity} e */
  #show(e) {
    fill(this.#count, plural(e.mentions, "mention"));
    fill(
      this.#about,
      h(
        "section",
        { class: "card wide" },
        h("h2", null, e.name, " ", h("span", { class: "badge" }, e.type)),
        e.id !== this.entity && h("p", { class: "hint" }, "What the link names was merged into it."),
        e.aliases.length > 0 && h("p", null, h("span", { class: "hint" }, "Also "), e.aliases.join(", ")),
        e.descriptions.length > 0 &&
          h(
            "ul",
            { class: "plain" },
            e.descriptions.map((text) => h("li", null, text)),
          ),
        h("p", { class: "hint" }, "Found ", time(e.createdAt), e.mentionedAt && [" · mentioned last ", time(e.mentionedAt)]),
        may("operate") &&
          h(
            "div",
            { class: "row" },
            button("Merge into another…", () => this.#merge(e), { class: "quiet" }),
            button("Delete…", () => this.#delete(e), { class: "quiet danger" }),
          ),
      ),
      e.relations.length > 0 && [
        h("h3", null, "Relations"),
        h(
          "ul",
          { class: "plain" },
          e.relations.map((r) => relation(r, e.id)),
        ),
      ],
      e.merges.length > 0 && [
        h("h3", null, "Merges"),
        h(
          "ul",
          { class: "plain" },
          e.merges.map((m) => this.#mergeRow(m, e.id)),
        ),
      ],
      [this.#count, this.#mentions, this.#more],
    );
  }

  async #readMentions() {
    const page = await client.request("GET /v1/entities/{id}/mentions", {
      path: { id: this.entity },
      query: { cursor: this.#next },
      signal: this.#aborted.signal,
    });
    this.#mentions.append(...page.mentions.map(mention));
    this.#next = page.next ?? "";
    this.#more.hidden = this.#next === "";
    this.#mentions.hidden = this.#mentions.childElementCount === 0;
  }

  /** @param {Merge} m @param {string} id The entity that is shown. */
  #mergeRow(m, id) {
    const name = (/** @type {string} */ one, /** @type {string | undefined} */ label) =>
      one === id ? h("strong", null, label || one) : h("a", { href: entityAddress(one) }, label || one);
    const undo = () =>
      act(null, async () => {
        if (
          !(await confirmed(
            `Undo the merge of ${m.fromName || m.from}?`,
            `It is a separate entry again, with its own mentions, as before it was merged into ${m.intoName || m.into}.`,
            "Undo it",
          ))
        )
          return;
        await client.request("POST /v1/entity-merges/{id}/undo", { path: { id: m.id }, body: { by: await person() } });
        notify("The merge is undone.");
        await this.#read();
      });
    return h(
      "li",
      null,
      h(
        "div",
        { class: "row" },
        h(
          "span",
          { class: "grow" },
          name(m.from, m.fromName),
          " merged into ",
          name(m.into, m.intoName),
          h("span", { class: "hint" }, " by ", decided(m), m.similarity && `, similarity ${m.similarity.toFixed(3)}`, " · ", time(m.at)),
          m.undoneAt && h("span", { class: "hint" }, " · undone", m.undoneBy && ` by ${m.undoneBy}`, ", ", time(m.undoneAt)),
        ),
        m.undoneAt
          ? h("span", { class: "badge" }, "undone")
          : may("operate") && button("Undo…", undo, { class: "quiet", "aria-label": `Undo the merge of ${m.fromName || m.from}` }),
      ),
    );
  }

  /** @param {Entity} e */
  async #merge(e) {
    const into = await chooseEntity(e);
    if (!into) return;
    await act(null, async () => {
      await client.request("POST /v1/entities/{id}/merge", { path: { id: e.id }, body: { into: into.id, by: await person() } });
      notify(`${e.name} is merged into ${into.name}.`);
      location.hash = entityAddress(into.id);
    });
  }

  /** @param {Entity} e */
  async #delete(e) {
    if (
      !(await confirmed(
        `Delete ${e.name}?`,
        "With it go its mentions, its relations and what was merged into it. Messages stay. A later message that mentions it makes a new entry.",
        "Delete it",
      ))
    )
      return;
    await act(null, async () => {
      await client.request("DELETE /v1/entities/{id}", { path: { id: e.id } });
      notify(`${e.name} is deleted.`);
      location.hash = entitiesAddress();
    });
  }
}

/** Who decided a merge. @param {Merge} m */
const decided = (m) => (m.by === "threshold" ? "the threshold" : m.by);

/** @param {Relation} r @param {string} id The entity that is shown. */
function relation(r, id) {
  const other = r.from === id ? { id: r.to, name: r.toName } : { id: r.from, name: r.fromName };
  return h(
    "li",
    null,
    h("span", { class: "hint" }, `${r.type.replaceAll("_", " ")} `),
    h("a", { href: entityAddress(other.id) }, other.name || other.id),
    r.reason && ` — ${r.reason}`,
    h("span", { class: "hint" }, " · ", time(r.at)),
  );
}

/** @param {Mention} m */
function mention(m) {
  const thread = m.sourceType === "message" ? lineAddress(m.thread, `m:${m.sourceId}`) : `#/threads/${encodeURIComponent(m.thread)}`;
  return h(
    "li",
    null,
    h("div", { class: "name" }, h("span", null, m.text || m.name)),
    h("span", { class: "hint figures" }, m.sourceType),
    h("span", { class: "hint when" }, time(m.at)),
    h("p", { class: "from hint" }, "in ", m.thread ? h("a", { href: thread }, m.thread) : m.sourceId, ` as ${m.name}`),
  );
}

customElements.define("tm-entity", EntityView);
