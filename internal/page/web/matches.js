// Which lines of a thread have a text.

/** @import { Line } from "./timeline.js" */

/** Whether a line has a text, in any case. @param {Line} line @param {string} text */
export function hasText(line, text) {
  const parts = [line.text, line.thought, line.error, line.name, line.args, line.output, line.status?.detail, line.event && JSON.stringify(line.event)];
  return parts.some((part) => part?.toLowerCase().includes(text.toLowerCase()));
}

/**
 * The next line with a text.
 * @param {Line[]} lines @param {string} text
 * @param {number} from Where to begin: the line after it or, with a step of -1, before it.
 * @param {1 | -1} step
 */
export function nextWith(lines, text, from, step) {
  for (let i = from + step; i >= 0 && i < lines.length; i += step) if (hasText(lines[i], text)) return i;
  return -1;
}
