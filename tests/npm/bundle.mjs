// Bundles an example with the npm packages of this folder.
//
//   node bundle.mjs <script> <bundle>

import { resolve } from "node:path";
import { buildSync } from "esbuild";

const [script, bundle] = process.argv.slice(2);
const { dirname } = import.meta;
const alias = script.includes("/examples/") ? { "@threadmill/client": resolve(dirname, "../../clients/typescript") } : {}; // as their package.json says
const loader = { ".ttf": "empty", ".woff": "empty", ".woff2": "empty" };
buildSync({ entryPoints: [script], outfile: bundle, bundle: true, format: "esm", jsx: "automatic", alias, loader, nodePaths: [`${dirname}/node_modules`], logLevel: "warning" });
