import { execFileSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMarkdownRenderer } from "vitepress";
import { describe, expect, onTestFinished, test } from "vitest";

import { RUNBOOKS, getRunbookPath } from "../../src/report/models/runbook.ts";

import { sitePlugin } from "../../docs/.vitepress/markdown.mjs";
import { redirectPage, redirects } from "../../docs/.vitepress/redirects.mjs";
import { extractPages, listReleases, releasesOf } from "../../docs/.vitepress/releases.mjs";
import { sidebar } from "../../docs/.vitepress/sidebar.mjs";
import { writeSources } from "../../docs/.vitepress/sources.mjs";

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
  const files = pages.map((path) => (path === "changelog.md" ? "../CHANGELOG.md" : path));
  expect(files.filter((path) => path !== "index.md" && !links.includes(path))).toEqual([]);
});

/** What the section to which a status leads must say, by the state or reason. */
const SAID: Readonly<Record<string, string>> = {
  ConfigMapInvalid: "any key of the ConfigMap is invalid",
  ConfigMapMissing: "the ConfigMap is missing",
  SourcesUnreadable: "ModuleSources",
  RemovalHeld: "deletion limit",
  ReloadHeldUp: "For a global hook",
  HooksFailing: "retries the hook",
  LeaseFailed: "`LeaseFailed`",
  WatchFailed: "`WatchFailed`",
  NotRunning: "the operator is down",
  Retrying: "failing module",
  HookFailed: "retries the hook",
  ReadinessProbeFailed: "the output of a hook",
  ScriptFailed: "`enabled` script",
  SourceUnavailable: "`SourceUnavailable`",
  ObjectsExist: "`ObjectsExist`",
  Discovery: "phase `discovery`",
  Pending: "Dependency",
  Running: "current step of each run",
  Progressing: "not healthy",
  Unhealthy: "not healthy",
  Deleting: "does not remove a module",
  Invalid: "an Invalid module",
  ModulesInvalid: "an Invalid module",
  RolledBack: "is RolledBack",
  Suspended: "suspend all modules",
  Drifted: "`Drifted`",
};

test.each(RUNBOOKS)("the section to which a status with %s leads is about it", (about) => {
  const [path = "", anchor = ""] = getRunbookPath(about).split("#");
  const sections = readFileSync(join(docs, "..", path), "utf8").split(/^## /m);
  const section = sections.find((text) => anchorOf(text.slice(0, text.indexOf("\n"))) === anchor);
  expect(section).toContain(SAID[about]);
});

/** The anchor of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^a-z ]/g, "")
    .replaceAll(" ", "-");
}

test("the on-call guide has each section that an alert leads to", () => {
  const read = (path: string): string => readFileSync(join(docs, "..", path), "utf8");
  const headings = [...read("docs/guides/on-call.md").matchAll(/^## (.+)$/gm)].map(([, heading = ""]) =>
    anchorOf(heading),
  );
  const alerts = read("deploy/prometheus/alerts.yaml");
  const urls = [...alerts.matchAll(/runbook_url: (.+)$/gm)].map(([, url = ""]) => url);
  expect(urls.length).toBe(alerts.match(/- alert:/g)?.length);
  const known = headings.map((heading) => `docs/guides/on-call.md#${heading}`);
  expect(urls.filter((link) => !known.includes(link))).toEqual([]);
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
const forUsers = pages.filter((path) => !/^(index|changelog|internals\/)/.test(path));

test.each(forUsers)("%s says what it is for", (path) => {
  expect(readFileSync(join(docs, path), "utf8")).toMatch(/^# .+\n\n[A-Z`*[]/);
});

/** A comparison has no example. */
const withExample = forUsers.filter((path) => path !== "get-started/comparison.md");

test.each(withExample)("%s shows an example before its first table", (path) => {
  const text = readFileSync(join(docs, path), "utf8");
  const before = text.split(/^\|/m, 1)[0] ?? "";
  expect(before).toMatch(/^ *```|!\[/m);
});

function temporary(): string {
  const dir = mkdtempSync(join(tmpdir(), "site-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

describe("the site shows", async () => {
  const root = join(docs, "..");
  const repository = "https://git.example.com/acme/addon-operator/blob/main";
  const md = await createMarkdownRenderer(docs, { config: sitePlugin({ root, repository }) }, "/base/");
  const render = (text: string, page = "guides/on-call.md"): string =>
    md.render(text, { path: join(docs, page), relativePath: page, cleanUrls: false });

  test.each([
    ["Warning", "warning"],
    ["Caution", "warning"],
    ["Note", "info"],
    ["Tip", "tip"],
    ["Warning: data loss", "warning"],
  ])("a paragraph with **%s** as a box", (title, kind) => {
    const mark = title.includes(" ") ? "." : ":";
    const html = render(`Before.\n\n**${title}${mark}** Do *not*.\n\nAfter.`);
    const box = `<div class="${kind} custom-block"><p class="custom-block-title">${title}</p>`;
    expect(html.replaceAll("\n", "")).toBe(`<p>Before.</p>${box}<p>Do <em>not</em>.</p></div><p>After.</p>`);
  });

  test("the list that belongs to a warning inside its box", () => {
    const html = render("**Warning:** These can:\n\n- one\n- two\n\nAfter.\n\n- three");
    expect(html.replaceAll("\n", "")).toMatch(/<p>These can:<\/p><ul>.*two<\/li><\/ul><\/div><p>After/);
  });

  test("other bold words as they are", () => {
    expect(render("**Permissions.** Text.\n\n- **Warning signs** are red.")).not.toContain("custom-block");
  });

  test("every warning of the pages as a box", () => {
    for (const page of pages) {
      const text = readFileSync(join(docs, page), "utf8");
      const warnings = text.match(/^ *\*\*(?:Warning|Caution|Note|Tip)\b/gm) ?? [];
      const boxes = render(text, page).match(/custom-block-title/g) ?? [];
      expect({ page, boxes: boxes.length }).toEqual({ page, boxes: warnings.length });
    }
  });

  test("indented code as fenced code", () => {
    expect(render("Run:\n\n    kubectl get pods")).toBe(render("Run:\n\n```\nkubectl get pods\n```"));
  });

  test("rows of wide tables with the heads of their columns, for a phone", () => {
    const wide = render("| A | B | C |\n|---|---|---|\n| 1 | 2 | 3 |");
    expect([...wide.matchAll(/data-label="(.)"[^>]*>(.)</g)].map(([, ...cell]) => cell.join(""))).toEqual([
      "A1",
      "B2",
      "C3",
    ]);
    expect(render("| A | B |\n|---|---|\n| 1 | 2 |")).not.toContain("data-label");
  });

  test("links out of the pages as links into the repository, and those of the changelog as links to pages", () => {
    expect(render("[x](../../scripts/bench/README.md)")).toContain(`"${repository}/scripts/bench/README.md"`);
    expect(render("[x](../../CHANGELOG.md)")).toContain('"/base/changelog.html"');
    expect(render("[x](../reference/hooks.md#queues)")).toContain('/../reference/hooks.html#queues"');
    expect(render("[x](docs/guides/upgrading.md)", "changelog.md")).toContain('"./guides/upgrading.html"');
    expect(render("[x](SECURITY.md)", "changelog.md")).toContain(`"${repository}/SECURITY.md"`);
  });
});

test("the Markdown of each page is beside the page", () => {
  const outDir = temporary();
  writeSources({ pages: ["changelog.md", "guides/on-call.md"], srcDir: docs, outDir });
  const read = (...path: string[]): string => readFileSync(join(...path), "utf8");
  expect(read(outDir, "guides/on-call.md")).toBe(read(docs, "guides/on-call.md"));
  expect(read(outDir, "changelog.md").trim()).toBe(read(docs, "../CHANGELOG.md").trim());
});

describe("the site keeps the pages", () => {
  test("of the newest tag of each version, since the first version with a site", () => {
    const tags = ["v0.1.0", "v0.2.0", "v0.3.0", "v0.10.0", "v0.3.10", "v0.3.9", "v0.11.0-rc.1", "next", "v1"];
    expect(releasesOf(tags)).toEqual([
      { name: "0.10", tag: "v0.10.0" },
      { name: "0.3", tag: "v0.3.10" },
    ]);
  });

  test("as they were at the tag", () => {
    const dir = temporary();
    const repository = join(dir, "repository");
    const git = (...args: string[]): void => {
      const own = ["-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.com"];
      execFileSync("git", [...own, ...args], { stdio: "ignore" });
    };
    for (const path of ["docs", "page/pictures"]) mkdirSync(join(repository, path), { recursive: true });
    const write = (text: string): void =>
      ["docs/index.md", "page/pictures/one.png", "CHANGELOG.md", "other"].forEach((path) =>
        writeFileSync(join(repository, path), text),
      );
    write("old");
    git("init");
    git("add", ".");
    git("commit", "-m", "Old");
    git("tag", "v0.3.0");
    write("new");
    git("commit", "-a", "-m", "New");
    expect(listReleases(repository)).toEqual([{ name: "0.3", tag: "v0.3.0" }]);
    const source = join(dir, "source");
    mkdirSync(join(source, "left-over"), { recursive: true });
    extractPages(repository, "v0.3.0", source);
    expect(readFileSync(join(source, "docs/index.md"), "utf8")).toBe("old");
    expect(["other", "left-over"].filter((path) => existsSync(join(source, path)))).toEqual([]);
    expect(listReleases(dir)).toEqual([]);
  });
});
