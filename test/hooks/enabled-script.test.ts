import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";

import { runEnabledScript } from "../../src/hooks/index.ts";
import type { StartSettings } from "../../src/hooks/run-hook.ts";
import { KnownSecrets, silentLogger } from "../../src/base/index.ts";
import { Children, type RunRequest, type RunResult } from "../../src/base/process/index.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "enabled-"));
});
afterEach(async () => {
  await rm(dir, { recursive: true });
});

async function ask(script: string, timeoutMs?: number, start: Partial<StartSettings> = {}) {
  const path = join(dir, "enabled");
  await writeFile(path, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  const env = { PATH: process.env.PATH ?? "" };
  const tmpDir = join(dir, "tmp");
  const settings = {
    env,
    children: new Children(),
    workingDir: undefined,
    tmpDir,
    hookTimeoutMs: timeoutMs,
    debugKeepTmpFiles: false,
    logProxyHookJson: false,
    ...start,
  };
  const values = '{"global":{"enabledModules":["a"]}}';
  const answer = await runEnabledScript({
    module: "m",
    path,
    values,
    configValues: "{}",
    settings,
    logger: silentLogger,
  });
  expect(await readdir(tmpDir)).toEqual([]);
  return answer;
}

test.each([
  ['echo true > "$MODULE_ENABLED_RESULT"', { enabled: true, reason: undefined }],
  [
    'printf false > "$MODULE_ENABLED_RESULT"; echo "no nodes" > "$MODULE_ENABLED_REASON"',
    { enabled: false, reason: "no nodes" },
  ],
  [
    String.raw`printf 'tru\227' > "$MODULE_ENABLED_RESULT"`,
    { failure: "the file at MODULE_ENABLED_RESULT is refused: line 1 is no UTF-8 text" },
  ],
  ["echo starting; echo true", { enabled: true, reason: undefined }],
  ["echo false; echo", { enabled: false, reason: undefined }],
  ['echo false; echo true > "$MODULE_ENABLED_RESULT"', { enabled: true, reason: undefined }],
  [
    'grep -q enabledModules "$VALUES_PATH" && [ "$(cat "$CONFIG_VALUES_PATH")" = "{}" ] && echo true',
    { enabled: true, reason: undefined },
  ],
  [`[ "$PWD" = "${process.cwd()}" ] && [ $# = 0 ] && echo true`, { enabled: true, reason: undefined }],
  ['[ "$WORKING_DIR" = "$(dirname "$(dirname "$0")")" ] && echo true', { enabled: true, reason: undefined }],
])("%s", async (script, answer) => {
  expect(await ask(script)).toEqual(answer);
});

test("it runs in its own directory where the settings say so, with the WORKING_DIR of the environment", async () => {
  const script = 'echo "$PWD $WORKING_DIR" > "$MODULE_ENABLED_REASON"; echo true';
  const env = { PATH: process.env.PATH ?? "", WORKING_DIR: "/ours" };
  const answer = await ask(script, undefined, { env, hookWorkingDir: "own" });
  expect(answer).toEqual({ enabled: true, reason: `${dir} /ours` });
});

test.each([
  ["exit 3", "exit code 3"],
  ["echo cannot >&2; false", "exit code 1: cannot"],
  ["true", "it answered nothing; write true or false to the file at MODULE_ENABLED_RESULT"],
  ["echo yes", 'it answered "yes"; write true or false to the file at MODULE_ENABLED_RESULT'],
  [
    'echo maybe > "$MODULE_ENABLED_RESULT"; echo true',
    'it answered "maybe"; write true or false to the file at MODULE_ENABLED_RESULT',
  ],
])("%s is a failure", async (script, failure) => {
  expect(await ask(script)).toEqual({ failure });
});

const timedOut = (limit: string): string =>
  `timed out after ${limit}; make it answer faster, or set --hook-timeout to a longer time`;

test.each([
  (text: string) => `echo '${text}' > "$MODULE_ENABLED_RESULT"`,
  (text: string) => `echo '${text}' > "$MODULE_ENABLED_REASON"; echo false`,
  (text: string) => `echo '${text}' >&2; exit 3`,
])("a secret that is cut in an answer, a reason or a failure can still be hidden: %#", async (say) => {
  const secrets = new KnownSecrets();
  secrets.register({ password: "s3cr3t-LEAK-1234" });
  const answer = await ask(say(Array.from({ length: 200 }, () => "s3cr3t-LEAK-1234").join(",")));
  const displayed = JSON.stringify(secrets.redactDeep(answer));
  expect(displayed).toContain("…");
  expect(displayed).not.toMatch(/s3cr|LEAK|1234/);
});

test("a script that hangs is ended", async () => {
  expect(await ask("sleep 60", 100)).toEqual({ failure: timedOut("100ms"), timedOut: true });
});

test("a script that hangs is ended after two minutes without --hook-timeout", async () => {
  const limits: unknown[] = [];
  class ImpatientChildren extends Children {
    override run(request: RunRequest): Promise<RunResult> {
      limits.push(request.timeoutMs);
      return super.run({ ...request, timeoutMs: 100 });
    }
  }
  const answer = await ask("sleep 60", undefined, { children: new ImpatientChildren() });
  expect({ answer, limits }).toEqual({
    answer: { failure: timedOut("100ms"), timedOut: true },
    limits: [120_000],
  });
});

test("answers as the script of docs/reference/modules.md is meant to", async () => {
  const page = await readFile(new URL("../../docs/reference/modules.md", import.meta.url), "utf8");
  const [, script = ""] = /```sh\n([^]*?)```/.exec(page) ?? [];
  const reason = "needs ingress-nginx";
  expect(await ask(script)).toEqual({ enabled: false, reason });
  expect(await ask(script.replaceAll('"ingress-nginx"', '"a"'))).toEqual({
    enabled: true,
    reason: undefined,
  });
});

test("gets the environment of the operator", async () => {
  vi.stubEnv("PATH", `${process.env["PATH"]}:/nowhere`);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await ask('[[ "$PATH" == *:/nowhere ]] && echo true')).toMatchObject({ enabled: true });
});
