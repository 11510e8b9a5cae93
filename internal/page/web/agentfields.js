// The fields of an agent's definition: those of docs/agents.md. A test compares them with the API's schema.

/** @import { Group } from "./draft.js" */

/** @type {[string, string][]} */
const POLICIES = [
  ["always", "always ask"],
  ["never", "never ask"],
  ["deny", "deny"],
];

/** @type {Group[]} */
export const AGENT = [
  {
    title: "Agent",
    open: true,
    fields: [
      {
        path: ["name"],
        label: "Name",
        kind: "text",
        required: true,
        fixed: true,
        limit: "agentName",
        hint: "1 to 64 letters, digits, - and _. People mention it as @name.",
      },
      { path: ["description"], label: "Description", kind: "text", hint: "What the agent is for: people and other agents read it." },
      {
        path: ["model"],
        label: "Model",
        kind: "text",
        required: true,
        limit: "agentModel",
        list: "models",
        hint: "provider/model, such as openai/gpt-5.6-luna",
      },
      { path: ["instructions"], label: "Instructions", kind: "prose", rows: 10, hint: "The system prompt." },
    ],
  },
  {
    title: "Tools and approvals",
    open: true,
    fields: [
      { path: ["tools"], label: "Tools", kind: "lines", hint: "One a line. server__* is all tools of an MCP server. Default: none." },
      {
        path: ["approvals"],
        label: "Approvals",
        kind: "map",
        options: POLICIES,
        hint: "By tool. server__* is for all other tools of a server, * for all others. Default: as the tool declares.",
      },
      {
        path: ["approvalRules"],
        label: "Rules over arguments",
        kind: "rows",
        hint: "They look at calls before approvals do. A rule that denies always wins.",
        columns: [
          { path: ["name"], label: "Name", kind: "text", limit: "ruleName" },
          {
            path: ["effect"],
            label: "Effect",
            kind: "choice",
            options: [
              ["ask", "ask"],
              ["allow", "allow"],
              ["deny", "deny"],
            ],
          },
          { path: ["tools"], label: "Tools, one a line", kind: "lines", hint: "Default: all." },
          { path: ["when"], label: "When (CEL)", kind: "prose", rows: 2, limit: "ruleWhen", hint: "Default: every call." },
          { path: ["reason"], label: "Reason", kind: "text", limit: "ruleReason" },
        ],
      },
      { path: ["approvalTerms", "expires"], label: "Requests expire after", kind: "text", hint: "Such as 30m. Default: never." },
      {
        path: ["approvalTerms", "onExpiry"],
        label: "An expired request",
        kind: "choice",
        options: [
          ["deny", "denies the call"],
          ["interrupt", "ends the turn"],
        ],
        hint: "Default: it denies the call.",
      },
      { path: ["approvalTerms", "remind"], label: "Remind people every", kind: "text", hint: "Such as 10m. Default: never." },
      { path: ["approvalTerms", "quorum"], label: "How many have to approve", kind: "integer", min: 0, hint: "Default: 1." },
      { path: ["approvalTerms", "approvers"], label: "Who may decide", kind: "lines", hint: "Names, one a line. Default: anybody." },
      { path: ["approvalTerms", "groups"], label: "Groups that may decide", kind: "lines", hint: "Groups of the configuration, one a line. Default: none." },
      {
        path: ["onWaiting"],
        label: "A message while a call waits",
        kind: "choice",
        options: [
          ["answer", "is answered"],
          ["hold", "waits too"],
          ["cancel", "cancels the call"],
        ],
        hint: "Default: it is answered.",
      },
    ],
  },
  {
    title: "Limits",
    fields: [
      { path: ["limits", "maxSteps"], label: "Model calls in a turn", kind: "integer", min: 0, max: 1000, hint: "At most 1,000. Default: 25." },
      { path: ["limits", "modelTimeout"], label: "Time of a model call", kind: "text", hint: "Such as 90s, at most 1h. Default: 10m." },
      {
        path: ["limits", "contextMessages"],
        label: "Messages the model is shown",
        kind: "integer",
        min: 0,
        max: 100_000,
        hint: "The newest, besides all of the running turn. At most 100,000. Default: 200.",
      },
      { path: ["limits", "maxToolCalls"], label: "Tool calls in a reply", kind: "integer", min: 0, max: 256, hint: "At most 256. Default: 64." },
      {
        path: ["limits", "maxReplyBytes"],
        label: "Bytes of a reply",
        kind: "integer",
        min: 0,
        max: 8_388_608,
        hint: "1,024 to 8,388,608. Default: 2,097,152.",
      },
      {
        path: ["limits", "maxResult"],
        label: "Bytes of a result the model is shown",
        kind: "integer",
        min: 0,
        max: 8_388_608,
        hint: "It reads the rest with the tool read_result. 1,024 to 8,388,608. Default: 131,072.",
      },
    ],
  },
  {
    title: "Model settings",
    fields: [
      { path: ["temperature"], label: "Temperature", kind: "number", min: 0, max: 2, hint: "0 to 2. Default: the provider's." },
      { path: ["maxOutputTokens"], label: "Tokens of a reply", kind: "integer", min: 0, hint: "Default: the provider's." },
      { path: ["reasoningEffort"], label: "Reasoning effort", kind: "text", hint: "low, medium, high or a value of the provider. Default: the provider's." },
    ],
  },
  {
    title: "Knowledge",
    fields: [
      {
        path: ["knowledge", "passages"],
        label: "Passages for each message",
        kind: "integer",
        min: 0,
        max: 50,
        hint: "Searched for each message that it answers. At most 50. Default: none.",
      },
      { path: ["knowledge", "collections"], label: "Collections", kind: "lines", hint: "One a line. Default: all." },
      { path: ["knowledge", "entities"], label: "Learns who and what messages mention", kind: "flag" },
    ],
  },
  {
    title: "Other",
    fields: [
      { path: ["workingDirectory"], label: "Working directory of its tools", kind: "text", hint: "workingDirectory in a thread's metadata takes precedence." },
      { path: ["autoMention"], label: "Mentions the agent that it answers", kind: "flag", default: true },
    ],
  },
];
