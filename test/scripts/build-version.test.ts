/** What a build calls itself. */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, it, onTestFinished } from "vitest";

import { buildVersion } from "../../scripts/build/version.mjs";

let root: string;

const git = (...args: string[]): string =>
  execFileSync("git", ["-C", root, "-c", "user.name=a", "-c", "user.email=a@b", ...args], {
    encoding: "utf8",
  }).trim();

const putPackage = (dir: string): void =>
  writeFileSync(join(dir, "package.json"), JSON.stringify({ version: "1.2.3" }));

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "version-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  putPackage(root);
});

it("is the version alone for a build of its release tag", () => {
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "one");
  const commit = git("rev-parse", "--short", "HEAD");
  expect(buildVersion(root, {})).toBe(`1.2.3-dev+${commit}`);
  git("tag", "v1.2.2");
  expect(buildVersion(root, {})).toBe(`1.2.3-dev+${commit}`);
  git("tag", "v1.2.3");
  expect(buildVersion(root, {})).toBe("1.2.3");
  writeFileSync(join(root, "package.json"), `${JSON.stringify({ version: "1.2.3" })}\n`);
  expect(buildVersion(root, {})).toBe(`1.2.3-dev+${commit}-dirty`);
});

it("needs no repository, and names none that is around it", () => {
  expect(buildVersion(root, {})).toBe("1.2.3-dev");
  const inside = join(root, "inside");
  mkdirSync(inside);
  putPackage(inside);
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "one");
  expect(buildVersion(inside, {})).toBe("1.2.3-dev");
});

it("is what an image build says", () => {
  expect(buildVersion(root, { BUILD_VERSION: "1.3.0-rc.1", BUILD_REVISION: "abc" })).toBe("1.3.0-rc.1");
  expect(buildVersion(root, { BUILD_VERSION: "", BUILD_REVISION: "abc" })).toBe("1.2.3-dev+abc");
});
