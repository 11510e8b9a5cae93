// The page: its parts, what the address shows, the theme, the connection and the sign-in.

import { account } from "./account.js";
import "./inbox.js";
import { goTo, unsaved } from "./leaving.js";
import "./menus.js";
import "./thread.js";
import { APIError } from "./client/threadmill.js";
import { act, button, fill, h } from "./dom.js";
import { keepFocusIn } from "./focus.js";
import { watchHealth } from "./health.js";
import { kbd, listenToKeys, showKeys } from "./keyboard.js";
import { changeName, myName, NAME } from "./person.js";
import { savedViews } from "./savedviews.js";
import { load, may, server } from "./session.js";
import "./signin.js";
import { TABS, viewAddress, viewOf } from "./views.js";
import { waiting } from "./waiting.js";
import { showWaitingCount } from "./waitingcount.js";

/** @typedef {import("./client/threadmill.js").StreamState} StreamState */
/** @typedef {import("./inbox.js").Inbox} Inbox */

const THEME = "threadmill.theme";

/** The parts besides threads: name, label, and what they need, which is loaded when they are shown. */
const PARTS = /** @type {const} */ ([
  ["approvals", "Approvals", "tm-approvals", () => import("./approvals.js")],
  ["agents", "Agents", "tm-agents", () => import("./agents.js")],
  ["knowledge", "Knowledge", "tm-knowledge", () => import("./knowledge.js")],
  ["servers", "MCP servers", "tm-servers", () => import("./servers.js")],
  ["rules", "Rules", "tm-rules", () => import("./rules.js")],
  ["schedules", "Schedules", "tm-schedules", () => import("./schedules.js")],
]);

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const list = /** @type {HTMLElement} */ (document.getElementById("list"));
const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
const bar = /** @type {HTMLElement} */ (document.getElementById("top"));
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

/** @type {Inbox | undefined} */
let inbox;

/** @type {import("./thread.js").ThreadView | undefined} */
let shown;

/** The address that is shown, without its query. @type {string | undefined} */
let path;

/** Whether the list of threads is on the screen. */
function isListed() {
  return ["", "threads", "new"].includes(route().part) && list.checkVisibility();
}

/** Does something in the list of threads. @param {() => void} action */
async function inList(action) {
  if (!isListed()) {
    if (!(await goTo(inbox?.address ?? "#/"))) return;
    show();
  }
  action();
}

function show() {
  const { part, rest, query } = route();
  const [id = "", anchor = "", place] = rest;
  const inThreads = part === "" || part === "threads" || part === "new";
  document.body.dataset.part = part === "threads" && id ? "thread" : part === "" || part === "threads" ? "list" : part;
  for (const link of nav.querySelectorAll("a")) {
    if ((link.dataset.part === "threads") === inThreads && (inThreads || link.dataset.part === part)) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  inbox?.show(inThreads && (part === "" || query.size > 0) ? viewOf(query) : undefined, part === "threads" ? id : "");
  if (inbox) nav.querySelector("a")?.setAttribute("href", inbox.address);
  const before = path;
  path = location.hash.split("?", 1)[0];
  if (path === before && inThreads) return; // only the list has changed
  document.title = "Threadmill";
  if (part === "threads" && id) {
    if (shown?.isConnected && shown.threadId === id) return shown.show(anchor, place);
    shown = /** @type {import("./thread.js").ThreadView} */ (h("tm-thread", { threadId: id, anchor, place }));
    return fill(main, shown);
  }
  shown = undefined;
  if (part === "new")
    return showLoaded(
      () => import("./newthread.js"),
      () => h("tm-new-thread"),
    );
  if (part === "servers" && anchor === "login")
    return showLoaded(
      () => import("./login.js"),
      () => pageOf(h("tm-login", { server: id })),
    );
  const known = PARTS.find(([name]) => name === part);
  if (known) return showLoaded(known[3], () => (known[0] === "knowledge" ? knowledge() : pageOf(h(known[2], { item: id, query }))));
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
        kbd("j"),
        " ",
        kbd("k"),
        " move in the list · ",
        kbd("/"),
        " search · ",
        kbd("n"),
        " new thread · ",
        kbd("g"),
        " approvals · ",
        kbd("Mod+k"),
        " commands · ",
        kbd("?"),
        " all keys",
      ),
    ),
  );
}

/** @param {HTMLElement} part */
function pageOf(part) {
  return h("div", { class: "page" }, part);
}

/** Shows a part once its modules are loaded. @param {() => Promise<unknown>} load @param {() => HTMLElement} make */
async function showLoaded(load, make) {
  const wanted = path;
  if (!main.querySelector("tm-knowledge")) fill(main, h("p", { class: "hint loading" }, "Loading…"));
  try {
    await load();
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
  if (path !== wanted) return; // somebody went on meanwhile
  const shown = make();
  if (!shown.isConnected) fill(main, shown);
}

/** Knowledge, which stays while the address leads from one place in it to another. */
function knowledge() {
  const { rest, query } = route();
  const view = /** @type {import("./knowledge.js").KnowledgeView} */ (main.querySelector("tm-knowledge") ?? h("tm-knowledge"));
  const page = view.parentElement ?? pageOf(view);
  if (!page.isConnected) fill(main, page);
  view.show(rest, query);
  return page;
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
  if (denied) askKey(/** @type {APIError} */ (denied.error));
});

/** Lets the person sign in, over what is open. @param {APIError} error */
function askKey(error) {
  if (document.querySelector("tm-sign-in")) return;
  const panes = /** @type {HTMLElement} */ (document.getElementById("panes"));
  bar.inert = panes.inert = true;
  const done = () => {
    bar.inert = panes.inert = false;
    states.clear(); // streams that were refused begin again
    start();
  };
  document.body.append(h("tm-sign-in", { error, done }));
}

function showTools() {
  const theme = document.documentElement.dataset.theme ?? "auto";
  fill(
    tools,
    connection,
    server.name
      ? account()
      : button(myName() || "Your name", changeName, { class: "me quiet", title: myName() ? `You are ${myName()}. Change your name` : "Say who you are" }),
    h("a", { href: "/docs", title: "The API" }, "API"),
    button("?", showKeys, { class: "quiet", "aria-label": "Keys", title: "Keys (?)" }),
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
  const n = (waiting.now?.approvals.length ?? 0) + (waiting.now?.inputs.length ?? 0);
  badge.hidden = n === 0;
  const many = waiting.now?.more ? `${n}+` : String(n);
  fill(badge, many);
  badge.title = `${many} waiting`;
  showWaitingCount(n);
});

/** What the palette offers: places, and what can be done now. @returns {import("./palette.js").Entry[]} */
function paletteEntries() {
  const go = (/** @type {string} */ label, /** @type {string} */ address) => ({ label, kind: "go to", run: () => void (location.hash = address) });
  // The menu of the thread has what the key permits.
  const actions = [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(".thread-header .menu-items > *"))];
  return [
    ...actions.map((action) => ({ label: action.textContent ?? "", kind: "this thread", run: () => action.click() })),
    ...(may("post") ? [go("New thread", "#/new")] : []),
    ...PARTS.map(([name, label]) => go(label, `#/${name}`)),
    ...TABS.map(({ tab, label }) => go(`Threads: ${label}`, viewAddress({ tab }))),
    ...savedViews().map(({ name, query }) => go(`Threads: ${name}`, `#/${query}`)),
    ...(may("operate") ? [{ label: "Retry all threads that fail", kind: "threads", run: () => inList(() => inbox?.retryAll()) }] : []),
    { label: "Filter the list", kind: "threads", run: () => inList(() => inbox?.filter()) },
    ...(inbox?.isSpecial ? [{ label: "Save this view", kind: "threads", run: () => inList(() => inbox?.saveView()) }] : []),
    { label: "Keys", kind: "page", run: showKeys },
    ...["light", "dark", "auto"].map((theme) => ({
      label: `Theme: ${theme}`,
      kind: "page",
      run() {
        setTheme(theme);
        showTools();
      },
    })),
  ];
}

/** Opens the palette, which is loaded when it is needed. */
async function showPalette() {
  await act(null, async () => (await import("./palette.js")).openPalette(paletteEntries()));
}

listenToKeys(
  {
    search() {
      if (route().part === "knowledge") /** @type {HTMLElement | null} */ (main.querySelector("input[type=search]"))?.focus();
      else inList(() => inbox?.focusSearch());
    },
    open: () => (location.hash = "#/new"),
    approvals: () => (location.hash = "#/approvals"),
    leave() {
      const field = /** @type {HTMLElement | null} */ (document.activeElement);
      if (isListed()) inbox?.leave();
      else field?.blur();
    },
    keys: showKeys,
    palette: showPalette,
    filter: () => inbox?.filter(),
    next: () => inbox?.move(1),
    previous: () => inbox?.move(-1),
    select: () => inbox?.toggle(),
    close: () => inbox?.change("close"),
    retry: () => inbox?.change("retry"),
    update: () => inbox?.update(),
  },
  isListed,
);

async function start() {
  try {
    await load();
  } catch (error) {
    if (error instanceof APIError && (error.status === 401 || error.status === 403)) {
      return askKey(error);
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
  inbox = /** @type {Inbox} */ (h("tm-inbox"));
  fill(list, inbox);
  path = undefined;
  if (unsaved()) document.dispatchEvent(new CustomEvent("signed-in"));
  else {
    shown = undefined; // the streams of a thread have ended with the key
    show();
  }
  watchHealth();
}

document.addEventListener("name-changed", showTools);
addEventListener("storage", (e) => e.key === NAME && showTools()); // another tab changed the name
addEventListener("hashchange", show);
keepFocusIn(main);
setTheme(localStorage.getItem(THEME) ?? "auto");
start();
