import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import { runOffline } from "../../support/command-line.ts";

// docs/reference/modules.md, "What a module requires": what lint finds without a cluster.

/** Lints modules by the text of their `addon.yaml`; of version 1.2.0. */
async function lint(
  modules: Readonly<Record<string, string>>,
  ...only: readonly string[]
): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), "lint-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(modules)) {
    const dir = join(root, name);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "Chart.yaml"), "apiVersion: v2\nname: x\nversion: 1.2.0\n");
    writeFileSync(join(dir, "addon.yaml"), text);
  }
  const dirs = only.length > 0 ? only : new Set(Object.keys(modules).map((name) => name.split("/")[0] ?? ""));
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  const { text } = await runOffline(
    "lint",
    ["--helm-bin", "/none", ...[...dirs].map((dir) => join(root, dir))],
    env,
  );
  return text
    .split("\n")
    .filter((line) => line.includes("addon.yaml"))
    .map((line) => line.replace(`${root}/`, ""));
}

describe("of what modules require, lint", () => {
  it("is content with what can be met, also by another directory", async () => {
    expect(
      await lint({
        "a/010-web": 'requires: {modules: {db: ">=1 <2", log: "*"}}\nafter: [db]\n',
        "a/020-db": "{}\n",
        "b/010-log": "{}\n",
      }),
    ).toEqual([]);
  });

  it("finds names of no module, and ranges that no module here is in", async () => {
    expect(
      await lint({
        "a/010-web": 'requires: {modules: {db: ">=2", none: "*"}}\nafter: [db, nobody]\n',
        "a/020-db": "{}\n",
      }),
    ).toEqual([
      "a/010-web/addon.yaml: requires.modules.db: has version 1.2.0, which is outside >=2 (correct it, or pass all modules directories to lint)",
      "a/010-web/addon.yaml: requires.modules.none: module does not exist (correct it, or pass all modules directories to lint)",
      "a/010-web/addon.yaml: after.1: module nobody does not exist (correct it, or pass all modules directories to lint)",
    ]);
  });

  it("finds what is no range, and keys that there are none of", async () => {
    const [range, key] = [
      await lint({ "a/010-web": "requires: {modules: {db: newest}}\n", "a/020-db": "{}\n" }),
      await lint({ "a/010-web": "require: {}\n" }),
    ];
    expect(range.join()).toContain('requires.modules.db: "newest" is no range of versions');
    expect(key.join()).toContain("require: is no key of addon.yaml");
  });

  it("finds circles, each once with the way through it", async () => {
    const found = await lint({
      "a/010-a": 'requires: {modules: {b: "*"}}\n',
      "a/020-b": "after: [c]\n",
      "a/030-c": 'requires: {modules: {a: "*"}}\n',
      "a/040-d": 'requires: {modules: {d: "*"}}\n',
      "a/050-e": 'requires: {modules: {a: "*"}}\n',
    });
    const remedy = "(remove one of them from requires or after)";
    expect(found).toEqual([
      `a/010-a/addon.yaml: requires itself, or comes before itself: a → b → c → a ${remedy}`,
      `a/040-d/addon.yaml: requires itself, or comes before itself: d → d ${remedy}`,
    ]);
  });

  it("does not judge what a single module requires of others", async () => {
    expect(await lint({ "a/010-web": 'requires: {modules: {db: "*"}}\n' }, "a/010-web")).toEqual([]);
  });
});

it("lint refuses a link that leads to itself", async () => {
  const root = mkdtempSync(join(tmpdir(), "lint-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  symlinkSync("loop", join(root, "loop"));
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  await expect(runOffline("lint", [join(root, "loop")], env)).rejects.toThrow("loop: is not a directory");
});
