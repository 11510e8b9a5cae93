// What the server says is wrong with it: without a worker, for example, nothing answers.

import { APIError } from "./client/threadmill.js";
import { fill, h } from "./dom.js";
import { client } from "./session.js";

/** How often the page asks, in milliseconds, and how often while something is wrong. */
const EVERY = 20_000,
  SOON = 3000;

/** Words for people. @type {Record<string, string>} */
const NAMES = { store: "The store", stream: "The live stream", temporal: "Temporal", taskQueue: "The task queue", worker: "Nothing is answered now" };

let timer = 0;

/** Asks now, and from time to time while the page is visible. */
export async function watchHealth() {
  clearTimeout(timer);
  const wrong = document.visibilityState === "visible" ? await components() : [];
  show(wrong);
  clearTimeout(timer);
  timer = window.setTimeout(watchHealth, wrong.length > 0 ? SOON : EVERY);
}

/** What is not ok, with the reason. @returns {Promise<[string, string][]>} */
async function components() {
  /** @type {{ components?: Record<string, string> }} */
  let health = {};
  try {
    health = await client.request("GET /readyz");
  } catch (error) {
    if (error instanceof APIError) health = /** @type {{ components?: Record<string, string> }} */ (error.problem);
  }
  return Object.entries(health.components ?? {}).filter(([, state]) => state !== "ok");
}

/** @param {[string, string][]} wrong */
function show(wrong) {
  const place = /** @type {HTMLElement} */ (document.getElementById("health"));
  place.hidden = wrong.length === 0;
  fill(
    place,
    wrong.map(([name, state]) => h("p", null, h("strong", null, NAMES[name] ?? name), `: ${state}`)),
  );
}

document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && watchHealth());
