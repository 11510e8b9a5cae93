import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { patience } from "./until.mjs";

/** Creates API keys: an administrator's, and those of people with these roles. */
export async function createKeys(base, people) {
  const create = async (name, roles, token) => {
    for (const end = Date.now() + patience; ; await sleep(50)) { // the server reads keys every few seconds
      const response = await fetch(`${base}/v1/keys`, { method: "POST", headers: { "content-type": "application/json", ...token && { authorization: `Bearer ${token}` } }, body: JSON.stringify({ name, roles }) });
      if (response.status === 201) return (await response.json()).token;
      assert.ok(Date.now() < end, await response.text());
    }
  };
  const admin = await create("root", ["admin"]);
  const tokens = {};
  for (const [name, roles] of Object.entries(people)) tokens[name] = await create(name, roles, admin);
  return tokens;
}
