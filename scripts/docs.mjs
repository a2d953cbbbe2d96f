// Serves the documentation as a site, or builds it, with the pages of each release at /vX.Y/ (docs/.vitepress/releases.mjs).
// The arguments are those of VitePress:
//   node scripts/run.mjs docs.mjs dev docs --host 127.0.0.1
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { extractPages, listReleases } from "../docs/.vitepress/releases.mjs";
import { root } from "./setup/versions.mjs";

const vitepress = join(root, "node_modules/vitepress/bin/vitepress.js");
const args = process.argv.slice(2);
if (args[0] !== "build") await import(vitepress);
else {
  const build = (env) =>
    execFileSync(process.execPath, [vitepress, ...args], {
      stdio: "inherit",
      env: { ...process.env, ...env },
    });
  build({});
  for (const { name, tag } of listReleases(root)) {
    const source = join(root, "build/docs-source", tag);
    extractPages(root, tag, source);
    build({ DOCS_RELEASE: name, DOCS_SOURCE: source });
  }
}
