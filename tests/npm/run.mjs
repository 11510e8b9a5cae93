// Runs scripts of this folder, one after the other: the packages of clients take longer to load than most scenarios to run.
//
//   node run.mjs
//   node run.mjs <script> <argument>…
//
// Each line of the input is a script with its arguments, as a JSON list, and is answered with a line "ok". The second form runs one.

import { createInterface } from "node:readline";

let runs = 0;

async function run(script, ...args) {
  process.argv = [process.argv[0], script, ...args];
  await import(`./${script}?${++runs}`); // which evaluates it anew, but not the packages
  console.log("ok");
}

const [, , ...given] = process.argv;
if (given.length > 0) {
  await run(...given);
} else {
  for await (const line of createInterface({ input: process.stdin })) await run(...JSON.parse(line));
}
process.exit(0); // whatever is connected still
