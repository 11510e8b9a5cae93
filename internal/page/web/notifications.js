// Notifications of the browser: one for each thread that begins to wait while nobody sees the page.

import { cut, notify, visible } from "./dom.js";
import { NewlyWaiting } from "./newlywaiting.js";
import { waiting } from "./waiting.js";

const ON = "threadmill.notifications";

/** How often a page that nobody sees asks what waits, in milliseconds: it follows no stream then. */
const BACKGROUND = 30_000;

/** The most characters of a text. */
const LONGEST = 120;

const newly = new NewlyWaiting();

/** Whether the person has asked for notifications, and the browser permits them. */
export function notificationsAreOn() {
  return localStorage.getItem(ON) === "on" && globalThis.Notification?.permission === "granted";
}

/** Turns notifications on, which the browser asks the person about, or off. @param {boolean} on */
export async function turnNotifications(on) {
  if (!on) return localStorage.removeItem(ON);
  const answer = await globalThis.Notification?.requestPermission();
  if (answer !== "granted") return notify("The browser does not permit notifications of this page.", "error");
  localStorage.setItem(ON, "on");
  notify("You will be notified of threads that wait for a person, while this page is not visible.");
}

waiting.addEventListener("change", () => {
  if (waiting.error || !waiting.now) return;
  const news = newly.next(waiting.now);
  if (document.visibilityState === "visible" || !notificationsAreOn()) return;
  for (const { threadId, title, text } of news) show(threadId, title, text);
});

setInterval(() => document.visibilityState === "hidden" && waiting.refresh(), BACKGROUND);

/** @param {string} threadId @param {string} title @param {string} text */
function show(threadId, title, text) {
  try {
    // Tabs that show the same thread replace each other's.
    const notification = new Notification(cut(visible(title), LONGEST), { body: cut(visible(text), LONGEST), tag: `threadmill ${threadId}` });
    notification.onclick = () => {
      window.focus();
      location.hash = `#/threads/${encodeURIComponent(threadId)}`;
      notification.close();
    };
  } catch {
    // Some browsers on phones permit them to service workers only: the count in the title remains.
  }
}
