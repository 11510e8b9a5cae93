// Bundles an example with the npm packages of this folder.
//
//   node bundle.mjs <script> <bundle>

import { parse, resolve } from "node:path";
import { buildSync } from "esbuild";

const [script, bundle] = process.argv.slice(2);
const { dirname } = import.meta;
const example = script.includes("/examples/");
const alias = example ? { "@threadmill/client": resolve(dirname, "../../clients/typescript") } : {}; // as their package.json says
const { dir, name } = parse(bundle);
const loader = { ".ttf": "empty", ".woff": "empty", ".woff2": "empty" };
// What a page of tests imports when it needs it, a library of diagrams for example, stays in files of its own.
buildSync({ entryPoints: { [name]: script }, outdir: dir, bundle: true, minify: !example, splitting: !example, format: "esm", jsx: "automatic", alias, loader, nodePaths: [`${dirname}/node_modules`], logLevel: "warning" });
