// The card of a call that waits for a person.

import { askerOf } from "./asker.js";
import { Attention, READING } from "./attention.js";
import { callView } from "./callview.js";
import { diff } from "./diff.js";
import { ago, button, fill, h, notify, pretty, time } from "./dom.js";
import { isExact, parseExact } from "./exactjson.js";
import { keysAreOn } from "./keyboard.js";
import { myName, person } from "./person.js";
import { client, may } from "./session.js";
import { samePerson } from "./timeline.js";

/** @import { ApprovalRequest, Approval } from "./timeline.js" */

/** @param {string} text @returns {Record<string, unknown> | undefined} */
function objectOf(text) {
  try {
    const parsed = parseExact(text);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) && !isExact(parsed)
      ? /** @type {Record<string, unknown>} */ (parsed)
      : undefined;
  } catch {
    return undefined;
  }
}

/** How much of a card has to be in view: half of it, or half of the window. */
const THRESHOLDS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];

export class ApprovalCard extends HTMLElement {
  threadId = "";
  /** @type {ApprovalRequest | undefined} */
  #request;
  #attention = new Attention();
  #timer = 0;
  /** The key that opened a form, until it is released. */
  #held = "";
  /** Whether the person fills in a form, which a change of the votes leaves alone. */
  #writing = false;
  #decided = false;
  #sending = false;
  /** Whether the call was decided elsewhere while the person filled in a form. */
  #over = false;

  constructor() {
    super();
    this.facts = h("dl", { class: "facts" });
    this.place = h("div", { class: "choice" });
    this.refusal = h("p", { class: "error", role: "alert", hidden: true });
    this.addEventListener("keydown", (e) => this.#key(e));
    this.addEventListener("keyup", (e) => {
      if (e.key === this.#held) this.#held = "";
    });
    this.addEventListener("focusin", () => this.#attend(() => this.#attention.setFocused(true)));
    this.addEventListener("focusout", (e) => {
      if (!this.contains(/** @type {Node | null} */ (e.relatedTarget))) this.#attend(() => this.#attention.setFocused(false));
    });
    this.changed = () => this.#showState();
  }

  connectedCallback() {
    this.classList.add("approval");
    this.tabIndex = -1;
    this.setAttribute("role", "group");
    this.view = new IntersectionObserver(
      ([...entries]) => {
        const { intersectionRatio, intersectionRect, rootBounds } = entries[entries.length - 1];
        this.#attend(() => this.#attention.setVisible(intersectionRatio >= 0.5 || (rootBounds !== null && intersectionRect.height >= rootBounds.height / 2)));
      },
      { threshold: THRESHOLDS },
    );
    this.view.observe(this);
    document.addEventListener("name-changed", this.changed);
  }

  disconnectedCallback() {
    this.view?.disconnect();
    clearTimeout(this.#timer);
    document.removeEventListener("name-changed", this.changed);
  }

  /** Shows a request, or its votes when they have changed. @param {ApprovalRequest} request */
  show(request) {
    const before = this.#request;
    this.#request = request;
    if (this.#over) this.#reopen();
    if (before && before.digest === request.digest && before.round === request.round && before.arguments === request.arguments) return this.#showState();
    this.#attention.restart();
    this.setAttribute("aria-label", `Approval of ${request.toolName}`);
    const asker = askerOf(request);
    fill(
      this,
      h(
        "header",
        null,
        h("strong", null, request.agent),
        " wants to call ",
        h("code", null, request.toolName),
        request.round && request.round > 1 && h("span", { class: "badge" }, `asked again, round ${request.round}`),
        request.reminder && h("span", { class: "badge" }, `reminder ${request.reminder}`),
      ),
      asker && h("p", { class: "reason" }, asker),
      callView(request.toolName, request.arguments).element,
      this.facts,
      this.place,
      this.refusal,
    );
    this.#writing = false;
    this.#showState();
    this.#attend(() => {});
  }

  /**
   * Says that the call needs no decision of this person any more. What they were typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    if (!this.#writing || this.#sending) return false;
    if (this.#over) return true;
    this.#over = true;
    this.toggleAttribute("data-kept", true);
    this.classList.add("decided");
    for (const control of this.place.querySelectorAll("button")) control.hidden = true;
    this.refusal.hidden = false;
    fill(
      this.refusal,
      `${how} Nothing that you typed here was sent. `,
      button("Close", () => this.#dismiss()),
    );
    return true;
  }

  /** Lets the person decide after all: the call was asked again. */
  #reopen() {
    this.#over = false;
    this.removeAttribute("data-kept");
    this.classList.remove("decided");
    this.refusal.hidden = true;
    for (const control of this.place.querySelectorAll("button")) control.hidden = false;
  }

  #dismiss() {
    this.#writing = false;
    this.dispatchEvent(new CustomEvent("dismissed", { bubbles: true }));
    this.remove();
  }

  get #asked() {
    return /** @type {ApprovalRequest} */ (this.#request);
  }

  /** Shows the votes and, unless a form is open, what the person can choose. */
  #showState() {
    const request = this.#asked;
    const votes = request.votes ?? [],
      quorum = request.quorum ?? 1;
    const missing = Math.max(0, quorum - votes.length);
    fill(
      this.facts,
      request.workingDirectory && [h("dt", null, "Works in"), h("dd", null, h("code", null, request.workingDirectory))],
      quorum > 1 && [h("dt", null, "Needs"), h("dd", null, `${quorum} approvals, has ${votes.length}: ${missing} more`)],
      votes.length > 0 && [
        h("dt", null, "Approved by"),
        h("dd", null, votes.map((v) => [v.by, v.reason && ` (${v.reason})`].filter(Boolean).join("")).join(", ")),
      ],
      (request.approvers || request.groups) && [
        h("dt", null, "May decide"),
        h("dd", null, [...(request.approvers ?? []), ...(request.groups ?? []).map((g) => `group ${g}`)].join(", ")),
      ],
      request.expiresAt && [h("dt", null, "Expires"), h("dd", null, ago(request.expiresAt), " (", time(request.expiresAt), ")")],
      [h("dt", null, "Asked"), h("dd", null, time(request.requestedAt))],
    );
    if (!this.#writing && !this.#decided) this.#menu();
  }

  /** Notes a change of what the person sees, and shows once they have had the time to read. @param {() => void} change */
  #attend(change) {
    change();
    clearTimeout(this.#timer);
    this.#showAttention();
    this.#timer = window.setTimeout(() => this.#showAttention(), READING + 10);
  }

  #showAttention() {
    this.toggleAttribute("data-seen", this.#attention.seen);
    this.toggleAttribute("data-keys", this.#attention.read);
    for (const choice of this.place.querySelectorAll("button")) choice.disabled = choice.hasAttribute("data-key") && !this.#attention.seen;
  }

  #menu() {
    const request = this.#asked;
    const me = myName();
    const several = (request.quorum ?? 1) > 1;
    const voted = me !== "" && (request.votes ?? []).some((v) => samePerson(v.by, me));
    const args = objectOf(request.arguments);
    /** @param {string} label @param {string} key @param {(e: MouseEvent) => unknown} onclick @param {string} kind */
    const choice = (label, key, onclick, kind = "") =>
      h(
        "button",
        {
          type: "button",
          class: kind,
          "data-key": key,
          title: `${label} (${key})`,
          "aria-keyshortcuts": key,
          disabled: !this.#attention.seen,
          onclick: (/** @type {MouseEvent} */ e) => e.detail < 2 && onclick(e),
        },
        label,
        h("kbd", { "aria-hidden": "true" }, key),
      );
    const focused = /** @type {HTMLElement | null} */ (this.place.querySelector("button:focus"))?.dataset.key;
    if (!may("approve")) return fill(this.place, h("p", { class: "hint" }, "Your key does not allow you to decide."));
    // Who is a member of a group by now, the server knows.
    if (me !== "" && request.approvers && !request.groups && !request.approvers.includes(me)) {
      return fill(this.place, h("p", { class: "hint" }, `Only ${request.approvers.join(", ")} may decide.`));
    }
    fill(
      this.place,
      voted && h("p", { class: "hint grow" }, "You approved this call. It waits for others."),
      !voted && choice("Approve", "a", () => this.#decide({ decision: "approve", scope: "once" }), "primary"),
      !several && choice("Approve for session", "s", () => this.#decide({ decision: "approve", scope: "session" })),
      !several && args && choice("Approve a pattern…", "p", () => this.#pattern(args)),
      !several && args && choice("Edit…", "e", () => this.#edit()),
      choice("Deny…", "d", () => this.#deny(), "danger"),
    );
    if (!focused) return;
    /** @type {HTMLElement | null} */
    const again = this.place.querySelector(`[data-key="${focused}"]`);
    (again ?? this).focus();
  }

  /** @param {Record<string, unknown>} what */
  async #decide(what) {
    if (this.#over) return;
    const request = this.#asked;
    this.#sending = true;
    this.refusal.hidden = true;
    this.#enable(false);
    try {
      const result = await client.decide(
        this.threadId,
        request.toolCallId,
        /** @type {import("./client/threadmill.js").DecisionRequest} */ ({
          ...what,
          by: await person(),
          round: request.round,
          digest: request.digest,
        }),
      );
      this.#writing = false;
      if (result.missing) {
        notify(`Your approval counts. ${result.missing} more needed.`);
        // The stream may have brought the vote, or a new round, before the answer came.
        const now = this.#asked,
          votes = now.votes ?? [];
        if (now.round === request.round && !votes.some((v) => samePerson(v.by, myName()))) {
          this.#request = { ...now, votes: [...votes, { by: myName(), at: new Date().toISOString() }] };
        }
        this.#sending = false;
        this.#showState();
      } else {
        this.#decided = true;
        this.classList.add("decided");
        fill(this.place);
      }
      this.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: result }));
    } catch (error) {
      this.#sending = false;
      this.#enable(true);
      if (/** @type {Error} */ (error).name === "AbortError") return;
      this.refusal.hidden = false;
      fill(this.refusal, /** @type {Error} */ (error).message);
    }
  }

  /** @param {boolean} is */
  #enable(is) {
    for (const control of this.place.querySelectorAll("button")) control.disabled = !is;
  }

  /** Opens a form in place of the choices. @param {HTMLElement} focus @param {...Node} form */
  #form(focus, ...form) {
    this.#writing = true;
    fill(this.place, form);
    focus.focus();
  }

  #close() {
    this.#writing = false;
    this.#menu();
    (this.place.querySelector("button") ?? this).focus();
  }

  #cancel() {
    return button("Cancel", () => this.#close());
  }

  #deny() {
    const reason = h("input", { name: "reason", placeholder: "Why? The agent is told (optional)", "aria-label": "Reason of the denial", maxLength: 1000 });
    const send = button("Deny", () => this.#decide({ decision: "deny", reason: reason.value || undefined }), { class: "danger" });
    this.#form(
      reason,
      h(
        "form",
        {
          class: "row",
          onsubmit: (/** @type {Event} */ e) => {
            e.preventDefault();
            send.click();
          },
        },
        reason,
        send,
        this.#cancel(),
      ),
    );
  }

  #edit() {
    const original = pretty(this.#asked.arguments);
    const text = h("textarea", {
      value: original,
      rows: Math.min(16, original.split("\n").length + 1),
      spellcheck: false,
      "aria-label": "Arguments that run instead",
      class: "code",
    });
    const changes = h("div");
    const send = button("Approve the edited call", () => this.#decide({ decision: "approve", scope: "once", args: objectOf(text.value) }), {
      class: "primary",
    });
    const show = () => {
      const valid = objectOf(text.value) !== undefined;
      send.disabled = !valid || text.value === original;
      fill(changes, valid ? text.value !== original && diff(original, pretty(text.value)) : h("p", { class: "error" }, "The arguments must be a JSON object."));
    };
    text.addEventListener("input", show);
    show();
    this.#form(text, text, changes, h("div", { class: "row" }, send, this.#cancel()));
  }

  /** @param {Record<string, unknown>} values */
  #pattern(values) {
    const globs = Object.entries(values)
      .filter(([, value]) => typeof value === "string")
      .map(([name, value]) => ({
        name,
        value: /** @type {string} */ (value),
        input: h("input", { value: String(value), "aria-label": `Pattern of ${name}`, class: "code" }),
      }));
    const send = button(
      "Approve the pattern",
      () => {
        const changed = globs.filter((g) => g.input.value !== g.value).map((g) => [g.name, g.input.value]);
        return this.#decide({ decision: "approve", scope: "pattern", pattern: Object.fromEntries(changed) });
      },
      { class: "primary" },
    );
    const form = h(
      "form",
      {
        class: "pattern",
        onsubmit: (/** @type {Event} */ e) => {
          e.preventDefault();
          send.click();
        },
      },
      h("p", { class: "hint" }, "* covers letters, digits, spaces and a few signs; ** covers slashes as well. What you leave as it is must be equal."),
      globs.map((g) => h("label", null, g.name, g.input)),
      h("div", { class: "row" }, send, this.#cancel()),
    );
    this.#form(globs[0]?.input ?? send, form);
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.key === "Escape" && this.#writing) {
      e.stopPropagation();
      return this.#over ? this.#dismiss() : this.#close();
    }
    if (e.repeat && (e.key === this.#held || (e.key === "Enter" && !target.matches("textarea")))) return e.preventDefault();
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select")) return;
    const isButton = target.matches("button[data-key]") && (e.key === "Enter" || e.key === " ");
    if (!isButton && !keysAreOn()) return;
    const control = isButton ? target : /** @type {HTMLElement | null} */ (this.place.querySelector(`button[data-key="${CSS.escape(e.key)}"]`));
    if (!control) return;
    // The browser would press the button also while the key is held.
    e.preventDefault();
    e.stopPropagation();
    if (!this.#attention.accepts(e)) return;
    this.#held = e.key;
    control.click();
  }
}

customElements.define("tm-approval", ApprovalCard);

/** @param {string} threadId @param {ApprovalRequest} request */
export function approvalCard(threadId, request) {
  const card = /** @type {ApprovalCard} */ (h("tm-approval", { threadId }));
  card.show(request);
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
