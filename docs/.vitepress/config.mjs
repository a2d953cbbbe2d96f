// The documentation site, from the same Markdown files that a repository browser shows. `npm run docs` serves it
// locally; `npm run docs:build` fails on a dead link.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { redirectPage, redirects } from "./redirects.mjs";
import { sidebar } from "./sidebar.mjs";

const docs = join(import.meta.dirname, "..");
const root = join(docs, "..");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Where the repository can be browsed, as GitHub Actions name it; without it there are no links into the repository. */
const { GITHUB_SERVER_URL = "https://github.com", GITHUB_REPOSITORY, DOCS_BASE } = process.env;
const repository = GITHUB_REPOSITORY && `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;

/** The anchor of a heading as GitHub makes it, so that one link serves both. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/** Leads links to files outside of `docs/` into the repository; they become plain text where that is not known. */
function linkRepository(md) {
  md.core.ruler.push("repository-links", ({ tokens, env }) => {
    for (const { children } of tokens) {
      let outside = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") outside = leaveDocs(token, env.path);
        if (outside && !repository && token.type.startsWith("link_")) [token.tag, token.attrs] = ["span", []];
        if (token.type === "link_close") outside = false;
      }
    }
  });
}

function leaveDocs(token, page) {
  const href = token.attrGet("href") ?? "";
  if (/^(\w+:|#|\/)/.test(href)) return false;
  const path = relative(root, join(page, "..", href));
  if (path.startsWith("docs/")) return false;
  token.attrSet("href", `${repository}/blob/main/${path}`);
  return true;
}

/** Shows the second word of a fence (```` ```yaml values.yaml ````) as the name of the file. */
function nameFences(md) {
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (...args) => {
    const [tokens, index] = args;
    const [, name] = /^\w+ (.+)$/.exec(tokens[index].info) ?? [];
    return `${name ? `<p class="file">${md.utils.escapeHtml(name)}</p>` : ""}${fence(...args)}`;
  };
}

/** Writes a page at each address that a page had before. */
function writeRedirects({ outDir, site }) {
  for (const [from, target] of Object.entries(redirects)) {
    const file = join(outDir, `${from}.html`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, redirectPage(target, site.base));
  }
}

export default {
  title: "addon-operator",
  description: "Keeps the addons of a Kubernetes cluster in the state that files and one ConfigMap describe",
  base: DOCS_BASE ?? "/",
  ignoreDeadLinks: "localhostLinks",
  outDir: join(root, "build/docs"),
  buildEnd: writeRedirects,
  cacheDir: join(root, "build/docs-cache"),
  markdown: {
    anchor: { slugify },
    config(md) {
      linkRepository(md);
      nameFences(md);
    },
  },
  // Wide tables: their pages have the whole width.
  transformPageData: ({ relativePath }) =>
    /settings|metrics|cli/.test(relativePath) ? { frontmatter: { aside: false } } : undefined,
  vite: { server: { fs: { allow: [root] } } },
  themeConfig: {
    sidebar,
    nav: [
      { text: "Get started", link: "/get-started/install" },
      { text: "Guides", link: "/guides/on-call" },
      { text: "Reference", link: "/reference/cli" },
      { text: version, link: "/guides/upgrading" },
    ],
    search: { provider: "local" },
    outline: { level: [2, 3] },
    ...(repository && {
      editLink: { pattern: `${repository}/edit/main/docs/:path`, text: "Edit this page" },
      socialLinks: [{ icon: "github", link: repository }],
    }),
  },
};
