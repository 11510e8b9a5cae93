// Approvals: the card of a call that waits for a person, and the list across all threads.

import { act, ago, button, fill, h, notify, pretty, time } from "./dom.js";
import { client, may, myName } from "./session.js";

/** @import { ApprovalRequest, Approval } from "./timeline.js" */

/** @param {string} text @returns {Record<string, unknown> | undefined} */
function objectOf(text) {
  try {
    const parsed = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The lines that differ between two texts.
 * @param {string} before @param {string} after
 */
export function diff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  /** Lengths of the longest common parts. @type {number[][]} */
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const out = h("pre", { class: "diff", "aria-label": "Changes", tabIndex: 0 });
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.append(h("span", null, `  ${a[i++]}\n`));
      j++;
    } else if (j < b.length && (i === a.length || common[i][j + 1] >= common[i + 1][j])) out.append(h("ins", null, `+ ${b[j++]}\n`));
    else out.append(h("del", null, `- ${a[i++]}\n`));
  }
  return out;
}

/**
 * The card of a call that waits for a decision.
 * @param {string} threadId @param {ApprovalRequest} request
 */
export function approvalCard(threadId, request) {
  const args = objectOf(request.arguments);
  const original = pretty(request.arguments);
  const place = h("div", { class: "choice" });
  const refusal = h("p", { class: "error", role: "alert", hidden: true });
  const allowed = !request.approvers || request.approvers.some((one) => one.toLowerCase() === myName().toLowerCase());

  /** @param {Record<string, unknown>} what @param {HTMLElement | null} [control] */
  const decide = async (what, control = null) => {
    refusal.hidden = true;
    if (control) /** @type {HTMLButtonElement} */ (control).disabled = true;
    try {
      const result = await client.decide(threadId, request.toolCallId, /** @type {any} */ ({
        ...what, by: myName() || undefined, round: request.round, digest: request.digest,
      }));
      if (result.missing) notify(`Your approval counts. ${result.missing} more needed.`);
      card.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: result }));
      if (result.missing) return menu();
      card.classList.add("decided");
      fill(place);
    } catch (error) {
      refusal.hidden = false;
      fill(refusal, /** @type {Error} */ (error).message);
      if (control) /** @type {HTMLButtonElement} */ (control).disabled = false;
    }
  };

  /** @param {string} label @param {string} key @param {(e: MouseEvent) => unknown} onclick @param {string} kind */
  const choice = (label, key, onclick, kind = "") => button(label, onclick, { class: kind, "data-key": key, title: `${label} (${key})` });

  const menu = () => {
    const several = (request.quorum ?? 1) > 1;
    fill(place,
      choice("Approve", "a", (e) => decide({ decision: "approve", scope: "once" }, /** @type {HTMLElement} */ (e.currentTarget)), "primary"),
      !several && choice("Approve for session", "s", (e) => decide({ decision: "approve", scope: "session" }, /** @type {HTMLElement} */ (e.currentTarget))),
      !several && args && choice("Approve a pattern…", "p", () => pattern(args)),
      !several && args && choice("Edit…", "e", () => edit()),
      choice("Deny…", "d", () => deny(), "danger"),
    );
  };

  const cancel = () => button("Cancel", () => {
    menu();
    place.querySelector("button")?.focus();
  });

  const deny = () => {
    const reason = h("input", { name: "reason", placeholder: "Why? The agent is told (optional)", "aria-label": "Reason of the denial", maxLength: 1000 });
    const send = button("Deny", () => decide({ decision: "deny", reason: reason.value || undefined }, send), { class: "danger" });
    const form = h("form", { class: "row", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); send.click(); } }, reason, send, cancel());
    fill(place, form);
    reason.focus();
  };

  const edit = () => {
    const text = h("textarea", { value: original, rows: Math.min(16, original.split("\n").length + 1), spellcheck: false, "aria-label": "Arguments that run instead", class: "code" });
    const changes = h("div");
    const send = button("Approve the edited call", () => decide({ decision: "approve", scope: "once", args: objectOf(text.value) }, send), { class: "primary" });
    const show = () => {
      const valid = objectOf(text.value) !== undefined;
      send.disabled = !valid || text.value === original;
      fill(changes, valid ? text.value !== original && diff(original, pretty(text.value)) : h("p", { class: "error" }, "The arguments must be a JSON object."));
    };
    text.addEventListener("input", show);
    show();
    fill(place, text, changes, h("div", { class: "row" }, send, cancel()));
    text.focus();
  };

  /** @param {Record<string, unknown>} values */
  const pattern = (values) => {
    const globs = Object.entries(values).filter(([, value]) => typeof value === "string").map(([name, value]) => ({
      name, value: /** @type {string} */ (value), input: h("input", { value: String(value), "aria-label": `Pattern of ${name}`, class: "code" }),
    }));
    const send = button("Approve the pattern", () => {
      const changed = globs.filter((g) => g.input.value !== g.value).map((g) => [g.name, g.input.value]);
      return decide({ decision: "approve", scope: "pattern", pattern: Object.fromEntries(changed) }, send);
    }, { class: "primary" });
    const form = h("form", { class: "pattern", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); send.click(); } },
      h("p", { class: "hint" }, "* covers letters, digits, spaces and a few signs; ** covers slashes as well. What you leave as it is must be equal."),
      globs.map((g) => h("label", null, g.name, g.input)),
      h("div", { class: "row" }, send, cancel()));
    fill(place, form);
    globs[0]?.input.focus();
  };

  const votes = request.votes ?? [];
  const card = h("section", { class: "approval", "aria-label": `Approval of ${request.toolName}` },
    h("header", null,
      h("strong", null, request.agent), " wants to call ", h("code", null, request.toolName),
      request.round && request.round > 1 && h("span", { class: "badge" }, `asked again, round ${request.round}`),
      request.reminder && h("span", { class: "badge" }, `reminder ${request.reminder}`)),
    request.reason && h("p", { class: "reason" }, request.reason),
    h("pre", { class: "code args", tabIndex: 0 }, original),
    h("dl", { class: "facts" },
      request.workingDirectory && [h("dt", null, "Works in"), h("dd", null, h("code", null, request.workingDirectory))],
      (request.quorum ?? 1) > 1 && [h("dt", null, "Needs"), h("dd", null, `${request.quorum} approvals, has ${votes.length}`)],
      votes.length > 0 && [h("dt", null, "Approved by"), h("dd", null, votes.map((v) => [v.by, v.reason && ` (${v.reason})`].filter(Boolean).join("")).join(", "))],
      request.approvers && [h("dt", null, "May decide"), h("dd", null, request.approvers.join(", "))],
      request.expiresAt && [h("dt", null, "Expires"), h("dd", null, ago(request.expiresAt), " (", time(request.expiresAt), ")")],
      [h("dt", null, "Asked"), h("dd", null, time(request.requestedAt))]),
    may("approve") && allowed
      ? place
      : h("p", { class: "hint" }, may("approve") ? `Only ${request.approvers?.join(", ")} may decide.` : "Your key does not allow you to decide."),
    refusal);
  menu();
  card.addEventListener("keydown", (e) => {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.key === "Escape" && place.querySelector("form, textarea")) {
      menu();
      card.querySelector("button")?.focus();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select")) return;
    const control = /** @type {HTMLButtonElement | null} */ (place.querySelector(`button[data-key="${CSS.escape(e.key)}"]`));
    if (!control) return;
    e.preventDefault();
    e.stopPropagation();
    control.click();
  });
  return card;
}

/** A sentence that says how a call was decided. @param {Approval} d */
export function decisionText(d) {
  const by = d.by ? ` by ${d.by}` : "";
  const reason = d.reason ? `: ${d.reason}` : "";
  switch (d.decision) {
    case "approve":
      if (d.grant) return `Covered by a grant${by}${reason}`;
      return `Approved${by}${d.scope === "once" ? "" : ` for ${d.scope === "session" ? "the session" : "a pattern"}`}${d.missing ? `, ${d.missing} more needed` : ""}${reason}`;
    case "deny":
      return `Denied${by}${reason}`;
    case "expired":
      return `Expired without a decision`;
    case "revoked":
      return `Approval revoked${by}${reason}`;
  }
}

/** The list of what waits in all threads. */
class Approvals extends HTMLElement {
  #timer = 0;
  #shown = "";

  connectedCallback() {
    this.list = h("div", { class: "cards" });
    this.state = h("p", { class: "hint", role: "status" });
    fill(this,
      h("header", { class: "page-header" }, h("h1", null, "Approvals"),
        h("p", { class: "hint" }, h("kbd", null, "j"), " ", h("kbd", null, "k"), " move · ", h("kbd", null, "a"), " approve · ", h("kbd", null, "s"), " for session · ",
          h("kbd", null, "p"), " pattern · ", h("kbd", null, "e"), " edit · ", h("kbd", null, "d"), " deny")),
      this.state, this.list);
    this.changed = () => this.#refresh();
    document.addEventListener("threads-changed", this.changed);
    this.keys = (/** @type {KeyboardEvent} */ e) => this.#key(e);
    document.addEventListener("keydown", this.keys);
    this.list.addEventListener("decided", () => setTimeout(() => this.#refresh(), 300));
    this.#refresh();
  }

  disconnectedCallback() {
    document.removeEventListener("threads-changed", /** @type {() => void} */ (this.changed));
    document.removeEventListener("keydown", /** @type {(e: KeyboardEvent) => void} */ (this.keys));
    clearTimeout(this.#timer);
  }

  async #refresh() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#refresh(), 15_000);
    try {
      const { approvals, clientCalls, unanswered } = await client.waiting({ limit: 200 });
      const shown = JSON.stringify([approvals, clientCalls]);
      fill(/** @type {Element} */ (this.state),
        approvals.length + clientCalls.length === 0 ? "Nothing waits for you." : `${approvals.length} ${approvals.length === 1 ? "call waits" : "calls wait"} for a decision.`,
        unanswered && unanswered.length > 0 && ` ${unanswered.length} threads did not answer.`);
      // What a person is about to decide on stays as it is.
      if (shown === this.#shown || this.querySelector("form, textarea")) return;
      this.#shown = shown;
      const focused = this.#cards().indexOf(/** @type {HTMLElement} */ (document.activeElement?.closest(".waiting")));
      fill(/** @type {Element} */ (this.list), approvals.map(({ threadId, title, request }) => h("article", { class: "waiting", tabIndex: -1 },
        h("p", { class: "origin" }, h("a", { href: `#/threads/${encodeURIComponent(threadId)}` }, title || threadId)), approvalCard(threadId, request))),
      clientCalls.map(({ threadId, title, call }) => h("article", { class: "waiting", tabIndex: -1 },
        h("p", { class: "origin" }, h("a", { href: `#/threads/${encodeURIComponent(threadId)}` }, title || threadId)),
        h("section", { class: "approval" }, h("header", null, h("strong", null, call.agent), " waits for a connected client to run ", h("code", null, call.toolName)),
          h("pre", { class: "code args", tabIndex: 0 }, pretty(call.arguments)), h("p", { class: "hint" }, "Expires ", ago(call.expiresAt))))));
      if (focused >= 0) this.#cards()[Math.min(focused, this.#cards().length - 1)]?.focus();
    } catch (error) {
      fill(/** @type {Element} */ (this.state), /** @type {Error} */ (error).message);
    }
  }

  #cards() {
    return /** @type {HTMLElement[]} */ ([...this.querySelectorAll(".waiting")]);
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select")) return;
    const cards = this.#cards();
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    if (e.key === "j" || e.key === "k") {
      const next = cards[Math.max(0, Math.min(cards.length - 1, at + (e.key === "j" ? 1 : -1)))];
      next?.focus();
      next?.scrollIntoView({ block: "nearest" });
      e.preventDefault();
      return;
    }
    // On the card itself, keys are those of its buttons.
    if (at < 0 || document.activeElement !== cards[at]) return;
    const handled = cards[at].querySelector(".approval")?.dispatchEvent(new KeyboardEvent("keydown", { key: e.key, cancelable: true })) === false;
    if (handled) e.preventDefault(); // or the key would be typed into the form that it opens
  }
}

customElements.define("tm-approvals", Approvals);

/** A list of the grants of a thread. @param {string} threadId @param {Element} place */
export async function showGrants(threadId, place) {
  const { grants } = await client.request("GET", `/v1/threads/${encodeURIComponent(threadId)}/grants`);
  fill(place, grants.length === 0
    ? h("p", { class: "hint" }, "No approvals cover later calls.")
    : h("ul", { class: "plain" }, grants.map((/** @type {any} */ g) => h("li", { class: "grant" },
      h("code", null, g.toolName), ` for ${g.agent}, `, g.scope === "session" ? "the same call" : Object.entries(g.pattern ?? {}).map(([k, v]) => `${k}=${v}`).join(", "),
      h("span", { class: "hint" }, ` by ${g.by}, `, time(g.grantedAt)),
      may("approve") && button("Revoke", (e) => act(/** @type {HTMLElement} */ (e.currentTarget), async () => {
        await client.request("DELETE", `/v1/threads/${encodeURIComponent(threadId)}/grants/${encodeURIComponent(g.id)}`, { query: { by: myName() || undefined } });
        notify("The grant is revoked.");
        await showGrants(threadId, place);
      }), { class: "quiet danger" })))));
}
