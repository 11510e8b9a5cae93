// The fields of a schedule: those of docs/schedules.md. A test compares them with the API's schema.

import { jsonBytes } from "./limits.js";

/** @import { Doc, Group } from "./draft.js" */

/** @param {Doc} doc */
const posts = (doc) => doc.message !== undefined;
/** @param {Doc} doc */
const publishes = (doc) => doc.event !== undefined;

/** What a run adds to the metadata of its message. An id that the server chooses has 26 letters. @param {Doc} doc */
const runMetadata = ({ id }) => ({ schedule_id: id ?? "x".repeat(26), scheduled_at: "1970-01-01T00:00:00Z" });

/** The bytes of the message that a run posts. @param {string} content @param {Doc} doc */
function postBytes(content, doc) {
  const { sender = "schedule", senderType = "user", metadata } = /** @type {Doc} */ (doc.message ?? {});
  return jsonBytes({
    threadId: doc.threadId ?? "",
    senderId: sender,
    senderType,
    content,
    metadata: { .../** @type {Doc} */ (metadata), ...runMetadata(doc) },
  });
}

/** @type {Group[]} */
export const SCHEDULE = [
  {
    title: "Schedule",
    open: true,
    fields: [
      { path: ["id"], label: "Id", kind: "text", fixed: true, limit: "id", hint: "1 to 128 letters, digits and . _ : @ -. Default: a new one." },
      { path: ["threadId"], label: "Thread", kind: "text", required: true, limit: "id", hint: "The id of the thread to which it posts." },
      { path: ["open"], label: "Open the thread if it does not exist", kind: "flag" },
      {
        path: ["agents"],
        label: "Agents of a thread that it opens",
        kind: "lines",
        hint: "One a line. Default: the default agent.",
        when: (doc) => doc.open === true,
      },
      {
        path: ["title"],
        label: "Title of a thread that it opens",
        kind: "text",
        limit: "title",
        hint: "Default: one is generated, if the server generates titles.",
        when: (doc) => doc.open === true,
      },
    ],
  },
  {
    title: "When",
    open: true,
    fields: [
      {
        path: ["cron"],
        label: "Cron",
        kind: "lines",
        hint: "Minute, hour, day of month, month, day of week: 0 9 * * 1-5 is every weekday at nine. One a line, at most 20.",
      },
      {
        path: ["timezone"],
        label: "Time zone of cron",
        kind: "text",
        list: "timezones",
        hint: "Such as Europe/Berlin. Default: UTC.",
        when: (doc) => doc.cron !== undefined,
      },
      { path: ["every"], label: "Interval", kind: "text", hint: "Such as 90s, 15m or 24h, counted from 1970 (UTC)." },
      {
        path: ["offset"],
        label: "Offset of the interval",
        kind: "text",
        hint: "Less than the interval: 24h with 8h is eight o'clock.",
        when: (doc) => doc.every !== undefined,
      },
    ],
  },
  {
    title: "What it posts",
    open: true,
    legend: "It posts",
    either: [
      { path: "message", label: "a message", initial: { content: "" } },
      { path: "event", label: "an event", initial: { type: "" } },
    ],
    fields: [
      { path: ["message", "content"], label: "Message", kind: "prose", rows: 4, required: true, limit: "message", size: postBytes, when: posts },
      { path: ["message", "sender"], label: "Sender", kind: "text", limit: "name", hint: "Default: schedule.", when: posts },
      {
        path: ["message", "senderType"],
        label: "Kind of sender",
        kind: "choice",
        options: [
          ["user", "user"],
          ["agent", "agent"],
          ["tool", "tool"],
          ["system", "system"],
        ],
        hint: "Default: user, whom agents answer. The others need the role send-as.",
        when: posts,
      },
      { path: ["message", "metadata"], label: "Metadata, as JSON", kind: "json", hint: "Kept with the message; no model sees it.", when: posts },
      { path: ["event", "type"], label: "Type of the event", kind: "text", required: true, hint: "Such as day.begun. Rules route it.", when: publishes },
      { path: ["event", "payload"], label: "Payload, as JSON", kind: "json", when: publishes },
      { path: ["event", "metadata"], label: "Metadata, as JSON", kind: "json", when: publishes },
    ],
  },
  {
    title: "Bounds",
    fields: [
      { path: ["startAt"], label: "Not before", kind: "text", hint: "Such as 2026-12-01T09:00:00Z. Default: no bound." },
      { path: ["endAt"], label: "Not after", kind: "text", hint: "Such as 2026-12-31T18:00:00Z. Default: no bound." },
      { path: ["remaining"], label: "Runs that remain", kind: "integer", min: 0, hint: "Runs by hand do not count. Default: no limit." },
      { path: ["jitter"], label: "Jitter", kind: "text", hint: "Delays each run by a random time up to this, at most 24h. Default: none." },
      {
        path: ["missed"],
        label: "Missed runs",
        kind: "choice",
        options: [
          ["skip", "are skipped"],
          ["once", "are made up for by one run"],
          ["all", "are all made up for"],
        ],
        hint: "After an outage. Default: one run.",
      },
      { path: ["paused"], label: "Paused: runs by hand only", kind: "flag" },
      { path: ["note"], label: "Note", kind: "text", limit: "note", hint: "For people." },
    ],
  },
];
