// How long what people write may be. The server says it, and counts bytes.

/** The share of a limit from which people are told how much is left. */
const NEAR = 0.8;

const encoder = new TextEncoder();

/** The bytes of a text. @param {string} text */
export const textBytes = (text) => encoder.encode(text).length;

/** The bytes of a value as the server keeps it: as JSON in which characters of HTML are escaped. @param {unknown} value */
export const jsonBytes = (value) => textBytes(JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, "\\u0000"));

/** The bytes of a message as the server counts them. @param {{ threadId: string, sender: string, content: string }} message */
export const messageBytes = ({ threadId, sender, content }) => jsonBytes({ threadId, senderId: sender, senderType: "user", content });

/** What people are told of a length: nothing while it is far from the limit. @param {number} size @param {number} limit @returns {{ text: string, over: boolean }} */
export function toldOf(size, limit) {
  const most = `${limit.toLocaleString()} bytes`;
  const over = size - limit;
  if (over > 0) return { text: `${over.toLocaleString()} ${over === 1 ? "byte" : "bytes"} too long: at most ${most}.`, over: true };
  return { text: size > limit * NEAR ? `${size.toLocaleString()} of at most ${most}.` : "", over: false };
}
