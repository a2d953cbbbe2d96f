import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { RELEASE } from "../../src/config/settings/version.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const lines = read("CHANGELOG.md").split("\n");

/** https://keepachangelog.com/en/1.1.0: the kinds of changes. */
const KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

describe("the changelog is kept as Keep a Changelog says", () => {
  const versions = lines.filter((line) => line.startsWith("## "));
  const released = versions.slice(1).map((line) => /^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$/.exec(line));

  test("what is not released yet first, then each version with its day, the newest first", () => {
    expect(versions[0]).toBe("## [Unreleased]");
    expect(released).not.toContain(null);
    const days = released.map((each) => each?.[2] ?? "");
    expect(days).toEqual(days.toSorted().reverse());
  });

  test("each kind of change once in a version, in the same order everywhere", () => {
    for (const version of read("CHANGELOG.md").split(/^## /m).slice(1)) {
      const kinds = [...version.matchAll(/^### (.*)$/gm)].map(([, kind = ""]) => kind);
      expect(kinds).toEqual(KINDS.filter((kind) => kinds.includes(kind)));
    }
  });

  test("the newest version is that of the program", () => {
    expect(released[0]?.[1]).toBe(RELEASE);
  });

  test("the page about upgrades speaks of it", () => {
    const [major, minor] = RELEASE.split(".");
    expect(read("docs/guides/upgrading.md")).toContain(` to ${major}.${minor}\n`);
  });
});

describe("the version is the same", () => {
  const pack = JSON.parse(read("package.json")) as { version: string };
  const lock = JSON.parse(read("package-lock.json")) as {
    version: string;
    packages: { "": { version: string } };
  };
  test.each([
    ["package.json", pack.version],
    ["package-lock.json", lock.version],
    ["its root package", lock.packages[""].version],
    ["the chart", /^version: (.*)$/m.exec(read("charts/addon-operator/Chart.yaml"))?.[1]],
    ["the chart's program", /^appVersion: "(.*)"$/m.exec(read("charts/addon-operator/Chart.yaml"))?.[1]],
    ["the image", /^ARG VERSION=(.*)$/m.exec(read("Dockerfile"))?.[1]],
    [
      "deploy/manifests",
      /image: "addon-operator:(.*)"/.exec(read("deploy/manifests/addon-operator.yaml"))?.[1],
    ],
    [
      "docs/get-started/install.md",
      /^FROM ghcr\.io\/OWNER\/addon-operator:(.*)$/m.exec(read("docs/get-started/install.md"))?.[1],
    ],
  ])("in %s", (_, version) => {
    expect(version).toBe(RELEASE);
  });
});
