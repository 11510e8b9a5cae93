// The lines of a difference.

/** @typedef {{ kind: "same" | "add" | "del" | "hunk" | "meta", text: string }} DiffLine */

/** The most pairs of lines that are compared: texts with more are shown as replaced where they differ. */
const MAX_PAIRS = 4_000_000;

/**
 * The lines that differ between two texts.
 * @param {string} before @param {string} after @returns {DiffLine[]}
 */
export function differing(before, after) {
  const a = before.split("\n"),
    b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (/** @type {string[]} */ lines) => lines.map((text) => /** @type {DiffLine} */ ({ kind: "same", text }));
  return [...same(a.slice(0, start)), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(a.slice(a.length - end))];
}

/** @param {string[]} a @param {string[]} b @returns {DiffLine[]} */
function middle(a, b) {
  /** Lengths of the longest common parts. @type {Uint32Array[]} */
  const common = a.length * b.length > MAX_PAIRS ? [] : Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0 && common.length > 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  /** @type {DiffLine[]} */
  const out = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (common.length > 0 && i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: "same", text: a[i++] });
      j++;
    } else if (i < a.length && (j === b.length || common.length === 0 || common[i + 1][j] >= common[i][j + 1])) out.push({ kind: "del", text: a[i++] });
    else out.push({ kind: "add", text: b[j++] });
  }
  return out;
}

/** Whether a text is a difference in the unified format. @param {string} text */
export function isUnified(text) {
  return /^(?:diff --git .*|Index: .*)$/m.test(text) ? /^@@ -\d/m.test(text) : /^--- .*\n\+\+\+ .*\n@@ -\d/m.test(text);
}

/** The lines of a difference in the unified format, which may have a text around it. @param {string} text @returns {DiffLine[]} */
export function unified(text) {
  /** How many lines of the hunk are still to come, of each side. */
  let before = 0,
    after = 0;
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => {
      const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
      if (hunk) {
        before = Number(hunk[1] ?? 1);
        after = Number(hunk[2] ?? 1);
        return { kind: "hunk", text: line };
      }
      if (before <= 0 && after <= 0) return { kind: "meta", text: line };
      const [sign] = line;
      if (sign === "-") before--;
      else if (sign === "+") after--;
      else if (sign === "\\") return { kind: "meta", text: line };
      else {
        before--;
        after--;
      }
      return { kind: sign === "-" ? "del" : sign === "+" ? "add" : "same", text: line.slice(1) };
    });
}
