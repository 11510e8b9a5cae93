// The keys of the page: what each does, and where.

/**
 * @typedef {object} Key
 * @property {readonly string[]} keys As KeyboardEvent.key names them. "Mod+" is Ctrl, or ⌘ on Apple's keyboards.
 * @property {string} label What it does.
 * @property {"page" | "list" | "thread" | "approvals" | "card" | "message"} where The part of the page in which it applies.
 * @property {string} [command] What app.js runs. Without one, the part handles the key itself.
 * @property {boolean} [repeats] Whether it counts again while it is held.
 */

/** Where keys apply, for people. @type {Record<Key["where"], string>} */
export const PLACES = {
  page: "Everywhere",
  list: "List of threads",
  thread: "Thread",
  approvals: "Approvals",
  card: "Call with the focus",
  message: "Message",
};

export const KEYS = /** @satisfies {readonly Key[]} */ (
  /** @type {const} */ ([
    { keys: ["/"], label: "search threads or, there, knowledge", where: "page", command: "search" },
    { keys: ["n"], label: "new thread", where: "page", command: "open" },
    { keys: ["g"], label: "approvals", where: "page", command: "approvals" },
    { keys: ["Escape"], label: "leave a field; in the list, select nothing", where: "page", command: "leave" },
    { keys: ["Mod+k"], label: "command palette", where: "page", command: "palette" },
    { keys: ["?"], label: "all keys", where: "page", command: "keys" },
    { keys: ["j", "ArrowDown"], label: "next thread", where: "list", command: "next", repeats: true },
    { keys: ["k", "ArrowUp"], label: "previous thread", where: "list", command: "previous", repeats: true },
    { keys: ["Enter"], label: "open the thread", where: "list" },
    { keys: ["x"], label: "select the thread; with Shift and a click, all up to it", where: "list", command: "select" },
    { keys: ["e"], label: "close the thread, or those that are selected", where: "list", command: "close" },
    { keys: ["r"], label: "retry the thread, or those that are selected", where: "list", command: "retry" },
    { keys: ["f"], label: "filter the list", where: "list", command: "filter" },
    { keys: ["u"], label: "show threads that have changed in their order", where: "list", command: "update" },
    { keys: ["Mod+f"], label: "find in the thread", where: "thread" },
    { keys: ["["], label: "previous error", where: "thread" },
    { keys: ["]"], label: "next error", where: "thread" },
    { keys: ["t"], label: "what the turn took: of the line that has the focus, else the last one", where: "thread" },
    { keys: ["j"], label: "next call", where: "approvals" },
    { keys: ["k"], label: "previous call", where: "approvals" },
    { keys: ["Enter"], label: "open the thread of the call", where: "approvals" },
    { keys: ["a"], label: "approve", where: "card" },
    { keys: ["s"], label: "approve for the session", where: "card" },
    { keys: ["p"], label: "approve a pattern", where: "card" },
    { keys: ["e"], label: "edit", where: "card" },
    { keys: ["d"], label: "deny", where: "card" },
    { keys: ["Enter"], label: "send", where: "message" },
    { keys: ["Shift+Enter"], label: "new line", where: "message" },
  ])
);

/** @typedef {Extract<typeof KEYS[number], { command: string }>["command"]} Command */

/**
 * What a key does.
 * @param {{ key: string, ctrlKey: boolean, metaKey: boolean, altKey: boolean, repeat: boolean }} e
 * @param {object} at Where the focus is.
 * @param {"none" | "row" | "card" | "other"} at.list Whether the list of threads is shown, and the focus is in it, in a call that waits, or elsewhere.
 * @param {boolean} at.field Whether the person writes.
 * @param {boolean} at.off Whether keys without Ctrl are turned off.
 * @returns {Command | undefined}
 */
export function commandOf(e, { list, field, off }) {
  if (e.altKey) return undefined;
  const name = e.ctrlKey || e.metaKey ? `Mod+${e.key.toLowerCase()}` : e.key;
  for (const key of KEYS) {
    if (!("command" in key) || !key.keys.some((one) => one === name)) continue;
    if (e.repeat && !("repeats" in key)) continue;
    if ([...name].length === 1 && (off || field)) continue;
    if (key.command === "leave" && !field && list !== "row") continue;
    if (key.where === "page" || list === "row" || (list === "other" && !name.startsWith("Arrow"))) return key.command;
  }
  return undefined;
}

/** A key as keyboards show it. @param {string} name @param {boolean} apple */
export function keyName(name, apple) {
  const symbols = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };
  const [, mod, key = name] = /^(Mod\+|Shift\+)?(.+)$/.exec(name) ?? [];
  const shown = Object.entries(symbols).find(([one]) => one === key)?.[1] ?? (mod ? key.charAt(0).toUpperCase() + key.slice(1) : key);
  if (mod === "Mod+") return apple ? `⌘${shown}` : `Ctrl+${shown}`;
  return (mod ?? "") + shown;
}
