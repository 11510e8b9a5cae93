// Building blocks of the page: elements, text, times. Text becomes text nodes only, never markup.

import { parseExact } from "./exactjson.js";

/** @typedef {Node | string | number | false | null | undefined} Child */

/**
 * Makes an element. Properties that begin with "on" are listeners, class, data-…, aria-… and role are
 * attributes, all others are properties of the element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T | string} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "class" || name === "for" || name === "role" || name === "list" || name.includes("-")) {
      if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
    } else Reflect.set(element, name, value);
  }
  element.append(...shown(children));
  return /** @type {HTMLElementTagNameMap[T]} */ (element);
}

/** Replaces the children of an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...shown(children));
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function shown(children) {
  /** @type {(Node | string)[]} */
  const out = [];
  for (const child of children.flat()) {
    if (child instanceof Node) out.push(child);
    else if (child !== undefined && child !== null && child !== false) out.push(visible(String(child)));
  }
  return out;
}

/** Characters that control a terminal or the direction of text, or that nobody can see. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

/** Text in which such characters are escapes. @param {string} text */
export function visible(text) {
  return text
    .replace(/\r\n/g, "\n")
    .replace(HIDDEN, (c) => [...c].map((one) => `\\u${/** @type {number} */ (one.codePointAt(0)).toString(16).padStart(4, "0")}`).join(""));
}

/** @param {string} text @param {number} length */
export function cut(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

/** A time, short; the whole one is its title. @param {string | undefined} iso */
export function time(iso) {
  if (!iso) return undefined;
  const at = new Date(iso);
  const today = at.toDateString() === new Date().toDateString();
  return h("time", { dateTime: iso, title: absolute.format(at) }, today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`);
}

/** How long ago, or ahead, a time is. @param {string} iso */
export function ago(iso) {
  const seconds = (new Date(iso).getTime() - Date.now()) / 1000;
  for (const [unit, size] of /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ])) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 5 ? "now" : relative.format(Math.trunc(seconds), "second");
}

/** JSON with indents, or the text as it is. @param {unknown} value */
export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  try {
    const parsed = parseExact(value);
    return typeof parsed === "object" ? JSON.stringify(parsed, null, 2) : value;
  } catch {
    return value;
  }
}

/** A colour for a name, the same everywhere. @param {string} name */
export function hue(name) {
  let sum = 7;
  for (const c of name) sum = (sum * 31 + /** @type {number} */ (c.codePointAt(0))) % 360;
  return String(sum % 12);
}

/**
 * A button.
 * @param {string} label @param {(e: MouseEvent) => unknown} onclick @param {Record<string, unknown>} [props]
 */
export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

/** The header of what is beside a thread. @param {string} title @param {() => void} close */
export function sideHeader(title, close) {
  return h("header", { class: "row" }, h("h2", { class: "grow" }, title), button("×", close, { class: "quiet", "aria-label": "Close the details" }));
}

/** A list of names and values, without those that are missing. @param {[string, Child][]} list */
export function facts(list) {
  return h(
    "dl",
    { class: "facts" },
    list.filter(([, value]) => value !== undefined && value !== "" && value !== null).flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/** Copies text and says so on the button. @param {string} label @param {() => string} text */
export function copyButton(label, text) {
  const element = button(
    label,
    async () => {
      await navigator.clipboard.writeText(text()).catch(() => {});
      fill(element, "Copied");
      setTimeout(() => fill(element, label), 1500);
    },
    { class: "quiet" },
  );
  return element;
}

/** @param {string} name @param {string} type @param {string} text */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Shows a notice for a moment, which screen readers read. @param {string} text @param {"info" | "error"} [kind] */
export function notify(text, kind = "info") {
  const place = /** @type {Element} */ (document.getElementById("notices"));
  /** @type {HTMLElement} */
  const notice = h(
    "div",
    { class: `notice ${kind}` },
    text,
    button("×", () => notice.remove(), { "aria-label": "Dismiss", class: "quiet" }),
  );
  place.append(notice);
  setTimeout(() => notice.remove(), kind === "error" ? 12_000 : 4000);
}

/**
 * Runs an action of a button: disables it meanwhile, and shows why it failed, unless the person gave it up.
 * @template T
 * @param {HTMLElement | null} element @param {() => Promise<T>} action
 * @returns {Promise<T | undefined>}
 */
export async function act(element, action) {
  const control = /** @type {HTMLButtonElement | null} */ (element);
  if (control) control.disabled = true;
  try {
    return await action();
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") notify(/** @type {Error} */ (error).message, "error");
    return undefined;
  } finally {
    if (control) control.disabled = false;
  }
}
