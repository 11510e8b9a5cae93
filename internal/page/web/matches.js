// Which lines of a thread have a text, or an error.

import { isFailure, settled } from "./timeline.js";

/** @import { Line } from "./timeline.js" */

/** Whether a line has a text, in any case. @param {Line} line @param {string} text */
export function hasText(line, text) {
  const parts = [line.text, line.thought, line.error, line.name, line.args, line.output, line.status?.detail, line.event && JSON.stringify(line.event)];
  return parts.some((part) => part?.toLowerCase().includes(text.toLowerCase()));
}

/** Whether a line shows an error: a failure, or a result that is one, unless a person has denied the call. @param {Line} line */
export function isError(line) {
  if (line.kind === "tool") return line.failed === true && settled(line)?.decision !== "deny";
  return line.kind === "error" || line.error !== undefined || (line.status !== undefined && isFailure(line.status));
}

/**
 * The next line that matches.
 * @param {readonly Line[]} lines @param {(line: Line) => boolean} matches
 * @param {number} from Where to begin: the line after it or, with a step of -1, before it.
 * @param {1 | -1} step
 */
export function nextLine(lines, matches, from, step) {
  for (let i = from + step; i >= 0 && i < lines.length; i += step) if (matches(lines[i])) return i;
  return -1;
}
