// Bundles an example with the npm packages of this folder.
//
//   node bundle.mjs <script> <bundle>

import { buildSync } from "esbuild";

const [script, bundle] = process.argv.slice(2);
const { dirname } = import.meta;
buildSync({ entryPoints: [script], outfile: bundle, bundle: true, format: "esm", jsx: "automatic", nodePaths: [`${dirname}/node_modules`], logLevel: "warning" });
