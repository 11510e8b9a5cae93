// Schedules: listed with how their runs ended, one shown with its times, edited in a form, paused, run and deleted.

import { confirmed } from "./dialog.js";
import { act, ago, button, facts, fill, h, notify, pretty, time } from "./dom.js";
import { definition, find, remove, store, versionsOf } from "./schedulestore.js";
import { client, may } from "./session.js";
import { empty, shows } from "./states.js";

/** @import { components } from "./client/api.js" */
/** @import { Doc, Stored } from "./draft.js" */
/** @import { Version } from "./versions.js" */
/** @import { Editing } from "./form.js" */
/** @typedef {components["schemas"]["Schedule"]} Schedule */

/** How a run ended. @type {Record<string, string>} */
const ENDED = {
  running: "is in progress",
  completed: "posted",
  failed: "failed",
  timed_out: "took too long",
  canceled: "was canceled",
  terminated: "was terminated",
};

/** What a new schedule has at first. */
const INITIAL = { threadId: "", cron: ["0 9 * * 1-5"], open: true, message: { content: "" } };

/** The address of a schedule. @param {string} id @param {"edit"} [what] */
const address = (id, what) => `#/schedules/${encodeURIComponent(id)}${what ? `?${what}` : ""}`;

class Schedules extends HTMLElement {
  /** The schedule that is shown, or "". */
  item = "";
  query = new URLSearchParams();
  #place = h("div");

  connectedCallback() {
    const making = this.item === "" && this.query.has("new");
    fill(
      this,
      h(
        "header",
        { class: "page-header" },
        h("h1", null, this.item || making ? h("a", { href: "#/schedules" }, "Schedules") : "Schedules"),
        may("operate") && !this.item && !making && h("a", { class: "button primary", href: "#/schedules?new" }, "New schedule"),
      ),
      this.#place,
    );
    this.#place.addEventListener("stored", () => this.#load());
    this.#load();
  }

  #load() {
    return shows(this.#place, () =>
      this.item
        ? this.query.has("edit")
          ? this.#edit()
          : this.#show()
        : this.query.has("new")
          ? this.#form("New schedule", { doc: undefined }, INITIAL)
          : this.#list(),
    );
  }

  async #list() {
    const { schedules } = await client.request("GET /v1/schedules");
    fill(
      this.#place,
      schedules.length === 0
        ? empty(
            "There are no schedules.",
            "A schedule posts a message or an event to a thread at recurring times: every weekday at nine, or every 15 minutes.",
            may("operate") && h("a", { class: "button primary", href: "#/schedules?new" }, "New schedule"),
          )
        : h(
            "div",
            { class: "cards" },
            schedules.map((s) =>
              h(
                "article",
                { class: s.failing ? "card failing" : "card" },
                h("h2", null, h("a", { href: address(s.id ?? "") }, s.id), badges(s)),
                summary(s),
                this.#controls(s),
              ),
            ),
          ),
    );
  }

  async #show() {
    // Lists need no versions.
    const [found] = await Promise.all([find(this.item), import("./versions.js")]);
    if (!found.schedule) return this.#gone(found.last);
    const s = found.schedule;
    fill(
      this.#place,
      h(
        "section",
        { class: s.failing ? "card wide failing" : "card wide" },
        h("h2", null, s.id, badges(s)),
        summary(s),
        s.note && h("p", null, s.note),
        this.#controls(s),
        h("h3", null, "Next times"),
        s.next.length === 0
          ? h("p", { class: "hint" }, "It has no next time.")
          : h(
              "ol",
              { class: "times" },
              s.next.map((at) => h("li", null, time(at), h("span", { class: "hint" }, ` ${ago(at)}`))),
            ),
        s.paused && h("p", { class: "hint" }, "It is paused: at these times nothing runs."),
        h("h3", null, "Last runs"),
        s.recent.length === 0
          ? h("p", { class: "hint" }, "It has not run yet.")
          : h(
              "ul",
              { class: "plain" },
              [...s.recent]
                .reverse()
                .map((run) =>
                  h("li", null, time(run.scheduledAt), ` ${ENDED[run.status ?? ""] ?? "ran"}`, run.error && h("span", { class: "error" }, `: ${run.error}`)),
                ),
            ),
        h("h3", null, "Definition"),
        h("pre", { class: "code", tabIndex: 0 }, pretty(definition(s))),
        facts([
          ["Created", time(s.createdAt)],
          ["Changed", time(s.updatedAt)],
        ]),
      ),
      h("tm-versions", { of: versionsOf(this.item), newest: s.version ?? 0 }),
    );
  }

  /** @param {Version} last */
  #gone(last) {
    fill(
      this.#place,
      h(
        "section",
        { class: "card wide" },
        h("h2", null, this.item, h("span", { class: "badge failed" }, "deleted")),
        h("p", null, "Deleted", ` by ${last.by}`, last.at && ", ", time(last.at), ". Its versions stay: it can be restored."),
      ),
      h("tm-versions", { of: versionsOf(this.item), newest: last.version, deleted: true }),
    );
  }

  /** What people may do with a schedule. @param {Schedule} s */
  #controls(s) {
    if (!may("operate")) return false;
    const id = s.id ?? "";
    /** @param {"pause" | "resume" | "trigger"} verb @param {string} label @param {string} done */
    const control = (verb, label, done) =>
      button(
        label,
        (e) =>
          act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
            await client.request(`POST /v1/schedules/{id}/${verb}`, { path: { id }, body: verb === "trigger" ? undefined : {} });
            notify(done);
            await this.#load();
          }),
        { class: "quiet" },
      );
    return h(
      "div",
      { class: "row" },
      s.paused ? control("resume", "Resume", "It runs again.") : control("pause", "Pause", "It is paused."),
      control("trigger", "Run now", "It runs now."),
      h("a", { class: "button quiet", href: address(id, "edit") }, "Edit"),
      button("Delete…", (e) => this.#delete(/** @type {HTMLElement} */ (e.currentTarget), id), { class: "quiet danger" }),
    );
  }

  /** @param {HTMLElement} control @param {string} id */
  async #delete(control, id) {
    if (
      !(await confirmed(
        `Delete the schedule ${id}?`,
        "It runs no more. What it posted stays in its thread, and its versions stay, so that you can restore it.",
        "Delete it",
      ))
    )
      return;
    await act(control, async () => {
      await remove(id);
      notify(`The schedule ${id} is deleted.`);
      await this.#load();
    });
  }

  async #edit() {
    const doc = definition(await client.request("GET /v1/schedules/{id}", { path: { id: this.item } }));
    await this.#form(`Edit ${this.item}`, { doc }, doc);
  }

  /** @param {string} title @param {Stored} stored @param {Doc} initial */
  async #form(title, stored, initial) {
    // Who only reads needs no form.
    const [{ SCHEDULE }] = await Promise.all([import("./schedulefields.js"), import("./form.js")]);
    let id = this.item;
    /** @type {Editing} */
    const editing = {
      title,
      groups: SCHEDULE,
      stored,
      initial,
      lists: { timezones: Intl.supportedValuesOf("timeZone") },
      save: async (doc, known) => {
        id = await store(this.item, doc, known);
      },
      saved: () => {
        notify("The schedule is saved.");
        location.hash = address(id);
      },
      cancel: () => {
        location.hash = this.item ? address(this.item) : "#/schedules";
      },
    };
    fill(this.#place, h("tm-form", { editing }));
  }
}

/** @param {Schedule} s */
const badges = (s) => [
  s.failing && h("span", { class: "badge failed" }, "failing"),
  s.paused && h("span", { class: "badge" }, "paused"),
  s.done && h("span", { class: "badge" }, "done"),
];

/** What a schedule posts, when, and how its last run failed. @param {Schedule} s */
const summary = (s) => [
  h(
    "p",
    null,
    s.message ? `“${s.message.content}”` : `Event ${s.event?.type}`,
    " to ",
    h("a", { href: `#/threads/${encodeURIComponent(s.threadId)}` }, s.threadId),
  ),
  h(
    "p",
    { class: "hint" },
    [...(s.cron ?? []), s.every && `every ${s.every}`].filter(Boolean).join(", "),
    s.timezone && ` (${s.timezone})`,
    s.next[0] && ` · next ${ago(s.next[0])}`,
    ` · ${s.runs} ${s.runs === 1 ? "run" : "runs"}`,
    (s.lateRuns ?? 0) > 0 && ` · ${s.lateRuns} skipped, too late`,
    (s.overlappedRuns ?? 0) > 0 && ` · ${s.overlappedRuns} skipped, another was in progress`,
  ),
  s.failing &&
    h(
      "p",
      { class: "error" },
      "The run of ",
      time(s.failing.scheduledAt),
      ` ${ENDED[s.failing.status ?? ""] ?? "failed"}`,
      s.failing.error && `: ${s.failing.error}`,
    ),
];

customElements.define("tm-schedules", Schedules);
