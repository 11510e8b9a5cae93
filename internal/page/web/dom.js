// Building blocks of the page: elements, text, times. Text becomes text nodes only, never markup.

import { client } from "./session.js";

/** @typedef {Node | string | number | false | null | undefined} Child */

/**
 * Makes an element. Properties that begin with "on" are listeners, class, data-…, aria-… and role are
 * attributes, all others are properties of the element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T | string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class" || name === "for" || name === "role" || name === "list" || name.includes("-")) {
      if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
    } else Reflect.set(element, name, value);
  }
  element.append(...shown(children));
  return /** @type {any} */ (element);
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
    const parsed = JSON.parse(value);
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

/** @typedef {import("./client/api.js").components["schemas"]["MarkdownNode"]} MarkdownNode */

const TAGS = new Set([
  "p",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "ul",
  "ol",
  "li",
  "blockquote",
  "pre",
  "code",
  "em",
  "strong",
  "del",
  "hr",
  "br",
  "table",
  "thead",
  "tbody",
  "tr",
  "th",
  "td",
  "span",
  "a",
]);

/** Builds elements of the server's nodes. @param {MarkdownNode[]} nodes @returns {Node[]} */
function build(nodes) {
  return nodes.map((node) => {
    if (!node.tag) return document.createTextNode(node.text ?? "");
    // The headings of a message are below the thread's title.
    const tag = /^h[1-6]$/.test(node.tag) ? `h${Math.min(6, Number(node.tag[1]) + 1)}` : node.tag;
    const element = document.createElement(TAGS.has(tag) ? tag : "span");
    const { href, class: classes, align, start } = node.attributes ?? {};
    if (href && /^(https?|mailto):/i.test(href)) {
      element.setAttribute("href", href);
      element.setAttribute("rel", "noopener noreferrer");
      element.setAttribute("target", "_blank");
    }
    if (classes) element.className = classes;
    if (align) element.style.textAlign = align;
    if (start) element.setAttribute("start", start);
    if (tag === "pre" || tag === "table") element.tabIndex = 0; // they scroll
    element.append(...build(node.children ?? []));
    return element;
  });
}

/** @typedef {{ text: string, elements: Element[], done: (nodes: MarkdownNode[]) => void, failed: (error: unknown) => void }} Job A text that is to be rendered, and where. */

/** @type {Map<string, { nodes: Promise<MarkdownNode[]>, elements: Element[] }>} */
const documents = new Map();

/** The text that an element is to show. @type {WeakMap<Element, string>} */
const shows = new WeakMap();

/** @type {Job[]} */
let batch = [];

/** The most texts and characters of one request. */
const BATCH = 100,
  BATCH_SIZE = 400_000;

/** How long texts are collected for one request, in milliseconds. */
const COLLECT = 20;

function render() {
  const texts = [];
  let size = 0;
  // What was scrolled away meanwhile is rendered when it is shown again.
  const gone = batch.filter((job) => !job.elements.some((e) => e.isConnected));
  gone.forEach((job) => job.failed(undefined));
  batch = batch.filter((job) => !gone.includes(job));
  while (batch.length > texts.length && texts.length < BATCH && (size === 0 || size + batch[texts.length].text.length < BATCH_SIZE)) {
    size += batch[texts.length].text.length;
    texts.push(batch[texts.length].text);
  }
  const now = batch.slice(0, texts.length);
  batch = batch.slice(texts.length);
  if (batch.length > 0) setTimeout(render);
  if (texts.length === 0) return;
  client.request("POST /v1/markdown", { body: { texts } }).then(
    ({ documents }) => now.forEach((job, i) => job.done(documents[i])),
    (error) => now.forEach((job) => job.failed(error)),
  );
}

/**
 * Shows text as Markdown: as plain text at first, rendered once the server has answered.
 * @param {Element} element @param {string} text
 */
export function markdown(element, text) {
  let known = documents.get(text);
  if (known) known.elements.push(element);
  else {
    /** @type {Element[]} */
    const elements = [element];
    const nodes =
      text === ""
        ? Promise.resolve([])
        : /** @type {Promise<MarkdownNode[]>} */ (
            new Promise((done, failed) => {
              if (batch.push({ text, elements, done, failed }) === 1) setTimeout(render, COLLECT);
            })
          );
    known = { nodes, elements };
    documents.set(text, known);
    if (documents.size > 2000) documents.delete(/** @type {string} */ (documents.keys().next().value));
  }
  element.setAttribute("data-text", "");
  if (element.childNodes.length !== 1 || element.textContent !== visible(text)) fill(element, text);
  shows.set(element, text);
  known.nodes.then(
    (list) => {
      known.elements = [];
      if (shows.get(element) !== text) return;
      element.removeAttribute("data-text");
      element.replaceChildren(...build(list));
    },
    () => documents.delete(text), // it remains plain text, until it is shown again
  );
}

/**
 * A button.
 * @param {string} label @param {(e: MouseEvent) => unknown} onclick @param {Record<string, any>} [props]
 */
export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

/** The header of what is beside a thread. @param {string} title @param {() => void} close */
export function sideHeader(title, close) {
  return h("header", { class: "row" }, h("h2", { class: "grow" }, title), button("×", close, { class: "quiet", "aria-label": "Close the details" }));
}

/** A list of names and values, without those that are missing. @param {[string, any][]} list */
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
