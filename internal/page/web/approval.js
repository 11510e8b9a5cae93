// The card of a call that waits for a person.

import { askerOf } from "./asker.js";
import { Attention, READING } from "./attention.js";
import { callView } from "./callview.js";
import { CardEnd } from "./cardend.js";
import { counter } from "./counter.js";
import { diff } from "./diff.js";
import { ago, button, fill, h, notify, pretty, time } from "./dom.js";
import { isExact, parseExact } from "./exactjson.js";
import { keysAreOn } from "./keyboard.js";
import { myName } from "./person.js";
import { client, may, server } from "./session.js";
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

/** Whether a decision on one request is one on the other. @param {ApprovalRequest} a @param {ApprovalRequest} b */
function isSame(a, b) {
  return a.digest === b.digest && a.round === b.round && a.arguments === b.arguments;
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
  /** Whether what is in the form differs from what was there at first. */
  #typed = () => false;
  #decided = false;
  /** Whether the call was asked again while the person filled in a form, and the person has not said that the text is meant for it. */
  #changed = false;
  /** Opens the form again for the call as it is now, with what was typed. */
  #again = () => {};
  place = h("div", { class: "choice" });
  #end = new CardEnd({
    element: this,
    choices: this.place,
    typed: () => this.#writing && this.#typed(),
    writes: () => this.#writing,
    forget: () => (this.#writing = false),
  });

  constructor() {
    super();
    this.head = h("header");
    this.call = h("div");
    this.news = h("div", { class: "news", role: "alert", hidden: true });
    this.facts = h("dl", { class: "facts" });
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
    this.#end.reopen();
    if (before && isSame(before, request)) return this.#showState();
    this.#attention.restart();
    this.setAttribute("aria-label", `Approval of ${request.toolName}`);
    const asker = askerOf(request);
    fill(
      this.head,
      h("strong", null, request.agent),
      " wants to call ",
      h("code", null, request.toolName),
      request.round && request.round > 1 && h("span", { class: "badge" }, `asked again, round ${request.round}`),
      request.reminder && h("span", { class: "badge" }, `reminder ${request.reminder}`),
    );
    fill(this.call, asker && h("p", { class: "reason" }, asker), callView(request.toolName, request.arguments).element);
    // What is in the document already stays there: it may have the focus.
    if (!before) fill(this, this.head, this.call, this.news, this.facts, this.place, this.#end);
    this.#decided = false;
    this.classList.remove("decided");
    if (before && this.#writing) this.#tellChange(before);
    this.#showState();
    this.#attend(() => {});
  }

  /** Whether it has something that would be lost with it. */
  get open() {
    return this.#end.keeps;
  }

  /** Says that the call is another one than the person was writing about. What they typed counts for it once they say so. @param {ApprovalRequest} before */
  #tellChange(before) {
    const { round = 1, arguments: args } = this.#asked;
    this.#changed = true;
    this.news.hidden = false;
    fill(
      this.news,
      h(
        "p",
        null,
        `This call was asked again${round > 1 ? ` (round ${round})` : ""} while you were writing. `,
        args === before.arguments
          ? "Its arguments are the same. "
          : h("details", null, h("summary", null, "Its arguments have changed"), diff(pretty(before.arguments), pretty(args))),
        "Nothing that you typed was sent.",
      ),
      button("Use what I typed for this call", () => {
        if (!this.#attention.seen) return;
        this.#settleChange();
        this.#again();
      }),
    );
    this.#showButtons();
  }

  #settleChange() {
    this.#changed = false;
    this.news.hidden = true;
    fill(this.news);
  }

  /** Shows the buttons of a form that can do something now. */
  #showButtons() {
    for (const control of this.place.querySelectorAll("button")) control.hidden = this.#changed && !control.matches(".cancel");
  }

  /**
   * Says that the call needs no decision of this person any more. What they were typing stays, so that it can be copied.
   * @param {string} how @returns {boolean} Whether there is anything to keep.
   */
  end(how) {
    if (!this.#end.end(how)) return false;
    if (this.#changed) this.#settleChange();
    return true;
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
    if (!this.#writing && !this.#decided && !this.#end.over) this.#menu();
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
    /** @type {NodeListOf<HTMLButtonElement>} */
    const choices = this.place.querySelectorAll("button[data-key]");
    if (!this.#end.sending) for (const choice of choices) choice.disabled = !this.#attention.seen;
    for (const use of this.news.querySelectorAll("button")) use.disabled = !this.#attention.seen;
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
    if (this.#changed || this.#decided) return;
    const request = this.#asked;
    const { toolCallId, round, digest } = request;
    await this.#end.send(
      (by) => client.decide(this.threadId, toolCallId, /** @type {import("./client/threadmill.js").DecisionRequest} */ ({ ...what, by, round, digest })),
      ({ missing }) => {
        if (!isSame(this.#asked, request)) {
          // The stream brought the next round before the answer came.
          this.#settleChange();
          return this.#showState();
        }
        if (!missing) {
          this.#decided = true;
          return this.#end.decided();
        }
        notify(`Your approval counts. ${missing} more needed.`);
        // The stream may have brought the vote before the answer came.
        const votes = this.#asked.votes ?? [];
        if (!votes.some((v) => samePerson(v.by, myName()))) {
          this.#request = { ...this.#asked, votes: [...votes, { by: myName(), at: new Date().toISOString() }] };
        }
        this.#showState();
      },
    );
    this.#showAttention(); // another request may have come meanwhile, which nobody has read
  }

  /** Opens a form in place of the choices. @param {HTMLElement} focus @param {() => boolean} typed @param {...Node} form */
  #form(focus, typed, ...form) {
    this.#writing = true;
    this.#typed = typed;
    fill(this.place, form);
    focus.focus();
  }

  #close() {
    this.#writing = false;
    this.#settleChange();
    this.#menu();
    (this.place.querySelector("button") ?? this).focus();
  }

  #cancel() {
    return button("Cancel", () => this.#close(), { class: "cancel" });
  }

  #deny(typed = "") {
    const reason = h("input", {
      name: "reason",
      value: typed,
      placeholder: "Why? The agent is told (optional)",
      "aria-label": "Reason of the denial",
    });
    this.#again = () => this.#deny(reason.value);
    const send = button("Deny", () => this.#decide({ decision: "deny", reason: reason.value || undefined }), { class: "danger" });
    const limit = counter(reason, server.limits.reason, { button: send });
    this.#form(
      reason,
      () => reason.value !== "",
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
        limit.line,
      ),
    );
  }

  /** @param {string} [typed] */
  #edit(typed) {
    const original = pretty(this.#asked.arguments);
    const text = h("textarea", {
      value: typed ?? original,
      rows: Math.min(16, original.split("\n").length + 1),
      spellcheck: false,
      "aria-label": "Arguments that run instead",
      class: "code",
    });
    this.#again = () => this.#edit(text.value === original ? undefined : text.value);
    const changes = h("div");
    const edited = () => {
      const args = objectOf(text.value);
      // Without arguments the call would run as it is.
      return args === undefined ? show() : this.#decide({ decision: "approve", scope: "once", args });
    };
    const send = button("Approve the edited call", edited, { class: "primary" });
    const show = () => {
      const valid = objectOf(text.value) !== undefined;
      send.disabled = !valid || text.value === original;
      fill(changes, valid ? text.value !== original && diff(original, pretty(text.value)) : h("p", { class: "error" }, "The arguments must be a JSON object."));
    };
    text.addEventListener("input", show);
    show();
    this.#form(text, () => text.value !== original, text, changes, h("div", { class: "row" }, send, this.#cancel()));
  }

  /** @param {Record<string, unknown>} values @param {Map<string, string>} [typed] The patterns that the person changed. */
  #pattern(values, typed = new Map()) {
    const globs = Object.entries(values)
      .filter(([, value]) => typeof value === "string")
      .map(([name, value]) => ({
        name,
        value: /** @type {string} */ (value),
        input: h("input", { value: typed.get(name) ?? String(value), "aria-label": `Pattern of ${name}`, class: "code" }),
      }));
    const changed = () => new Map(globs.filter((g) => g.input.value !== g.value).map((g) => [g.name, g.input.value]));
    this.#again = () => this.#pattern(objectOf(this.#asked.arguments) ?? {}, changed());
    const send = button("Approve the pattern", () => this.#decide({ decision: "approve", scope: "pattern", pattern: Object.fromEntries(changed()) }), {
      class: "primary",
    });
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
    this.#form(globs[0]?.input ?? send, () => changed().size > 0, form);
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.key === "Escape" && this.open) {
      e.stopPropagation();
      if (this.#end.over) this.#end.dismiss();
      else if (!this.#end.sending) this.#close();
      return;
    }
    if (e.repeat && (e.key === this.#held || (e.key === "Enter" && !target.matches("textarea")))) return e.preventDefault();
    if (e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select")) return;
    const isButton = target.matches("button[data-key]") && (e.key === "Enter" || e.key === " ");
    if (!isButton && !keysAreOn()) return;
    const control = isButton ? target : /** @type {HTMLElement | null} */ (this.place.querySelector(`button[data-key="${CSS.escape(e.key)}"]`));
    if (!control || control.hidden) return;
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
    case "withdrawn":
      return "No longer waits: the sub-agent went on without it";
  }
}
