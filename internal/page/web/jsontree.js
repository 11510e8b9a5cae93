// JSON as a tree, of which the large parts are folded.

import { isExact } from "./exactjson.js";

/**
 * @typedef {object} JSONNode
 * @property {string} name Of the value in what has it, or "".
 * @property {string} text The value of a leaf, or a short form of what has parts.
 * @property {"string" | "number" | "boolean" | "null" | "object" | "array"} type
 * @property {boolean} [open] Whether the parts are shown at first.
 * @property {() => JSONNode[]} [parts]
 * @property {boolean} [prose] Of a string: it is shown as text, since it is long or has several lines.
 */

/** JSON of more lines is folded. */
export const FOLDED_LINES = 16;

/** The most parts that are shown at once; more of them are folded in groups. */
const GROUP = 100;

/** Strings that are longer than this, or have several lines, are shown as text. In characters. */
const PROSE = 160;

/** How many lines JSON has when it is indented, counted up to a limit. @param {unknown} value @param {number} [limit] */
export function linesOf(value, limit = Number.POSITIVE_INFINITY) {
  if (typeof value !== "object" || value === null || isExact(value)) return 1;
  const parts = Object.values(value);
  let lines = parts.length === 0 ? 1 : 2;
  for (const part of parts) {
    if (lines >= limit) break;
    lines += linesOf(part, limit - lines);
  }
  return lines;
}

/** Whether JSON is small enough to be shown as it is. @param {object} value */
export function isSmall(value) {
  return linesOf(value, FOLDED_LINES + 1) <= FOLDED_LINES && !hasProse(value);
}

/** @param {unknown} value @returns {boolean} */
function hasProse(value) {
  if (typeof value === "string") return isProse(value);
  return typeof value === "object" && value !== null && !isExact(value) && Object.values(value).some(hasProse);
}

/** @param {string} text */
const isProse = (text) => text.length > PROSE || /\n./.test(text);

/** @param {unknown} value @param {string} [name] @returns {JSONNode} */
export function nodeOf(value, name = "") {
  if (typeof value === "string") return { name, type: "string", text: isProse(value) ? value : JSON.stringify(value), prose: isProse(value) };
  if (isExact(value)) return { name, type: "number", text: JSON.stringify(value) };
  if (typeof value !== "object" || value === null)
    return { name, type: value === null ? "null" : /** @type {"number" | "boolean"} */ (typeof value), text: JSON.stringify(value) ?? "null" };
  const entries = Object.entries(value);
  const [type, text] = Array.isArray(value) ? branch("array", "[", "]", entries.length, "item") : branch("object", "{", "}", entries.length, "field");
  if (entries.length === 0) return { name, type, text };
  return { name, type, text, open: linesOf(value, FOLDED_LINES + 1) <= FOLDED_LINES, parts: () => grouped(entries) };
}

/** @param {"array" | "object"} type @param {string} opens @param {string} closes @param {number} n @param {string} unit @returns {["array" | "object", string]} */
function branch(type, opens, closes, n, unit) {
  return [type, n === 0 ? opens + closes : `${opens} ${n.toLocaleString()} ${unit}${n === 1 ? "" : "s"} ${closes}`];
}

/** @param {[string, unknown][]} entries @returns {JSONNode[]} */
function grouped(entries) {
  if (entries.length <= GROUP) return entries.map(([name, value]) => nodeOf(value, name));
  let size = GROUP;
  while (entries.length / size > GROUP) size *= GROUP;
  /** @type {JSONNode[]} */
  const groups = [];
  for (let i = 0; i < entries.length; i += size) {
    const part = entries.slice(i, i + size);
    groups.push({
      name: part.length === 1 ? part[0][0] : `${part[0][0]} … ${part[part.length - 1][0]}`,
      type: "array",
      text: "",
      open: false,
      parts: () => grouped(part),
    });
  }
  return groups;
}

/** Whether a value has a text in a name, a string or another leaf, in any case. @param {JSONNode} node @param {string} lower The text, in lower case. @returns {boolean} */
export function nodeHas(node, lower) {
  if (node.name.toLowerCase().includes(lower)) return true;
  return node.parts ? node.parts().some((part) => nodeHas(part, lower)) : node.text.toLowerCase().includes(lower);
}
