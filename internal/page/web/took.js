// What a message took, in words: its model call, or its wait in the queue.

import { durationText } from "./durations.js";

/** @import { Line } from "./timeline.js" */

/** @param {Pick<Line, "usage" | "durationMs" | "postedAt" | "createdAt">} of @returns {{ text: string, detail: string } | undefined} Nothing if it is not known. */
export function tookText({ usage, durationMs, postedAt, createdAt }) {
  if (postedAt && createdAt) {
    const text = `waited ${durationText(Date.parse(createdAt) - Date.parse(postedAt))}`;
    return { text, detail: `It ${text} in the queue.` };
  }
  const tokens = usage && usage.inputTokens + usage.outputTokens > 0 ? usage : undefined;
  const time = durationMs ? durationText(durationMs) : "";
  if (!tokens && !time) return undefined;
  /** @param {number} n */
  const counted = (n) => n.toLocaleString();
  return {
    text: [tokens && `${counted(tokens.inputTokens + tokens.outputTokens)} tokens`, time].filter(Boolean).join(" · "),
    detail: [tokens && `${counted(tokens.inputTokens)} tokens in, ${counted(tokens.outputTokens)} out`, time && `the model took ${time}`]
      .filter(Boolean)
      .join("; "),
  };
}
