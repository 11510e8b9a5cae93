// What the command palette finds.

/**
 * The labels that have all words of a text: first those whose words begin with them, otherwise in the order in which they are.
 * @template {{ label: string }} T
 * @param {readonly T[]} items @param {string} text
 * @returns {T[]}
 */
export function matching(items, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  /** @param {T} item */
  const rank = ({ label }) => {
    const lower = label.toLowerCase();
    if (!words.every((word) => lower.includes(word))) return undefined;
    return words.every((word) => ` ${lower}`.includes(` ${word}`)) ? 0 : 1;
  };
  return items
    .map((item) => ({ item, rank: rank(item) }))
    .filter((found) => found.rank !== undefined)
    .sort((a, b) => Number(a.rank) - Number(b.rank))
    .map(({ item }) => item);
}
