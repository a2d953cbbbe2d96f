import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import {
  buildHookEnvironment,
  runHookFileOffline,
  runHook,
  type RunSettings,
} from "../../src/hooks/index.ts";
import { renderContext, type Snapshots } from "../../src/hooks/bindings/index.ts";
import type { LogFields, Logger } from "../../src/base/index.ts";
import type { Hook, HookTrigger } from "../../src/base/model/index.ts";
import { OutputLog } from "../../src/hooks/output/output-log.ts";
import { Children } from "../../src/base/process/index.ts";
import { ManualClock } from "../support/clock.ts";
import { hookWith, kubernetes, lifecycle, sync } from "./build.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../fixtures/hooks/hooks");
const PATH = process.env.PATH ?? "";
const ON_STARTUP: HookTrigger = lifecycle("onStartup");

let tmpDir: string;
let records: { level: string; message: string; fields: LogFields }[];
beforeEach(async () => {
  tmpDir = await mkdtemp(join(tmpdir(), "run-hook-"));
  records = [];
});
afterEach(async () => {
  await rm(tmpDir, { recursive: true });
});

function logger(bound: LogFields = {}): Logger {
  const at = (level: string) => (message: string, fields?: LogFields) =>
    void records.push({ level, message, fields: { ...bound, ...fields } });
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => logger({ ...bound, ...fields }),
  };
}

function hookAt(file: string, text = "configVersion: v1\nonStartup: 1", root = ROOT): Hook {
  return { ...hookWith(text, file), path: join(root, file), root };
}

const RULE = `{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}`;
const REVIEWS = hookAt(
  "obeys.sh",
  `configVersion: v1\nkubernetesValidating: [{name: a.b.io, rules: [${RULE}]}]`,
);
const [VALIDATING] = REVIEWS.config.bindings.validating;
const REVIEW = { type: "validating", binding: VALIDATING, request: { uid: "1" } } as unknown as HookTrigger;

interface Given {
  readonly hook?: Hook;
  readonly env?: Record<string, string>;
  readonly settings?: Partial<RunSettings>;
  readonly triggers?: readonly HookTrigger[];
  readonly snapshots?: Snapshots;
  readonly signal?: AbortSignal;
  /** As JSON. */
  readonly values?: string;
}

function start({
  hook = hookAt("obeys.sh"),
  env = {},
  settings = {},
  triggers = [ON_STARTUP],
  snapshots = { byBindingName: () => [], byBindingId: () => [{ object: { n: 1 } }] },
  signal,
  values = '{"global":{}}',
}: Given) {
  return runHook({
    hook,
    triggers,
    context: renderContext({ config: hook.config, triggers, snapshots }),
    values,
    configValues: "{}",
    settings: {
      env: { PATH, ...env },
      children: new Children(),
      workingDir: undefined,
      tmpDir,
      debugKeepTmpFiles: false,
      logProxyHookJson: false,
      ...settings,
    },
    logger: logger(),
    queue: "main",
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Runs shell text as a hook. */
const obey = (script: string, given: Given = {}) =>
  start({ ...given, env: { ...given.env, SCRIPT: script } });

describe("what a run gets", () => {
  test("arguments, directory, variables and files", async () => {
    const { result, failure } = await start({ hook: hookAt("report.sh"), env: { INHERITED: "yes" } });
    expect(failure).toBeUndefined();
    expect(result?.outcome).toBe("succeeded");
    const lines = records.filter(({ fields }) => fields.output === "stdout").map(({ message }) => message);
    expect(lines).toEqual([
      "args=0",
      `cwd=${process.cwd()}`,
      "stdin=0",
      `working=${ROOT}`,
      "inherited=yes",
      'context=[{"binding":"onStartup"}]',
      'values={"global":{}}',
      "config={}",
      ...Array.from({ length: 4 }, () => "600 0 700"),
    ]);
    expect(records.find(({ message }) => message === "oops")).toEqual({
      level: "info",
      message: "oops",
      fields: {
        hook: "report.sh",
        binding: "onStartup",
        event: "lifecycle",
        queue: "main",
        module: "m",
        output: "stderr",
      },
    });
    expect(await readdir(tmpDir)).toEqual([]);
  });

  test("the documented variables and those of the operator, whatever values, labels and snapshots say", async () => {
    const hostile = {
      LD_PRELOAD: "/x",
      BASH_ENV: "/x",
      NODE_OPTIONS: "-x",
      PYTHONHOME: "/x",
      PERL5OPT: "-x",
    };
    const snapshots = { byBindingName: () => [], byBindingId: () => [{ object: hostile }] };
    const { failure } = await start({
      // Not a shell, which sets variables of its own.
      hook: hookAt("env", undefined, "/usr/bin"),
      env: { LD_LIBRARY_PATH: "/operator", HOME: "/home/operator" },
      snapshots,
      values: JSON.stringify({ global: hostile, m: { env: hostile, ...hostile } }),
    });
    expect(failure).toBeUndefined();
    const lines = records.map(({ message }) => message);
    const names = lines.map((line) => line.slice(0, line.indexOf("=")));
    const page = await readFile(join(ROOT, "../../../../docs/reference/hooks.md"), "utf8");
    const [, table = ""] =
      /^A hook gets the following environment variables:\n([^]*?)\n\n[^|\n]/m.exec(page) ?? [];
    const firstCells = table.split("\n").map((row) => row.split("|")[1] ?? "");
    const documented = firstCells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    const own = ["PATH", "LD_LIBRARY_PATH", "HOME"];
    // SHELL_LIB_PATH is a variable of all hooks, which the environment of the operator has here.
    const expected = documented.filter((name): name is string => name !== "SHELL_LIB_PATH");
    expect(names.toSorted()).toEqual([...expected, ...own].toSorted());
    // docs/guides/running.md, "Credentials": only helm has a home of its own.
    expect(lines).toContain("HOME=/home/operator");
  });

  test.each<[string, HookTrigger, boolean]>([
    ["hooks of reviews give way to others", REVIEW, true],
    ["others do not", ON_STARTUP, false],
  ])("%s", async (_what, trigger, givesWay) => {
    const seen: unknown[] = [];
    const children = new Children();
    const run: Children["run"] = (request) => {
      seen.push(request.givesWay);
      return children.run(request);
    };
    await obey("true", { triggers: [trigger], settings: { children: { run } } });
    expect(seen).toEqual([givesWay]);
  });

  test("its own directory where the settings say so", async () => {
    await start({ hook: hookAt("report.sh"), settings: { hookWorkingDir: "own" } });
    expect(records.map(({ message }) => message)).toContain(`cwd=${ROOT}`);
  });

  test("a configured working directory as WORKING_DIR, unless the environment has one", async () => {
    const settings = { workingDir: "/addons" };
    await start({ hook: hookAt("report.sh"), settings });
    await start({ hook: hookAt("report.sh"), settings, env: { WORKING_DIR: "/ours" } });
    await start({ hook: hookAt("report.sh"), settings, env: { WORKING_DIR: "" } });
    const reported = records.map(({ message }) => message).filter((line) => line.startsWith("working="));
    expect(reported).toEqual(["working=/addons", "working=/ours", "working="]);
  });

  test("objects of a Synchronization", async () => {
    const hook = hookAt("report.sh", "configVersion: v1\nkubernetes: [{kind: Pod}]");
    await start({ hook, triggers: [sync(kubernetes(hook, "kubernetes"))] });
    expect(records.map(({ message }) => message)).toContain(
      'context=[{"binding":"kubernetes","objects":[{"object":{"n":1}}],"type":"Synchronization"}]',
    );
  });

  test("a Synchronization of 200 MB goes to its file in pieces, with little memory", async () => {
    const object = { apiVersion: "v1", kind: "ConfigMap", data: { text: "x".repeat(9000) } };
    const bytes = Buffer.from(JSON.stringify(object));
    const before = process.memoryUsage.rss();
    let peak = before;
    const item = {
      get objectText() {
        peak = Math.max(peak, process.memoryUsage.rss());
        return bytes;
      },
    };
    const objects = Array.from({ length: 24_000 }, () => item);
    const config = "configVersion: v1\nkubernetes: [{kind: ConfigMap}]";
    const hook = hookAt("obeys.sh", config);
    const { failure, output } = await start({
      hook,
      triggers: [sync(kubernetes(hook, "kubernetes"))],
      snapshots: { byBindingName: () => [], byBindingId: () => objects },
      env: {
        SCRIPT: `printf '{"name":"size","set":%s}' "$(stat -c %s "$BINDING_CONTEXT_PATH")" > "$METRICS_PATH"`,
      },
    });
    expect(failure).toBeUndefined();
    const [metric] = output?.metrics ?? [];
    expect(metric?.action === "set" && metric.value).toBeGreaterThan(200e6);
    // Of the whole process: what waits for garbage collection, here and in the files tested before, is part of it.
    expect((peak - before) / 1e6).toBeLessThan(110);
  });

  test("a .py hook uses the virtual environment of its hooks directory", async () => {
    const root = join(tmpDir, "hooks");
    const hook = hookAt("a.py", undefined, root);
    await mkdir(join(root, "venv", "bin"), { recursive: true });
    await writeFile(hook.path, "not python", { mode: 0o755 });
    await symlink("/bin/echo", join(root, "venv", "bin", "python3"));
    const { failure } = await start({ hook });
    expect(failure).toBeUndefined();
    expect(records.map(({ message }) => message)).toEqual([hook.path]);
  });
});

test("SHELL_LIB_PATH is the library's place, unless the operator's environment has another", () => {
  const place = join(dirname(fileURLToPath(import.meta.url)), "../../shell/shell_lib.sh");
  expect(buildHookEnvironment({ A: "b", UNSET: undefined })).toEqual({ A: "b", SHELL_LIB_PATH: place });
  expect(buildHookEnvironment({ SHELL_LIB_PATH: "/mine.sh" })).toEqual({ SHELL_LIB_PATH: "/mine.sh" });
});

describe("what a run leaves", () => {
  test("everything, parsed", async () => {
    expect(await start({ hook: hookAt("leaves.sh") })).toMatchObject({
      output: {
        configPatchText: '{"op":"add","path":"/m/a","value":1}\n',
        valuesPatchText: '[{"op":"remove","path":"/m/b"}]\n',
        metrics: [{ name: "m", action: "set", value: 1 }],
        objects: [{ operation: "Delete", target: { kind: "Pod", name: "p" } }],
      },
    });
  });

  test("nothing is read when the hook failed", async () => {
    const { output, failure } = await start({ hook: hookAt("leaves.sh"), env: { FAIL_WITH: "2" } });
    expect(output).toBeUndefined();
    expect(failure).toBe("exit code 2");
  });

  test.each([
    [
      'echo nonsense > "$METRICS_PATH"',
      /^the file at METRICS_PATH is refused: line 1: malformed JSON.*nothing of this run/,
    ],
    [
      'echo \'{"operation":"Frob"}\' > "$KUBERNETES_PATCH_PATH"',
      /^the file at KUBERNETES_PATCH_PATH is refused: line 1: 'operation' must be one of /,
    ],
    [
      'rm "$METRICS_PATH"; mkdir "$METRICS_PATH"',
      /^the file at METRICS_PATH is refused: it is no plain file any more/,
    ],
    [
      'rm "$VALUES_JSON_PATCH_PATH"; mkfifo "$VALUES_JSON_PATCH_PATH"',
      /^the file at VALUES_JSON_PATCH_PATH is refused: it is no plain file/,
    ],
    [
      `{ echo '['; yes '{},' | head -n 350000; echo '{}]'; } > "$VALUES_JSON_PATCH_PATH"`,
      /^the file at VALUES_JSON_PATCH_PATH is refused: it has more than 1000000 JSON values .*: write less/,
    ],
    [
      `{ echo '{"operation":['; yes '[],' | head -n 350000; echo '1]}'; } > "$KUBERNETES_PATCH_PATH"`,
      /^the file at KUBERNETES_PATCH_PATH is refused: it has more than 1000000 JSON values /,
    ],
    [
      `yes -- '- a' | head -c 4194305 > "$KUBERNETES_PATCH_PATH"`,
      /^the file at KUBERNETES_PATCH_PATH is refused: it has 4194305 characters of YAML, more than 4194304: write JSON objects/,
    ],
    [
      `{ echo '{"name":"a","set":['; yes '[],' | head -n 1700000; echo '1]}'; } > "$METRICS_PATH"`,
      /^the file at METRICS_PATH is refused: it has more than 5000000 JSON values /,
    ],
    [
      'truncate -s 65M "$VALUES_JSON_PATCH_PATH"',
      /^the file at VALUES_JSON_PATCH_PATH is refused: it has 68157440 bytes, more than 67108864/,
    ],
    ...(
      [
        "CONFIG_VALUES_JSON_PATCH_PATH",
        "VALUES_JSON_PATCH_PATH",
        "KUBERNETES_PATCH_PATH",
        "METRICS_PATH",
      ] as const
    ).map((variable): [string, RegExp] => [
      String.raw`printf '[]\n"caf\227"' > "$${variable}"`,
      new RegExp(`^the file at ${variable} is refused: line 2 is no UTF-8 text \\(nothing of this run`),
    ]),
  ])("%s fails the run", async (script, message) => {
    const { result, output, failure } = await obey(script);
    expect(result?.outcome).toBe("succeeded");
    expect(output).toBeUndefined();
    expect(failure).toMatch(message);
    expect(await readdir(tmpDir)).toEqual([]);
  });

  test("removed output files are empty ones", async () => {
    const { output } = await obey('rm -r "$(dirname "$METRICS_PATH")"');
    expect(output).toEqual({
      configPatchText: "",
      valuesPatchText: "",
      metrics: [],
      objects: [],
      answers: {},
    });
  });

  test("files left empty change nothing", async () => {
    const { output, failure } = await obey("true");
    expect(failure).toBeUndefined();
    expect(output).toEqual({
      configPatchText: "",
      valuesPatchText: "",
      metrics: [],
      objects: [],
      answers: {},
    });
  });

  test("files are kept when that is asked for", async () => {
    await start({ hook: hookAt("leaves.sh"), settings: { debugKeepTmpFiles: true } });
    const [dir = ""] = await readdir(tmpDir);
    expect(dir).toMatch(/^hook-m-leaves-sh\./);
    expect((await readdir(join(tmpDir, dir))).sort()).toEqual([
      "admission-response.json",
      "binding-context.json",
      "config-values-patch.json",
      "config-values.json",
      "conversion-response.json",
      "kubernetes-patch.json",
      "metrics.json",
      "spans.json",
      "values-patch.json",
      "values.json",
    ]);
    expect(await readFile(join(tmpDir, dir, "binding-context.json"), "utf8")).toBe(
      '[{"binding":"onStartup"}]\n',
    );
  });
});

describe("runs that go wrong", () => {
  test("exit code and the last line of stderr", async () => {
    expect((await obey("echo why >&2; exit 9")).failure).toBe("exit code 9: why");
  });

  test("a signal", async () => {
    expect((await obey("kill -SEGV $$")).failure).toBe("ended by SIGSEGV");
  });

  test("a time limit ends the whole group", async () => {
    expect((await obey("sleep 60 & sleep 60", { settings: { hookTimeoutMs: 100 } })).failure).toBe(
      "timed out after 100ms",
    );
  });

  test("processes left in the background go on, and are reported with hook and pids", async () => {
    const { failure } = await obey("sleep 60 >/dev/null 2>&1 & echo $!");
    const [said, warned] = records;
    const pids = said?.message ?? "";
    process.kill(Number(pids), "SIGKILL");
    expect(failure).toBeUndefined();
    expect(warned).toMatchObject({ level: "warn", fields: { hook: said?.fields["hook"], pids } });
    expect(warned?.message).toMatch(/left processes in the background/);
  });

  test("an abort", async () => {
    expect(await start({ signal: AbortSignal.abort() })).toMatchObject({ failure: "cancelled" });
    expect(await readdir(tmpDir)).toEqual([]);
  });

  test("a hook that is gone", async () => {
    expect((await start({ hook: hookAt("gone.sh") })).failure).toMatch(
      /cannot start .*gone\.sh: no such file/,
    );
  });

  test("a temp directory that cannot be used", async () => {
    const { result, failure } = await start({ settings: { tmpDir: "/proc/nowhere" } });
    expect(result).toBeUndefined();
    expect(failure).toMatch(/^cannot use the temp directory \/proc\/nowhere \(--tmp-dir\)/);
  });
});

test("a flood of output is logged in part, with one line that names how many lines are dropped", async () => {
  const clock = new ManualClock();
  const log = new OutputLog(logger(), { proxyJson: false, clock });
  for (let line = 0; line < 5000; line++) log.writeLine("stdout", `line ${line}`);
  await clock.advance(1000);
  log.writeLine("stdout", "the last");
  log.flush();
  expect(records).toHaveLength(1002);
  expect(records.at(-2)).toMatchObject({ level: "warn", fields: { dropped: 4000 } });
  expect(records.at(-1)?.message).toBe("the last");
});

describe("JSON in the output", () => {
  const script = String.raw`
echo '{"level":"warning","msg":"low","time":"now","disk":{"free":1},"queue":"mine"}'
echo plain
echo '{'; echo '  "msg": "several lines"'; echo '}'
echo '{"a":1}'
echo '{not json'
echo 'at all'`;

  test("is text unless asked otherwise", async () => {
    await obey(script);
    expect(records).toHaveLength(8);
    expect(records[0]).toMatchObject({
      level: "info",
      message: expect.stringContaining('{"level":"warning"'),
    });
  });

  test("becomes records of its own with --log-proxy-hook-json", async () => {
    await obey(script, { settings: { logProxyHookJson: true } });
    expect(records.map(({ level, message }) => [level, message])).toEqual([
      ["warn", "low"],
      ["info", "plain"],
      ["info", "several lines"],
      ["info", "hook result"],
      ["info", "{not json"],
      ["info", "at all"],
    ]);
    expect(records[0]?.fields).toMatchObject({
      disk: { free: 1 },
      queue: "main",
      hook_queue: "mine",
      output: "stdout",
    });
    expect(records[0]?.fields).not.toHaveProperty("time");
    expect(records[3]?.fields).toMatchObject({ a: 1 });
  });

  test("that never ends does not delay the rest", async () => {
    await obey("echo '{'; for i in $(seq 250); do echo line $i; done", {
      settings: { logProxyHookJson: true },
    });
    expect(records).toHaveLength(251);
  });
});

describe("offline", () => {
  const run = (context: string, file = "leaves.sh") =>
    runHookFileOffline({
      path: join(ROOT, file),
      context,
      values: "{}",
      configValues: "{}",
      settings: {
        env: { PATH },
        children: new Children(),
        workingDir: undefined,
        tmpDir,
        debugKeepTmpFiles: false,
        logProxyHookJson: false,
      },
      logger: logger(),
    });

  test("a hook gets the given context and reports what it would change", async () => {
    expect(await run('[{"binding":"x"}]')).toMatchObject({ output: { metrics: [{ name: "m" }] } });
    await run('{"binding": "x"}', "report.sh");
    expect(records.map(({ message }) => message)).toContain('context=[{"binding":"x"}]');
    expect(records[0]?.fields).toMatchObject({ hook: "hooks/report.sh", binding: "x" });
  });

  test.each([
    ["{", /^the context file is no JSON: /],
    ["[1]", /^the context file must contain a JSON array of objects$/],
  ])("%s is refused", async (context, message) => {
    expect((await run(context)).failure).toMatch(message);
  });
});
