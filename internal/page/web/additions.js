// Documents that the person adds: sent, and followed until they are indexed. They outlive the view that shows them.

import { APIError } from "./client/threadmill.js";
import { client } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @import { KnowledgeDocument } from "./documentparts.js" */
/** @import { NamedFile } from "./files.js" */

/**
 * A document that is added.
 * @typedef {object} Addition
 * @property {string} name
 * @property {"waiting" | "sending" | KnowledgeDocument["status"]} state
 * @property {number} sent The part that was sent, from 0 to 1.
 * @property {string} [error]
 * @property {KnowledgeDocument} [document]
 * @property {() => Promise<KnowledgeDocument>} send
 */

/** Files that are sent at once. */
const AT_ONCE = 3;

/** The largest file that a server reads, in bytes. */
const MAX_FILE = 32 << 20;

/** How often a server that is too busy is asked again. */
const ATTEMPTS = 10;

/** How often documents are read while they are processed, in milliseconds. */
const EVERY = 1000;

/** The additions since the page was opened, the oldest first. @type {Addition[]} */
export const additions = [];

/** It has an event "change" for each change of an addition, and "document" when a document has changed with it. */
export const changes = new EventTarget();

const changed = () => changes.dispatchEvent(new Event("change"));

/** Adds files. @param {NamedFile[]} files @param {string} collection */
export function addFiles(files, collection) {
  for (const { file, name } of files) {
    /** @type {Addition} */
    const addition = {
      name,
      state: "waiting",
      sent: 0,
      send: () =>
        upload(file, { source: name, collection }, (part) => {
          addition.sent = part;
          changed();
        }),
    };
    if (file.size > MAX_FILE) Object.assign(addition, { state: "failed", error: "It is larger than 32 MiB. Split it, or add its text without the images." });
    additions.push(addition);
  }
  next();
}

/**
 * Adds a document that has an address or a text, and rejects if the server does.
 * @param {components["schemas"]["NewKnowledgeDocument"]} body
 */
export async function addDocument(body) {
  const send = () => client.request("POST /v1/knowledge/documents", { body });
  /** @type {KnowledgeDocument} */
  const document = await send();
  additions.push({ name: body.title || body.source, state: document.status, sent: 1, document, send });
  accepted();
}

/** Sends a file again that failed. @param {Addition} addition */
export function again(addition) {
  Object.assign(addition, { state: "waiting", sent: 0, error: undefined, document: undefined });
  next();
}

/** Forgets the additions that have ended. */
export function forgetEnded() {
  additions.splice(0, additions.length, ...additions.filter((a) => !hasEnded(a)));
  changed();
}

/** @param {Addition} a */
export const hasEnded = (a) => a.state === "indexed" || a.state === "failed";

/** Sends what waits, as far as there is room. */
function next() {
  while (additions.filter((a) => a.state === "sending").length < AT_ONCE) {
    const waiting = additions.find((a) => a.state === "waiting");
    if (!waiting) break;
    send(waiting);
  }
  changed();
}

/** @param {Addition} addition */
async function send(addition) {
  addition.state = "sending";
  try {
    addition.document = await patiently(addition.send);
    addition.state = addition.document.status;
    addition.error = addition.document.error;
    accepted();
  } catch (error) {
    Object.assign(addition, { state: "failed", error: /** @type {Error} */ (error).message });
  }
  next();
}

/** Sends again what a busy server asks for again. @template T @param {() => Promise<T>} send @returns {Promise<T>} */
async function patiently(send) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof APIError) || !error.retryAfter || attempt === ATTEMPTS) throw error;
      await new Promise((done) => setTimeout(done, (error.retryAfter ?? 1) * 1000));
    }
  }
}

/** @param {File} file @param {Record<string, string>} query @param {(part: number) => void} onProgress @returns {Promise<KnowledgeDocument>} */
function upload(file, query, onProgress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest(); // fetch does not tell how much was sent
    request.open("POST", `${client.baseURL}/v1/knowledge/files?${new URLSearchParams(query)}`);
    // The name says better than a browser what a file is.
    for (const [name, value] of Object.entries({ ...client.authorization(), "Content-Type": "application/octet-stream" }))
      request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = (e) => onProgress(e.loaded / Math.max(1, e.total));
    request.onerror = () => failed(new APIError(0, { detail: "It could not be sent: the server cannot be reached, or the file cannot be read" }));
    request.onload = () =>
      request.status < 300
        ? done(request.response)
        : failed(new APIError(request.status, request.response ?? {}, Number(request.getResponseHeader("Retry-After")) || undefined));
    request.send(file);
  });
}

let following = false;

/** Follows the documents that are processed. */
async function accepted() {
  changed();
  changes.dispatchEvent(new Event("document"));
  if (following) return;
  following = true;
  for (let processed; (processed = additions.filter((a) => a.state === "processing")).length > 0; await new Promise((done) => setTimeout(done, EVERY))) {
    for (const a of processed) await look(a);
  }
  following = false;
}

/** Looks at what has become of a document. @param {Addition} addition */
async function look(addition) {
  try {
    /** @type {KnowledgeDocument} */
    const now = await client.request("GET /v1/knowledge/documents/{id}", { path: { id: /** @type {KnowledgeDocument} */ (addition.document).id } });
    if (now.status === addition.state) return;
    Object.assign(addition, { document: now, state: now.status, error: now.error });
  } catch (error) {
    if (!(error instanceof APIError) || error.status !== 404) return; // the next look tells
    Object.assign(addition, { state: "failed", error: "It was removed while it was processed." });
  }
  changed();
  changes.dispatchEvent(new Event("document"));
}

addEventListener("beforeunload", (e) => {
  if (additions.some((a) => a.state === "waiting" || a.state === "sending")) e.preventDefault();
});
