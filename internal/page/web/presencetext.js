// What is said of others who look at a thread.

/** What is said of others. @param {string[]} names @param {string} me */
export function presenceText(names, me) {
  const others = [...new Set(names)].filter((name) => name !== me);
  if (names.includes(me)) others.push("you, in another window");
  if (others.length === 0) return "";
  const last = others.length > 3 ? `${others.length - 2} others` : others.at(-1);
  const first = others.slice(0, others.length > 3 ? 2 : -1);
  return `Also here: ${first.length > 0 ? `${first.join(", ")} and ${last}` : last}`;
}
