// The fields of the declaration of an MCP server: those of docs/mcp.md. A test compares them with the API's schema.

/** @import { Doc, Group } from "./draft.js" */

/** @param {Doc} doc */
const isProgram = (doc) => doc.command !== undefined;
/** @param {Doc} doc */
const isAddress = (doc) => doc.url !== undefined;

/** @type {Group[]} */
export const SERVER = [
  {
    title: "Server",
    open: true,
    fields: [
      { path: ["name"], label: "Name", kind: "text", required: true, fixed: true, hint: "1 to 24 of a–z, 0–9 and -. Its tools are called name__tool." },
      { path: ["description"], label: "Description", kind: "text", hint: "What the server is for." },
    ],
  },
  {
    title: "How it is reached",
    open: true,
    legend: "It is",
    either: [
      { path: "url", label: "at an address", initial: "" },
      { path: "command", label: "a program", initial: [] },
    ],
    fields: [
      { path: ["url"], label: "Address", kind: "text", hint: "It is called over streamable HTTP.", when: isAddress },
      {
        path: ["headersEnv"],
        label: "Headers",
        kind: "map",
        names: { key: "Header", value: "Variable", add: "Add a header" },
        hint: "Each with the environment variable of the workers that has its value. The variables begin with MCP_.",
        when: isAddress,
      },
      {
        path: ["login", "per"],
        label: "People log in, with OAuth",
        kind: "choice",
        options: [
          ["namespace", "once for all threads"],
          ["user", "each for herself"],
        ],
        hint: "Default: nobody logs in.",
        when: isAddress,
      },
      { path: ["login", "scopes"], label: "Scopes of the login", kind: "lines", hint: "One a line. Default: those that the server names.", when: isAddress },
      {
        path: ["login", "clientId"],
        label: "Client of the login",
        kind: "text",
        hint: "The one that you have registered. Default: it registers itself.",
        when: isAddress,
      },
      {
        path: ["login", "clientSecretEnv"],
        label: "Variable with the client's secret",
        kind: "text",
        hint: "Of workers and API. It begins with MCP_.",
        when: isAddress,
      },
      {
        path: ["command"],
        label: "Program and arguments",
        kind: "lines",
        hint: "One a line. Workers start it. The operator must have permitted commands.",
        when: isProgram,
      },
      {
        path: ["envFrom"],
        label: "Environment",
        kind: "map",
        names: { key: "Variable of the program", value: "Variable of the workers", add: "Add a variable" },
        hint: "The variables of the workers begin with MCP_.",
        when: isProgram,
      },
      { path: ["dir"], label: "Working directory", kind: "text", hint: "Default: that of the worker.", when: isProgram },
    ],
  },
  {
    title: "Tools",
    open: true,
    fields: [
      { path: ["tools"], label: "Tools to offer", kind: "lines", hint: "Patterns of the server's own names, such as read_*, one a line. Default: all." },
      { path: ["trusted"], label: "Believe what it says of the effects of its tools", kind: "flag" },
      { path: ["timeout"], label: "Time of a call", kind: "text", hint: "Such as 30s, at most 12h. Default: 2m." },
      { path: ["taskQueue"], label: "Task queue", kind: "text", hint: "Only workers of this queue connect. Default: all." },
    ],
  },
];
