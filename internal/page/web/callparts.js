// What a call of a tool is, and what it returned, in the parts that people read: a command as a command, an edit as a difference.

import { differing, isUnified, unified } from "./difflines.js";
import { parseExact } from "./exactjson.js";

/** @import { DiffLine } from "./difflines.js" */

/**
 * @typedef {{ kind: "command", text: string }
 *   | { kind: "diff", name: string, lines: DiffLine[] }
 *   | { kind: "json", value: object }
 *   | { kind: "text", text: string }} Part
 */

/** Names of tools that run commands, and of the arguments that have them. */
const SHELLS = /(^|[^a-z])(shell|bash|sh|zsh|exec|execute|command|cmd|terminal|powershell|run)([^a-z]|$)/i;
const COMMANDS = ["command", "cmd", "script"];

/** Names of the arguments that have a text before and after an edit. */
const EDITS = [
  ["old_string", "new_string"],
  ["oldText", "newText"],
  ["old_text", "new_text"],
  ["old_str", "new_str"],
  ["oldString", "newString"],
  ["old", "new"],
  ["before", "after"],
  ["search", "replace"],
];

/** Names of the arguments that say what is edited. */
const PATHS = ["path", "file_path", "filePath", "file", "filename"];

/** @param {string} text @returns {unknown} */
function parsed(text) {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The parts of the arguments of a call. @param {string} name @param {string} args @returns {Part[]} */
export function partsOfCall(name, args) {
  const given = parsed(args);
  if (!isObject(given)) return partsOfText(args);
  const command = commandIn(name, given);
  if (command) return [{ kind: "command", text: command.text }, ...rest(given, [command.name])];
  const edit = editIn(given);
  if (edit) return [...edit.parts, ...rest(given, edit.names)];
  return [{ kind: "json", value: given }];
}

/** The command that a call runs, if it runs one. @param {string} name @param {string} args */
export function commandOf(name, args) {
  const given = parsed(args);
  return isObject(given) ? commandIn(name, given)?.text : undefined;
}

/** The parts of a text: JSON, a difference, or text. @param {string} text @returns {Part[]} */
export function partsOfText(text) {
  if (isUnified(text)) return [{ kind: "diff", name: "", lines: unified(text) }];
  const value = parsed(text);
  return typeof value === "object" && value !== null ? [{ kind: "json", value }] : [{ kind: "text", text }];
}

/** @param {string} tool @param {Record<string, unknown>} given */
function commandIn(tool, given) {
  if (!SHELLS.test(tool)) return undefined;
  const name = COMMANDS.find((one) => typeof given[one] === "string" && given[one] !== "");
  return name === undefined ? undefined : { name, text: /** @type {string} */ (given[name]) };
}

/** What a call edits, as differences. @param {Record<string, unknown>} given @returns {{ names: string[], parts: Part[] } | undefined} */
function editIn(given) {
  const pathName = PATHS.find((one) => typeof given[one] === "string");
  const path = pathName ? /** @type {string} */ (given[pathName]) : "";
  const names = pathName ? [pathName] : [];
  for (const name of ["patch", "diff"]) {
    const text = given[name];
    if (typeof text === "string" && isUnified(text)) return { names: [...names, name], parts: [{ kind: "diff", name: path, lines: unified(text) }] };
  }
  const one = pairIn(given);
  if (one && pathName) return { names: [...names, ...one.names], parts: [{ kind: "diff", name: path, lines: one.lines }] };
  const { edits } = given;
  if (!Array.isArray(edits) || edits.length === 0) return undefined;
  const pairs = edits.map((edit) => (isObject(edit) ? pairIn(edit) : undefined));
  if (!pairs.every((pair) => pair !== undefined)) return undefined;
  return { names: [...names, "edits"], parts: pairs.map(({ lines }) => ({ kind: "diff", name: path, lines })) };
}

/** @param {Record<string, unknown>} given */
function pairIn(given) {
  for (const names of EDITS) {
    const [before, after] = names.map((name) => given[name]);
    if (typeof before === "string" && typeof after === "string") return { names, lines: differing(before, after) };
  }
  return undefined;
}

/** The other arguments. @param {Record<string, unknown>} given @param {string[]} shown @returns {Part[]} */
function rest(given, shown) {
  const others = Object.entries(given).filter(([name]) => !shown.includes(name));
  return others.length > 0 ? [{ kind: "json", value: Object.fromEntries(others) }] : [];
}
