// Generates what the package has beside its modules: the types of the API, the declarations of the modules, and the licence.

import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

function run(script, ...args) {
  const { status } = spawnSync(process.execPath, [`node_modules/${script}`, ...args], { cwd: here, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

for (const old of readdirSync(here).filter((name) => name.endsWith(".d.ts"))) rmSync(here + old);
run("openapi-typescript/bin/cli.js", "../../docs/openapi.json", "--output", "api.d.ts");
run("typescript/bin/tsc", "--project", ".");
copyFileSync(new URL("../../LICENSE", import.meta.url), new URL("LICENSE", import.meta.url));
