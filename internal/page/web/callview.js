// The parts of a call and of its result.

import { partsOfCall, partsOfText } from "./callparts.js";
import { diffLines } from "./diff.js";
import { button, copyButton, fill, h } from "./dom.js";
import { isSmall, nodeHas, nodeOf } from "./jsontree.js";
import { outputOf } from "./output.js";

/** @import { Part } from "./callparts.js" */
/** @import { JSONNode } from "./jsontree.js" */

/** Texts that are longer than this are folded: in characters, and in lines. */
const LONG = 1200,
  LINES = 24;

/** @typedef {{ element: HTMLElement, reveal: (text: string) => void }} View What shows a part. reveal unfolds what has a text. */

/** The arguments of a call. @param {string} name @param {string} args */
export function callView(name, args) {
  return viewOf(partsOfCall(name, args), "args", "Arguments");
}

/** A result. @param {string} text @param {string} kind The class of its texts. */
export function resultView(text, kind) {
  return viewOf(partsOfText(text), kind, "Result");
}

/** All that a call has returned, to be copied as it is. @param {string} output @param {boolean} failed @returns {View} */
export function outputView(output, failed) {
  const { text, error, rest } = outputOf(output);
  const views = [];
  if (text !== "") views.push(resultView(text, failed ? "output failed" : "output"));
  if (error !== "") views.push(longText(error, "output stderr", "Standard error"));
  const { element, reveal } = joined(views);
  element.append(
    h(
      "div",
      { class: "row" },
      rest !== "" && h("span", { class: "hint" }, rest),
      copyButton("Copy", () => output),
    ),
  );
  return { element, reveal };
}

/** @param {Part[]} parts @param {string} kind @param {string} label @returns {View} */
function viewOf(parts, kind, label) {
  return joined(parts.map((part) => partView(part, kind, label)));
}

/** @param {View[]} views @returns {View} */
function joined(views) {
  return {
    element: h(
      "div",
      { class: "parts" },
      views.map((view) => view.element),
    ),
    reveal: (text) => {
      for (const view of views) view.reveal(text);
    },
  };
}

const nothing = () => {};

/** @param {Part} part @param {string} kind @param {string} label @returns {View} */
function partView(part, kind, label) {
  switch (part.kind) {
    case "command":
      return {
        element: h(
          "pre",
          { class: `code command ${kind}`, tabIndex: 0, "aria-label": "Command" },
          h("span", { class: "prompt", "aria-hidden": "true" }, "$ "),
          part.text,
        ),
        reveal: nothing,
      };
    case "diff":
      return { element: h("div", null, part.name && h("p", { class: "hint" }, h("code", null, part.name)), diffLines(part.lines)), reveal: nothing };
    case "text":
      return longText(part.text, kind, label);
  }
  if (isSmall(part.value))
    return { element: h("pre", { class: `code ${kind}`, tabIndex: 0, "aria-label": label }, JSON.stringify(part.value, null, 2)), reveal: nothing };
  const root = nodeOf(part.value);
  const parts = root.parts?.() ?? [];
  const views = parts.map(nodeView);
  return {
    element: h(
      "div",
      { class: `code json ${kind}`, role: "group", "aria-label": label, tabIndex: 0 },
      views.map((view) => view.element),
    ),
    reveal: (text) => {
      for (const view of views) view.reveal(text);
    },
  };
}

/** @param {JSONNode} node @returns {View} */
function nodeView(node) {
  const name = node.name !== "" && [h("span", { class: "json-name" }, node.name), ": "];
  const { parts } = node;
  if (!parts && node.prose) {
    const text = longText(node.text, "json-prose", node.name);
    return { element: h("div", null, name, text.element), reveal: text.reveal };
  }
  if (!parts) return { element: h("div", null, name, h("span", { class: `json-${node.type}` }, node.text)), reveal: nothing };
  const place = h("div", { class: "json-parts" });
  /** @type {View[] | undefined} */
  let views;
  const build = () => {
    if (views) return;
    views = parts().map(nodeView);
    fill(
      place,
      views.map((view) => view.element),
    );
  };
  if (node.open) build();
  const element = h(
    "details",
    { open: node.open, ontoggle: () => element.open && build() },
    h("summary", null, name, h("span", { class: "hint" }, node.text)),
    place,
  );
  return {
    element,
    reveal: (text) => {
      if (!nodeHas(node, text.toLowerCase())) return;
      build();
      element.open = true;
      for (const view of views ?? []) view.reveal(text);
    },
  };
}

/** How much of a text is shown while it is folded: that many characters. @param {string} text */
function foldedLength(text) {
  let end = -1;
  for (let line = 0; line < LINES; line++) {
    end = text.indexOf("\n", end + 1);
    if (end < 0) return LONG;
  }
  return Math.min(end, LONG);
}

/** Text that is folded if it is long. @param {string} text @param {string} kind @param {string} label @returns {View} */
export function longText(text, kind, label) {
  const length = foldedLength(text);
  const whole = h("pre", { class: kind, tabIndex: 0, "aria-label": label }, text.length > length ? `${text.slice(0, length)}…` : text);
  const unfold = () => {
    const focused = document.activeElement === more;
    fill(whole, text);
    more?.remove();
    if (focused) whole.focus({ preventScroll: true });
  };
  const more = text.length > length ? button(`Show all ${text.length.toLocaleString()} characters`, unfold, { class: "quiet" }) : undefined;
  return {
    element: h("div", null, whole, more),
    reveal: (found) => {
      if (more && text.toLowerCase().indexOf(found.toLowerCase()) + found.length > length) unfold();
    },
  };
}
