// Which messages stand side by side: those that several agents wrote at the same time.

/** @import { Line } from "./timeline.js" */

/** Agents that wrote together for less than this wrote one after the other, by the clocks of two workers. In milliseconds. */
const TOGETHER = 100;

/** When a stored message was written, in milliseconds since 1970. @param {Line} line */
function written({ createdAt, durationMs }) {
  if (!createdAt || !durationMs) return undefined;
  const end = Date.parse(createdAt);
  return { start: end - durationMs, end };
}

/** Whether two agents wrote messages at the same time. @param {Line} a @param {Line} b */
function areTogether(a, b) {
  if (a.agent === b.agent) return false;
  if (a.state === "streaming" || b.state === "streaming") return a.state === b.state;
  const one = written(a),
    other = written(b);
  return one !== undefined && other !== undefined && Math.min(one.end, other.end) - Math.max(one.start, other.start) >= TOGETHER;
}

/**
 * The groups of adjacent messages that stand side by side.
 * @param {readonly Line[]} lines @param {ReadonlySet<string>} known The keys of lines that have stood so, and stay so.
 */
export function besideOf(lines, known) {
  /** @type {Line[][]} */
  const groups = [];
  /** @type {Line[]} */
  let group = [];
  for (const line of lines) {
    const isReply = line.kind === "message" && line.agent !== undefined;
    const joins = isReply && group.some((other) => areTogether(other, line) || (known.has(other.key) && known.has(line.key)));
    if (!joins) {
      if (group.length > 1) groups.push(group);
      group = [];
    }
    if (isReply) group.push(line);
  }
  if (group.length > 1) groups.push(group);
  return groups;
}
