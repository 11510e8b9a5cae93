// The difference between two texts.

import { h } from "./dom.js";

/**
 * The lines that differ between two texts.
 * @param {string} before @param {string} after
 */
export function diff(before, after) {
  const a = before.split("\n"),
    b = after.split("\n");
  /** Lengths of the longest common parts. @type {number[][]} */
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const out = h("pre", { class: "diff", "aria-label": "Changes", tabIndex: 0 });
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.append(h("span", null, `  ${a[i++]}\n`));
      j++;
    } else if (j < b.length && (i === a.length || common[i][j + 1] >= common[i + 1][j])) out.append(h("ins", null, `+ ${b[j++]}\n`));
    else out.append(h("del", null, `- ${a[i++]}\n`));
  }
  return out;
}
