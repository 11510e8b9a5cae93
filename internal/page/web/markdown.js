// Text as Markdown. The server renders it, as nodes: text never becomes markup.

import { fill, visible } from "./dom.js";
import { client } from "./session.js";

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

/** The text that an element shows now. @type {WeakMap<Element, string>} */
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
