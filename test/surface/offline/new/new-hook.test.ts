import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { programFile } from "../../../../scripts/operator.mjs";
import { tools } from "../../../../scripts/setup/tools.mjs";
import { runOffline } from "../../../support/command-line.ts";
import { putFiles } from "../../../support/chart-repository.ts";

// docs/reference/commands.md, "Without a cluster": `new hook`.

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "new-hook-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  putFiles(join(root, "modules"), { "010-web-app/values.yaml": "webAppEnabled: true\n" });
});

const env = () => ({ PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") });

function make(...args: string[]): Promise<{ code: number; text: string }> {
  const settings = ["--helm-bin", tools().helm, "--modules-dir", join(root, "modules")];
  return runOffline("new", ["hook", ...settings, ...args], env());
}

const isOnPath = (name: string): boolean =>
  (process.env["PATH"] ?? "").split(delimiter).some((dir) => existsSync(join(dir, name)));

const module = (): string => join(root, "modules/010-web-app");

/** Runs the test of a hook, by a shell of one's own. */
function runTest(name: string, shell: readonly [string, ...string[]]): string {
  const [file, ...args] = shell;
  const program = join(root, "addon-operator");
  writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${programFile()} "$@"\n`, { mode: 0o755 });
  const given = { ...env(), NODE_NO_WARNINGS: "1", PATH: [root, process.env["PATH"]].join(delimiter) };
  return execFileSync(file, [...args, join(module(), "tests", name, "test.sh")], {
    env: given,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

describe("new hook", () => {
  it.each<[string, string[]]>([
    ["before helm", []],
    ["on events", ["--on-event", "apps/v1/Deployment"]],
    ["by the clock", ["--schedule", "*/5 * * * *"]],
  ])(
    "writes a hook that runs %s, in both languages, that lint is content with, and its test",
    async (_, when) => {
      for (const [name, language, file] of [
        ["one", "bash", "hooks/one.sh"],
        ["two", "python", "hooks/two.py"],
      ] as const) {
        const { code, text } = await make("web-app", name, "--language", language, ...when);
        const hook = join(module(), file);
        expect([code, text]).toEqual([
          0,
          `${hook}: written. Test it:\n  sh ${module()}/tests/${name}/test.sh\n`,
        ]);
        expect(statSync(hook).mode & 0o111).toBe(0o111);
        const at = join(module(), "tests", name);
        const given = ["--context", join(at, "context.json"), "--values", join(at, "values.yaml")];
        const left = await runOffline("hook", ["run", hook, ...given], env());
        expect(left).toEqual({ code: 0, text: readFileSync(join(at, "expected.yaml"), "utf8") });
      }
      expect(readdirSync(module()).toSorted()).toEqual(["hooks", "tests", "values.yaml"]);
    },
  );

  async function runsIn(...shell: [string, ...string[]]): Promise<void> {
    await make("010-web-app", "one", "--on-event", "Pod");
    const hook = join(module(), "hooks/one.sh");
    const text = readFileSync(hook, "utf8");
    expect(text.startsWith("#!/bin/sh\n")).toBe(true);
    writeFileSync(hook, text.replace("#!/bin/sh", `#!/usr/bin/env -S ${shell.join(" ")}`));
    expect(runTest("one", shell)).toBe("ok\n");
  }

  it("hook and test are plain sh: bash", () => runsIn("bash"));

  it.skipIf(!isOnPath("busybox"))("hook and test are plain sh: busybox (where it is on the PATH)", () =>
    runsIn("busybox", "sh"),
  );

  it("the test fails when the hook leaves something else", async () => {
    await make("web-app", "one");
    const hook = join(module(), "hooks/one.sh");
    const text = readFileSync(hook, "utf8");
    writeFileSync(hook, text.replace("set: $count", "set: 7"));
    expect(() => runTest("one", ["sh"])).toThrow("Command failed");
  });

  it.each<[string, string[], RegExp]>([
    ["a module that is not there", ["other", "one"], /module other does not exist/],
    ["a name that leads elsewhere", ["web-app", "../one"], /"\.\.\/one" is not a valid name of a hook/],
    ["a hook that is there", ["web-app", "there"], /hooks\/there\.sh: already exists/],
    ["two bindings", ["web-app", "one", "--on-event", "Pod", "--schedule", "@daily"], /exclude each other/],
    ["a crontab that is none", ["web-app", "one", "--schedule", "x"], /crontab/],
    ["a kind that is none", ["web-app", "one", "--on-event", "v1/"], /kind/],
    ["another language", ["web-app", "one", "--language", "perl"], /"perl" is neither bash nor python/],
    ["no name", ["web-app"], /usage: addon-operator new hook MODULE NAME/],
  ])("refuses %s, and leaves nothing behind", async (_, args, message) => {
    putFiles(module(), { "hooks/there.sh": "" });
    await expect((async () => make(...args))()).rejects.toThrow(message);
    expect(readdirSync(module()).toSorted()).toEqual(["hooks", "values.yaml"]);
    expect(readdirSync(join(module(), "hooks"))).toEqual(["there.sh"]);
  });

  it("leaves nothing of a hook behind whose test cannot be written", async () => {
    putFiles(module(), { tests: "" });
    await expect(make("web-app", "one")).rejects.toThrow(/EEXIST|ENOTDIR/);
    expect(existsSync(join(module(), "hooks/one.sh"))).toBe(false);
    expect(readdirSync(module()).filter((name) => name.startsWith("."))).toEqual([]);
  });
});
