// Schedules: listed with how their runs ended, edited, paused, run and deleted.

import { confirmed } from "./dialog.js";
import { act, ago, button, fill, h, notify, pretty, time } from "./dom.js";
import { client, may } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["Schedule"]} Schedule */

/** How a run that failed ended. @type {Record<string, string>} */
const ENDED = { failed: "failed", timed_out: "took too long", canceled: "was canceled", terminated: "was terminated" };

class Schedules extends HTMLElement {
  connectedCallback() {
    this.list = h("div");
    fill(
      this,
      h(
        "header",
        { class: "page-header" },
        h("h1", null, "Schedules"),
        may("operate") && button("New schedule", () => this.#edit(undefined), { class: "primary" }),
      ),
      this.list,
    );
    this.#load();
  }

  #load() {
    return act(null, async () => {
      const { schedules } = await client.request("GET /v1/schedules");
      /** @param {Schedule} s @param {"pause" | "resume" | "trigger"} verb @param {string} label */
      const control = (s, verb, label) =>
        button(
          label,
          (e) =>
            act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
              await client.request(`POST /v1/schedules/{id}/${verb}`, { path: { id: s.id ?? "" }, body: verb === "trigger" ? undefined : {} });
              notify(verb === "trigger" ? "It runs now." : "Done.");
              await this.#load();
            }),
          { class: "quiet" },
        );
      fill(
        /** @type {Element} */ (this.list),
        schedules.length === 0
          ? h("p", { class: "hint" }, "There are no schedules.")
          : h(
              "div",
              { class: "cards" },
              schedules.map((s) =>
                h(
                  "article",
                  { class: s.failing ? "card failing" : "card" },
                  h(
                    "h2",
                    null,
                    s.id,
                    " ",
                    s.failing && h("span", { class: "badge failed" }, "failing"),
                    s.paused && h("span", { class: "badge" }, "paused"),
                    s.done && h("span", { class: "badge" }, "done"),
                  ),
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
                  may("operate") &&
                    h(
                      "div",
                      { class: "row" },
                      control(s, s.paused ? "resume" : "pause", s.paused ? "Resume" : "Pause"),
                      control(s, "trigger", "Run now"),
                      button("Edit", () => this.#edit(s), { class: "quiet" }),
                      button("Delete…", () => this.#delete(s.id ?? ""), { class: "quiet danger" }),
                    ),
                ),
              ),
            ),
      );
    });
  }

  /** @param {string} id */
  async #delete(id) {
    if (!(await confirmed(`Delete the schedule ${id}?`, "It runs no more. What it posted stays in its thread.", "Delete it"))) return;
    await act(null, async () => {
      await client.request("DELETE /v1/schedules/{id}", { path: { id } });
      await this.#load();
    });
  }

  /** @param {Schedule} [s] */
  #edit(s) {
    const { failing, next, recent, runs, createdAt, updatedAt, done, lateRuns, overlappedRuns, ...spec } = s ?? {
      id: "",
      threadId: "",
      cron: ["0 9 * * 1-5"],
      timezone: "UTC",
      open: true,
      message: { content: "" },
    };
    const text = h("textarea", { value: pretty(spec), rows: 14, class: "code", spellcheck: false, "aria-label": "Schedule as JSON" });
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const save = button(
      "Save",
      async () => {
        try {
          const body = JSON.parse(text.value);
          if (body.id === "") delete body.id;
          await (s ? client.request("PUT /v1/schedules/{id}", { path: { id: s.id ?? "" }, body }) : client.request("POST /v1/schedules", { body }));
          notify("The schedule is saved.");
          await this.#load();
        } catch (problem) {
          error.hidden = false;
          fill(error, /** @type {Error} */ (problem).message);
        }
      },
      { class: "primary" },
    );
    fill(
      /** @type {Element} */ (this.list),
      h(
        "section",
        { class: "card wide" },
        h("h2", null, s ? `Edit ${s.id}` : "New schedule"),
        text,
        error,
        h(
          "div",
          { class: "row" },
          save,
          button("Cancel", () => this.#load()),
        ),
      ),
    );
    text.focus();
  }
}

customElements.define("tm-schedules", Schedules);
