// The list of agents in the API.

import { client } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["AgentSummary"]} AgentSummary */

/** All agents, read page by page. @returns {Promise<AgentSummary[]>} */
export async function everyAgent() {
  /** @type {AgentSummary[]} */
  const all = [];
  let cursor = "";
  do {
    const page = await client.request("GET /v1/agents", { query: { cursor } });
    all.push(...page.agents);
    cursor = page.next ?? "";
  } while (cursor !== "");
  return all;
}
