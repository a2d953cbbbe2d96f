import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { RUNBOOKS, getRunbookPath } from "../../src/status/models/runbook.ts";

import { redirectPage, redirects } from "../../docs/.vitepress/redirects.mjs";
import { sidebar } from "../../docs/.vitepress/sidebar.mjs";

const docs = join(import.meta.dirname, "../../docs");
const pages = globSync("**/*.md", { cwd: docs });

test("the sidebar of the site leads to every page, and to nothing else", () => {
  const links = sidebar.flatMap(({ items }) => items.map(({ link }) => link));
  const paths = links.map((link) => `${link.slice(1) || "index"}.md`);
  expect(paths.toSorted()).toEqual(pages.toSorted());
});

test("so does the overview, which is for readers of the files", () => {
  const overview = readFileSync(join(docs, "index.md"), "utf8");
  const links = [...overview.matchAll(/\]\(([^)#:]*\.md)\)/g)].map(([, path = ""]) => path);
  expect(pages.filter((path) => path !== "index.md" && !links.includes(path))).toEqual([]);
});

test("the on-call guide has each section that a status or an alert leads to", () => {
  const read = (path: string): string => readFileSync(join(docs, "..", path), "utf8");
  const headings = [...read("docs/guides/on-call.md").matchAll(/^## (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^a-z ]/g, "")
      .replaceAll(" ", "-"),
  );
  const alerts = read("deploy/prometheus/alerts.yaml");
  const urls = [...alerts.matchAll(/runbook_url: (.+)$/gm)].map(([, url = ""]) => url);
  expect(urls.length).toBe(alerts.match(/- alert:/g)?.length);
  const links = [...urls, ...RUNBOOKS.map(getRunbookPath).filter((link) => link.includes("on-call.md#"))];
  const known = headings.map((heading) => `docs/guides/on-call.md#${heading}`);
  expect(links.filter((link) => !known.includes(link))).toEqual([]);
  expect(RUNBOOKS.map(getRunbookPath).filter((link) => !link.includes("on-call.md#"))).toEqual([
    "docs/guides/module-sources.md#when-something-is-missing",
    "docs/guides/running.md#taking-over",
  ]);
  expect(read("docs/guides/running.md")).toContain("\n## Taking over\n");
  expect(read("docs/guides/module-sources.md")).toContain("\n## When something is missing\n");
  expect(getRunbookPath("ReloadHeldUp")).toBe("docs/guides/on-call.md#a-hook-fails");
  expect(getRunbookPath("unknown")).toBe("docs/guides/on-call.md");
});

test.each(Object.entries(redirects))("the old address %s leads to a heading that exists", (from, target) => {
  expect(pages).not.toContain(`${from}.md`);
  const [path = "", heading] = target.split("#");
  const page = readFileSync(join(docs, `${path}.md`), "utf8");
  const anchors = [...page.matchAll(/^#+ (.+)$/gm)].map(([, each = ""]) =>
    each
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
  expect([undefined, ...anchors]).toContain(heading);
  expect(redirectPage(target, "/base/")).toContain(`url=/base/${target.replace(/(?=#|$)/, ".html")}"`);
});

/** Pages for users; internals are for contributors. */
const forUsers = pages.filter((path) => !/^(index|internals\/)/.test(path));

test.each(forUsers)("%s says what it is for, and shows an example before its first table", (path) => {
  const text = readFileSync(join(docs, path), "utf8");
  expect(text).toMatch(/^# .+\n\n[A-Z`*[]/);
  const before = text.split(/^\|/m, 1)[0] ?? "";
  expect(before).toMatch(/^ *```|!\[/m);
});
