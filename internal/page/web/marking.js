// The words of a query in a text.

/** Words that say nothing about what is looked for. */
const COMMON = new Set(
  "a an and are as at be by can could do does for from had has have how i if in is it its many may much of on or our shall should so that the their them they this to was we were what when where which who whom whose why will with would you your".split(
    " ",
  ),
);

const WORD = /[\p{L}\p{N}]+/gu;

/** The common part of the forms of an English word. @param {string} word */
export function stem(word) {
  return word
    .normalize("NFD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/(?<=[aeiouy].*)(ations?|ings?|e[sd]?|(?<!s)s|ly)$/, "")
    .replace(/([^aeiouls])\1$/, "$1")
    .replace(/(?<=.)y$/, "i");
}

/**
 * Splits a text at the words of a query, in all of their forms. Common words count only in a query that has no others.
 * @param {string} text @param {string} query @returns {{ text: string, marked: boolean }[]}
 */
export function marked(text, query) {
  const all = query.match(WORD) ?? [];
  const telling = all.filter((word) => !COMMON.has(word.toLowerCase()));
  const stems = new Set((telling.length > 0 ? telling : all).map(stem));
  /** @type {{ text: string, marked: boolean }[]} */
  const parts = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!stems.has(stem(word))) continue;
    if (index > end) parts.push({ text: text.slice(end, index), marked: false });
    parts.push({ text: word, marked: true });
    end = index + word.length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), marked: false });
  return parts;
}
