// The page: its parts, what the address shows, the theme, the connection and the API key.

import "./approvals.js";
import "./agents.js";
import "./inbox.js";
import "./login.js";
import "./rules.js";
import "./schedules.js";
import "./servers.js";
import "./thread.js";
import { APIError } from "./client/threadmill.js";
import { ask } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { watchHealth } from "./health.js";
import { changeName, myName } from "./person.js";
import { load, server, signedIn, signIn, signOut } from "./session.js";
import { waiting } from "./waiting.js";

/** @typedef {import("./client/threadmill.js").StreamState} StreamState */

const THEME = "threadmill.theme";

/** The parts besides threads: name, label, element. */
const PARTS = /** @type {const} */ ([
  ["approvals", "Approvals", "tm-approvals"],
  ["agents", "Agents", "tm-agents"],
  ["knowledge", "Knowledge", "tm-knowledge"],
  ["servers", "MCP servers", "tm-servers"],
  ["rules", "Rules", "tm-rules"],
  ["schedules", "Schedules", "tm-schedules"],
]);

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const list = /** @type {HTMLElement} */ (document.getElementById("list"));
const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
const tools = /** @type {HTMLElement} */ (document.getElementById("tools"));
const badge = h("span", { class: "count", hidden: true });
const connection = h("span", { class: "connection", role: "status" });

/** A part of an address, as it is if somebody has broken it. @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What the address says: the part, what of it, and what is looked for in it. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  const [, part = "", ...rest] = path.split("/");
  return { part, rest: rest.map(decoded), query: new URLSearchParams(query) };
}

/** @type {import("./thread.js").ThreadView | undefined} */
let shown;

function show() {
  const { part, rest } = route();
  const [id = "", anchor = "", place] = rest;
  const inThreads = part === "" || part === "threads" || part === "new";
  document.body.dataset.part = part === "threads" && id ? "thread" : part === "" || part === "threads" ? "list" : part;
  for (const link of nav.querySelectorAll("a")) {
    if ((link.dataset.part === "threads") === inThreads && (inThreads || link.dataset.part === part)) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  /** @type {any} */ (list.querySelector("tm-inbox"))?.select(part === "threads" ? id : "");
  document.title = "Threadmill";
  if (part === "threads" && id) {
    if (shown?.isConnected && shown.threadId === id) return shown.show(anchor, place);
    shown = /** @type {import("./thread.js").ThreadView} */ (h("tm-thread", { threadId: id, anchor, place }));
    return fill(main, shown);
  }
  shown = undefined;
  if (part === "new") return fill(main, h("tm-new-thread"));
  if (part === "servers" && anchor === "login") return fill(main, h("div", { class: "page" }, h("tm-login", { server: id })));
  if (part === "knowledge") return showKnowledge();
  const known = PARTS.find(([name]) => name === part);
  if (known) return fill(main, h("div", { class: "page" }, h(known[2], { agent: id })));
  return fill(
    main,
    h(
      "div",
      { class: "welcome" },
      h("h1", null, "Threadmill"),
      h("p", null, "Choose a thread, or open a new one."),
      h(
        "p",
        { class: "hint" },
        h("kbd", null, "/"),
        " search · ",
        h("kbd", null, "n"),
        " new thread · ",
        h("kbd", null, "g"),
        " approvals · ",
        h("kbd", null, "?"),
        " keys",
      ),
    ),
  );
}

/** Shows what the address says of knowledge. Its modules are loaded when they are needed. */
async function showKnowledge() {
  let view = main.querySelector("tm-knowledge");
  if (!view) fill(main, h("p", { class: "hint loading" }, "Loading…"));
  try {
    await import("./knowledge.js");
  } catch {
    return fill(
      main,
      h(
        "div",
        { class: "welcome" },
        h("p", { role: "alert" }, "This part of the page could not be loaded."),
        button("Try again", () => location.reload()),
      ),
    );
  }
  const { part, rest, query } = route();
  if (part !== "knowledge") return; // somebody went on meanwhile
  view = main.querySelector("tm-knowledge") ?? h("tm-knowledge");
  if (!view.isConnected) fill(main, h("div", { class: "page" }, view));
  /** @type {import("./knowledge.js").KnowledgeView} */ (view).show(rest, query);
}

/** The state of each stream. @type {Map<EventTarget | null, { state: StreamState, error?: Error }>} */
const states = new Map();

document.addEventListener("connection", (e) => {
  const { detail, target } = /** @type {CustomEvent} */ (e);
  if (detail.state === "closed" && !detail.error)
    states.delete(target); // a thread that is closed has no more to follow
  else states.set(target, detail);
  for (const element of states.keys()) if (element instanceof Node && !element.isConnected) states.delete(element);
  const lost = [...states.values()].some((s) => s.state === "waiting");
  const denied = [...states.values()].find((s) => s.error instanceof APIError && s.error.status === 401);
  connection.className = `connection ${lost ? "lost" : "live"}`;
  fill(connection, lost ? "Reconnecting…" : "Live");
  connection.title = lost ? "The connection was lost. What you miss follows when it is back." : "Changes appear as they happen";
  if (denied) signInDialog("Your API key is not valid any more.");
});

let signingIn = false;

/** @param {string} why */
async function signInDialog(why) {
  if (signingIn) return;
  signingIn = true;
  const key = h("input", { type: "password", autocomplete: "off", required: true, "aria-label": "API key" });
  await ask(
    h(
      "dialog",
      null,
      h(
        "form",
        { method: "dialog" },
        h("h2", null, "API key"),
        h("p", null, why),
        h("label", null, "Key", key),
        h("p", { class: "hint" }, "It stays in this tab until you close it."),
        h("button", { class: "primary" }, "Continue"),
      ),
    ),
  );
  signingIn = false;
  if (key.value) signIn(key.value.trim());
  start();
}

function showTools() {
  const theme = document.documentElement.dataset.theme ?? "auto";
  fill(
    tools,
    connection,
    server.name
      ? h("span", { class: "me", title: `Roles: ${server.roles.join(", ")}` }, server.name)
      : button(myName() || "Your name", changeName, { class: "me quiet", title: myName() ? `You are ${myName()}. Change your name` : "Say who you are" }),
    signedIn() &&
      button(
        "Sign out",
        () => {
          signOut();
          location.reload();
        },
        { class: "quiet" },
      ),
    h("a", { href: "/docs", title: "The API" }, "API"),
    button(
      { auto: "◐", light: "☀", dark: "☾" }[theme] ?? "◐",
      () => {
        setTheme({ auto: "light", light: "dark", dark: "auto" }[theme] ?? "auto");
        showTools();
      },
      { class: "quiet", "aria-label": `Theme: ${theme}`, title: `Theme: ${theme}` },
    ),
  );
}

/** @param {string} theme */
function setTheme(theme) {
  localStorage.setItem(THEME, theme);
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

waiting.addEventListener("change", () => {
  const { length } = waiting.now?.approvals ?? [];
  badge.hidden = length === 0;
  fill(badge, length);
  badge.title = `${length} waiting`;
});

document.addEventListener("keydown", (e) => {
  const target = /** @type {HTMLElement} */ (e.target);
  if (e.repeat || e.ctrlKey || e.metaKey || e.altKey || target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  switch (e.key) {
    case "/":
      /** @type {HTMLElement | null} */ ((document.body.dataset.part === "knowledge" ? main : list).querySelector("input[type=search]"))?.focus();
      break;
    case "n":
      location.hash = "#/new";
      break;
    case "g":
      location.hash = "#/approvals";
      break;
    case "?":
      ask(
        h(
          "dialog",
          null,
          h(
            "form",
            { method: "dialog" },
            h("h2", null, "Keys"),
            h(
              "dl",
              { class: "facts" },
              [
                ["/", "search threads, or knowledge"],
                ["n", "new thread"],
                ["g", "approvals"],
                ["Ctrl+F", "find in the thread"],
                ["[, ]", "previous and next error in the thread"],
                ["j, k", "next and previous approval"],
                ["a, s, p, e, d", "approve, for the session, a pattern, edit, deny"],
                ["Enter", "send; with Shift: a new line"],
              ].flatMap(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]),
            ),
            h("button", { class: "primary" }, "Close"),
          ),
        ),
      );
      break;
    default:
      return;
  }
  e.preventDefault();
});

async function start() {
  try {
    await load();
  } catch (error) {
    if (error instanceof APIError && (error.status === 401 || error.status === 403)) {
      return signInDialog(error.status === 403 ? error.message : "This server requires an API key.");
    }
    fill(
      main,
      h(
        "div",
        { class: "welcome" },
        h("h1", null, "No connection"),
        h("p", { role: "alert" }, /** @type {Error} */ (error).message),
        button("Try again", start),
      ),
    );
    setTimeout(start, 3000);
    return;
  }
  showTools();
  fill(
    nav,
    h("a", { href: "#/", "data-part": "threads" }, "Threads"),
    PARTS.map(([name, label]) => h("a", { href: `#/${name}`, "data-part": name }, label, name === "approvals" && [" ", badge])),
  );
  fill(list, h("tm-inbox"));
  show();
  watchHealth();
}

document.addEventListener("name-changed", showTools);
addEventListener("storage", showTools); // another tab changed the name
addEventListener("hashchange", show);
setTheme(localStorage.getItem(THEME) ?? "auto");
start();
