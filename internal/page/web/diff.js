// The difference between two texts, line by line.

import { differing } from "./difflines.js";
import { h } from "./dom.js";

/** @import { DiffLine } from "./difflines.js" */

/** The lines that differ between two texts. @param {string} before @param {string} after */
export const diff = (before, after) => diffLines(differing(before, after));

/** @param {DiffLine[]} lines */
export function diffLines(lines) {
  return h("pre", { class: "diff", "aria-label": "Changes", tabIndex: 0 }, lines.map(lineOf));
}

/** @param {DiffLine} line */
function lineOf({ kind, text }) {
  switch (kind) {
    case "add":
      return h("ins", null, `+ ${text}\n`);
    case "del":
      return h("del", null, `- ${text}\n`);
    case "same":
      return h("span", null, `  ${text}\n`);
  }
  return h("span", { class: kind }, `${text}\n`);
}
