// What the roles of a key allow, and why a key does not open the page.

/** The roles, with what they allow on the page. @type {[role: string, allows: string][]} */
export const ROLES = [
  ["read", "see threads, approvals, agents, knowledge and schedules"],
  ["post", "open threads, write messages, answer questions, add documents"],
  ["approve", "decide on tool calls, and revoke grants"],
  ["operate", "rename, stop and close threads, run schedules, remove documents"],
  ["send-as", "send messages as an agent, a tool or the system"],
  ["admin", "everything, and store agents and MCP servers"],
];

/**
 * Why the page stays closed, in words for people.
 * @param {{ status: number, message: string }} error @param {string} key That of the request, or "".
 * @returns {{ title: string, text: string, error: boolean }}
 */
export function refusal({ status, message }, key) {
  const reason = message.replace(/^not authenticated: /, "");
  const text = reason.slice(0, 1).toUpperCase() + reason.slice(1);
  if (status === 401 && key === "") return { title: "Sign in", text: "This server requires an API key.", error: false };
  if (status === 401 && !key.startsWith("tmk_")) return { title: "This is not a key", text: "A key begins with tmk_. Copy all of it.", error: true };
  if (status === 401) return { title: "This key is not accepted", text, error: true };
  if (status === 403) return { title: "This key does not open the page", text, error: true };
  if (status === 0) return { title: "The server cannot be reached", text: "Check the connection, and try again.", error: true };
  return { title: "The key cannot be checked now", text, error: true };
}
