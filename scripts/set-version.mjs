#!/usr/bin/env node
// `npm run set-version -- X.Y.Z` writes the version in all files that name it, and gives the release its section in the changelog.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const PLACES = [
  "README.md",
  "Dockerfile",
  "src/config/settings/version.ts",
  "docs",
  "charts/addon-operator/Chart.yaml",
  "deploy",
  "examples",
  "test/fixtures/charts",
];

const [after = ""] = process.argv.slice(2);
if (!/^\d+\.\d+\.\d+$/.test(after)) throw new Error("run npm run set-version -- X.Y.Z");
const { version: before } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
execFileSync("npm", ["version", after, "--no-git-tag-version", "--allow-same-version"], { cwd: root });

const edit = (file, change) => {
  const path = join(root, file);
  const text = readFileSync(path, "utf8");
  const changed = change(text);
  if (changed !== text) writeFileSync(path, changed);
};

const tracked = execFileSync("git", ["ls-files", "-z", ...PLACES], { cwd: root, encoding: "utf8" });
const old = new RegExp(String.raw`(?<![\w.])${before.replaceAll(".", String.raw`\.`)}(?![\d.]*\d)`, "g");
for (const file of tracked.split("\0").filter(Boolean)) edit(file, (text) => text.replace(old, after));

const [major, minor] = after.split(".");
edit("docs/guides/upgrading.md", (text) =>
  text
    .replace("to the next version\n", `to ${major}.${minor}\n`)
    .replaceAll("| Next version |", `| Version ${major}.${minor} |`),
);
const today = new Date().toISOString().slice(0, "YYYY-MM-DD".length);
edit("CHANGELOG.md", (text) =>
  text.includes(`## [${after}]`)
    ? text
    : text.replace("## [Unreleased]\n", `## [Unreleased]\n\n## [${after}] - ${today}\n`),
);
