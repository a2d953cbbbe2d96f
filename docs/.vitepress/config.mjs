// The documentation site, from the same Markdown files that a repository browser shows. `npm run docs` serves it
// locally; `npm run docs:build` fails on a dead link.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { sitePlugin, slugify } from "./markdown.mjs";
import { listReleases } from "./releases.mjs";
import { writeSources } from "./sources.mjs";

const checkout = join(import.meta.dirname, "../..");

/** What scripts/docs.mjs sets: where the site is served, and the release whose pages it builds from a copy of the tag. */
const { DOCS_BASE: site = "/", DOCS_RELEASE: release, DOCS_SOURCE: root = checkout } = process.env;
const releases = listReleases(checkout);
const tag = releases.find(({ name }) => name === release)?.tag;
const base = release === undefined ? site : `${site}v${release}/`;

/** Where the repository can be browsed, as GitHub Actions name it; without it there are no links into the repository. */
const { GITHUB_SERVER_URL = "https://github.com", GITHUB_REPOSITORY } = process.env;
const repository = GITHUB_REPOSITORY && `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;

const load = (file) => import(pathToFileURL(join(root, "docs/.vitepress", file)).href);
const { sidebar } = await load("sidebar.mjs");
const { redirectPage, redirects } = await load("redirects.mjs");

/** Writes a page at each address that a page had before. */
function writeRedirects({ outDir }) {
  for (const [from, target] of Object.entries(redirects)) {
    const file = join(outDir, `${from}.html`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, redirectPage(target, base));
  }
}

export default {
  title: "addon-operator",
  description: "Keeps the addons of a Kubernetes cluster in the state that files and one ConfigMap describe",
  base,
  srcDir: join(root, "docs"),
  // A release is what it is.
  ignoreDeadLinks: release === undefined ? "localhostLinks" : true,
  // Old paths that a released version prints.
  srcExclude: ["INSTALL.md", "MODULES.md"],
  outDir: join(checkout, "build/docs", release === undefined ? "" : `v${release}`),
  cacheDir: join(checkout, "build/docs-cache"),
  head: [["link", { rel: "icon", type: "image/svg+xml", href: `${base}favicon.svg` }]],
  transformHead: ({ pageData: { relativePath } }) => [
    ["link", { rel: "alternate", type: "text/markdown", href: `${base}${relativePath}` }],
  ],
  buildEnd(config) {
    writeRedirects(config);
    writeSources(config);
  },
  markdown: {
    anchor: { slugify },
    config: sitePlugin({ root, repository: repository && `${repository}/blob/${tag ?? "main"}` }),
  },
  transformPageData({ relativePath: path }) {
    const file = path === "changelog.md" ? "CHANGELOG.md" : `docs/${path}`;
    const frontmatter = { edit: `${repository}/edit/main/${file}` };
    // Wide tables: their pages have the whole width.
    if (/settings|metrics|cli|comparison/.test(path)) frontmatter.aside = false;
    if (path === "changelog.md") frontmatter.outline = 2;
    return { frontmatter };
  },
  vite: { server: { fs: { allow: [checkout] } } },
  themeConfig: {
    sidebar,
    nav: [
      { text: "Get started", link: "/get-started/install" },
      { text: "Guides", link: "/guides/on-call" },
      { text: "Reference", link: "/reference/cli" },
      { text: "Changelog", link: "/changelog" },
    ],
    // What theme/VersionSelect.vue offers, and which of it these pages are.
    versions: [
      { name: "main", link: site },
      ...releases.map(({ name }) => ({ name, link: `${site}v${name}/` })),
    ],
    version: release ?? "main",
    search: { provider: "local" },
    outline: { level: [2, 3] },
    ...(repository && { socialLinks: [{ icon: "github", link: repository }] }),
    // Pages of a release stay as they are.
    ...(repository && release === undefined && {
      // This function runs in the browser, where it knows the page alone.
      editLink: {
        pattern: ({ frontmatter }) => frontmatter.edit,
        text: "Edit this page",
      },
    }),
  },
};
