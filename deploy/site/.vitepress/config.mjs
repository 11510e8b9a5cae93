// The site: README.md and docs/*.md as they are in the repository. Its navigation is docs/README.md.
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { defineConfig } from "vitepress";

const root = path.resolve(import.meta.dirname, "../../..");
const repository = "https://github.com/threadmill/threadmill";
const version = process.env.THREADMILL_VERSION ?? "";
const description = "Durable conversations between people and AI agents, on Temporal.";

const read = (file) => readFileSync(path.join(root, file), "utf8");
// The name of a page, for the file that it is made of.
const pages = { "README.md": "index.md", "docs/README.md": "documents.md" };
const page = (file) => pages[file] ?? (/^docs\/[^/]+\.md$/.test(file) ? file.slice(5) : undefined);

// moved returns where a link of a file leads on the site, to a page or to the repository, or undefined if nothing is there.
function moved(link, file) {
  if (/^([a-z]+:|#)/.test(link)) return link;
  const [, to, fragment] = /^([^#]*)(.*)$/.exec(link);
  const target = path.posix.join(path.posix.dirname(file), to);
  if (!existsSync(path.join(root, target))) return undefined;
  if (page(target)) return `./${page(target)}${fragment}`;
  const kind = /\.png$/.test(to) ? "raw" : statSync(path.join(root, target)).isDirectory() ? "tree" : "blob";
  return `${repository}/${kind}/${version || "main"}/${target}${fragment}`;
}

// Sections of docs/README.md, each with links that have a text and a file.
const sections = read("docs/README.md")
  .split(/^## /m)
  .slice(1)
  .map((section) => ({
    title: section.split("\n", 1)[0],
    links: [...section.matchAll(/^\| \[(.+?)\]\((.+?)\)/gm)].map(([, text, link]) => {
      const file = path.posix.join("docs", link);
      return { text, file, link: moved(link, "docs/README.md").replace(/^\.\/(.*)\.md$/, "/$1") };
    }),
  }));

// summary returns the first sentence of a document, without its links.
function summary(file) {
  const paragraph =
    read(file)
      .split(/\n{2,}/)
      .find((part) => /^([A-Z]|`[^`])/.test(part)) ?? "";
  const text = paragraph
    .replace(/\[(.+?)\]\(.+?\)/g, "$1")
    .replace(/\s+/g, " ")
    .trim();
  return (/^.*?[.?](?=\s|$)/.exec(text)?.[0] ?? text).replace(/:$/, ".");
}

// plain is a document as Markdown whose links work beside its page.
const plain = (file) => read(file).replace(/\]\(([^)\s]+)\)/g, (all, link) => (moved(link, file) ? `](${moved(link, file)})` : all));

// forModels writes llms.txt (https://llmstxt.org), all documents in one file, and each document as Markdown.
function forModels({ outDir }) {
  const documents = [{ text: "Threadmill", file: "README.md" }, ...sections.flatMap((s) => s.links).filter((l) => page(l.file))];
  const line = ({ text, file, link }) => `- [${text}](${page(file) ?? link}): ${summary(file)}`;
  const index = sections.map(({ title, links }) => `## ${title}\n\n${links.map(line).join("\n")}\n`);
  writeFileSync(path.join(outDir, "llms.txt"), `# Threadmill\n\n> ${description} ${summary("README.md")}\n\n${index.join("\n")}`);
  writeFileSync(path.join(outDir, "llms-full.txt"), documents.map(({ file }) => plain(file)).join("\n\n"));
  for (const { file } of documents) writeFileSync(path.join(outDir, page(file)), plain(file));
  cpSync(path.join(root, "docs/openapi.json"), path.join(outDir, "openapi.json"));
}

export default defineConfig({
  title: "Threadmill",
  description,
  lang: "en",
  // Tables without heads have empty ones in Markdown.
  head: [["style", {}, ".vp-doc thead:not(:has(th)) { display: none }"]],
  base: "./", // one build works at any address
  srcDir: root,
  srcExclude: ["!(docs|README.md)/**", "!(README).md", "docs/*/**"],
  rewrites: (file) => page(file) ?? file,
  outDir: path.join(root, "dist/site"),
  cacheDir: "./node_modules/.cache",
  transformPageData: ({ filePath }) => ({ description: summary(filePath) }),
  ignoreDeadLinks: "localhostLinks",
  // The documents lie outside of the folder with the packages.
  vite: { environments: { ssr: { build: { rolldownOptions: { external: ["vue", "vue/server-renderer"] } } } }, build: { chunkSizeWarningLimit: 4096 } },
  buildEnd: forModels,
  markdown: {
    languageAlias: { cel: "javascript" },
    theme: { light: "github-light-high-contrast", dark: "github-dark" },
    // Fragments are those of GitHub.
    anchor: {
      slugify: (text) =>
        encodeURIComponent(
          text
            .trim()
            .toLowerCase()
            .replace(/[^\p{L}\p{N}\s_-]/gu, "")
            .replace(/\s/g, "-"),
        ),
    },
    config: (md) => {
      md.core.ruler.push("empty_heads", ({ tokens }) => {
        tokens.forEach((token, i) => {
          if (token.type === "th_open" && !tokens[i + 1].content) token.tag = tokens[i + 2].tag = "td";
        });
      });
      md.core.ruler.push("moved", ({ tokens, env }) => {
        for (const token of tokens.flatMap((t) => t.children ?? [])) {
          if (token.type !== "link_open") continue;
          const file = path.relative(root, env.realPath ?? env.path);
          const link = moved(token.attrGet("href"), file);
          if (!link) throw new Error(`${file}: nothing is at the link ${token.attrGet("href")}`);
          token.attrSet("href", link);
        }
      });
    },
  },
  themeConfig: {
    search: { provider: "local", options: { miniSearch: { searchOptions: { combineWith: "AND", fuzzy: 0.1 } } } },
    outline: [2, 3],
    nav: [
      { text: "Documents", link: "/documents" },
      { text: version || "main", link: `${repository}/blob/${version || "main"}/CHANGELOG.md` },
    ],
    sidebar: sections.map(({ title, links }) => ({ text: title, items: links })),
    socialLinks: [{ icon: "github", link: repository }],
    editLink: { pattern: `${repository}/edit/main/:path`, text: "Edit this page" },
  },
});
