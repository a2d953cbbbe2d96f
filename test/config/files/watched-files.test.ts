import { execFile } from "node:child_process";
import { watch, type FSWatcher } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { Failures } from "../../../src/base/index.ts";
import { ChartArchives, readTree, type ContentLimits } from "../../../src/modules/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { WatchedFiles, type WatchHealth } from "../../../src/config/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

const CALM_MS = 200;
const POLL_MS = 2000;

let root: string;
let files: WatchedFiles;
const clock = new ManualClock();
let state: State;
let lines: LoggedLine[];
let checks: WatchHealth[];
/** How often the kernel has reported something. */
let news = 0;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "watched-files-"));
  await put("repo/v1/modules/values.yaml", "global: {}\n");
  for (const name of ["010-a", "020-b"]) {
    await put(`repo/v1/modules/${name}/templates/x.yaml`, "kind: ConfigMap\n");
    await put(`repo/v1/modules/${name}/values.yaml`, "{}\n");
  }
  await put("repo/v1/global/hooks/g.sh", "#!/bin/sh\n");
  await symlink("v1", join(root, "repo/now"));
});
afterEach(async () => {
  files.close();
  await rm(root, { recursive: true, force: true });
});

async function put(rel: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, rel)), { recursive: true });
  await writeFile(join(root, rel), text);
}

const mkfifo = (path: string) => promisify(execFile)("mkfifo", [path]);
const at = (rel: string): string => join(root, "repo/now", rel);
const module = (rel: string): string => `repo/v1/modules/${rel}`;

/** Watches what the link of git-sync leads to. */
async function start(watchDir: typeof watch = watch, limits?: ContentLimits): Promise<void> {
  lines = [];
  checks = [];
  state = new State({ clock });
  const dirs = { modulesDirs: [at("modules")], globalHooksDir: at("global") };
  const archives = new ChartArchives(join(root, "tmp"));
  state.recordTree(await readTree({ ...dirs, unnumberedOrder: 1, strict: false, archives }));
  const logger = keepLog(lines);
  files = new WatchedFiles({
    dirs,
    state,
    clock,
    logger,
    failures: new Failures(logger),
    report: { dirsScanned: (health) => void checks.push(health) },
    ...(limits && { limits }),
    watch: (dir, report): FSWatcher =>
      watchDir(dir, (event, name) => {
        report(event, name);
        news += 1;
      }),
  });
  await files.start();
}

/** Until the kernel has reported a change, and the directories were looked at when they had become calm. */
async function checked(ms = CALM_MS): Promise<void> {
  const before = checks.length;
  await until(() => clock.timers > 0);
  await clock.advance(ms);
  await until(() => checks.length > before);
  await settle();
}

const moved = (): unknown => {
  const { modulesWithChangedFiles } = state.view;
  return modulesWithChangedFiles === "all" ? "all" : [...modulesWithChangedFiles].sort();
};

describe("what is reported of a change", () => {
  test.each<readonly [string, unknown, () => Promise<unknown>]>([
    ["a template", ["a"], () => put(module("010-a/templates/x.yaml"), "kind: Secret\n")],
    ["a template in a new directory", ["a"], () => put(module("010-a/templates/sub/y.yaml"), "x")],
    ["values of a module", ["b"], () => put(module("020-b/values.yaml"), "b: {x: 1}\n")],
    ["a hook that may be executed now", ["b"], () => put(module("020-b/hooks/h.sh"), "#!/bin/sh\n")],
    ["a FIFO, which makes its module Invalid", ["b"], () => mkfifo(join(root, module("020-b/fifo")))],
    ["a schema", ["a"], () => put(module("010-a/openapi/values.yaml"), "type: object\n")],
    ["a template that is gone", ["a"], () => rm(join(root, module("010-a/templates/x.yaml")))],
    ["the script that says whether it is on", "all", () => put(module("010-a/enabled"), "#!/bin/sh\n")],
    ["what a module requires", "all", () => put(module("010-a/addon.yaml"), "{}\n")],
    ["its settings under their old name", "all", () => put(module("010-a/module.yaml"), "after: [b]\n")],
    ["a CRD", "all", () => put(module("010-a/crds/c.yaml"), "{}\n")],
    ["a new module", "all", () => put(module("030-c/values.yaml"), "{}\n")],
    ["a module that is gone", "all", () => rm(join(root, module("020-b")), { recursive: true })],
    ["values of all modules", "all", () => put(module("values.yaml"), "global: {a: 1}\n")],
    ["a global hook", "all", () => put("repo/v1/global/hooks/g.sh", "#!/bin/bash\n")],
  ])("%s → %j", async (_what, reported, change) => {
    await start();
    await change();
    await checked();
    expect(moved()).toEqual(reported);
  });

  test.each<readonly [string, () => Promise<unknown>]>([
    ["the same content with another time", () => utimes(join(root, module("010-a/values.yaml")), 1, 1)],
    ["an editor's backup", () => put(module("010-a/templates/x.yaml~"), "old")],
    ["an editor's lock", () => put(module("010-a/templates/.#x.yaml"), "")],
    ["an editor's swap file", () => put(module("010-a/.values.yaml.swp"), "")],
    ["what rsync has not renamed yet", () => put(module("010-a/templates/.x.yaml.Ab12Cd"), "kind: S")],
    ["a link that cannot be followed", () => symlink("x".repeat(300), join(root, module("010-a/far")))],
  ])("nothing is reported of %s", async (_what, change) => {
    await start();
    await change();
    await checked();
    expect(moved()).toEqual([]);
  });

  test("mode bits count: a hook becomes executable", async () => {
    await put(module("010-a/hooks/h.sh"), "#!/bin/sh\n");
    await start();
    await chmod(join(root, module("010-a/hooks/h.sh")), 0o755);
    await checked();
    expect(moved()).toEqual(["a"]);
  });

  test("of the version that git-sync's link leads to now, the modules with another content", async () => {
    await start();
    for (const [name, text] of [
      ["010-a", "kind: ConfigMap\n"],
      ["020-b", "kind: Secret\n"],
    ] as const) {
      await put(`repo/v2/modules/${name}/templates/x.yaml`, text);
      await put(`repo/v2/modules/${name}/values.yaml`, "{}\n");
    }
    await put("repo/v2/modules/values.yaml", "global: {}\n");
    await put("repo/v2/global/hooks/g.sh", "#!/bin/sh\n");
    expect(clock.timers).toBe(0);
    await symlink("v2", join(root, "repo/next"));
    await rename(join(root, "repo/next"), join(root, "repo/now"));
    await rm(join(root, "repo/v1"), { recursive: true });
    await checked();
    expect(moved()).toEqual(["b"]);
    state.record("changedFilesRead");
    await put("repo/v2/modules/010-a/values.yaml", "a: {}\n");
    await checked();
    expect(moved()).toEqual(["a"]);
  });
});

describe("what is half written", () => {
  test("nothing is reported before it is calm", async () => {
    await start();
    await put(module("010-a/values.yaml"), "a: {");
    await until(() => clock.timers > 0);
    await clock.advance(CALM_MS - 1);
    const due = clock.nextTimerAt;
    await put(module("010-a/values.yaml"), "a: {x: 1}\n");
    await until(() => clock.nextTimerAt !== due);
    await clock.advance(CALM_MS - 1);
    expect([moved(), checks.length]).toEqual([[], 1]);
    await checked(1);
    expect(moved()).toEqual(["a"]);
  });

  test("what is reported and not read yet is reported again when it has become calm again", async () => {
    await start();
    await put(module("010-a/values.yaml"), "a: {}\n");
    await checked();
    expect(moved()).toEqual(["a"]);
    await put(module("010-a/values.yaml"), "a: {");
    await until(() => clock.timers > 0);
    expect(moved()).toEqual([]);
    await put(module("010-a/values.yaml"), "a: {}\n");
    await checked();
    expect(moved()).toEqual(["a"]);
  });

  test("a module that changes all the time keeps no other waiting", async () => {
    await start();
    await put(module("010-a/values.yaml"), "a: {}\n");
    let count = 0;
    for (; checks.length === 1; count += 1) {
      const before = news;
      await put(module("020-b/values.yaml"), `b: {x: ${count}}\n`);
      await until(() => news > before);
      await clock.advance(CALM_MS / 2);
    }
    await settle();
    expect([moved(), count]).toEqual([["a"], 50]);
  });
});

describe("the kernel has no more watches to give", () => {
  const full = (after: number, code: string): typeof watch => {
    let left = after;
    return ((dir: string, news: () => void) => {
      if (left-- > 0) return watch(dir, news);
      throw Object.assign(new Error("limit"), { code });
    }) as typeof watch;
  };

  test.each([
    [0, "EMFILE"],
    [3, "ENOSPC"],
  ])(
    "after %i watches, %s: that is said once, and what two looks find the same is told",
    async (after, code) => {
      await start(full(after, code));
      expect(lines.map(([level, message, fields]) => [level, message, fields?.["code"]])).toEqual([
        [
          "warn",
          "The kernel has no inotify watches left; the directories are polled every few seconds",
          code,
        ],
      ]);
      expect(checks).toEqual([{ watchCount: 0, isPolling: true }]);
      await checked(POLL_MS);
      await put(module("010-a/values.yaml"), "a: {");
      await checked(POLL_MS);
      expect(moved()).toEqual([]);
      await put(module("010-a/values.yaml"), "a: {x: 1}\n");
      await checked(POLL_MS);
      expect(moved()).toEqual([]);
      await checked(POLL_MS);
      expect(moved()).toEqual(["a"]);
      expect(lines.length).toBe(1);
    },
  );

  test("a directory that cannot be watched for another reason ends nothing", async () => {
    await start(full(3, "EACCES"));
    expect([lines, checks[0]?.isPolling]).toEqual([[], false]);
  });
});

describe("a link to a directory that is too large", () => {
  beforeEach(async () => {
    for (let n = 0; n < 40; n += 1) await put(`large/${n}/file`, "x");
    await symlink(join(root, "large"), join(root, module("010-a/linked")));
  });

  test("is said once; what lies above it and other modules are looked at as ever", async () => {
    await start(watch, { entries: 30, bytes: 1000 });
    const warned = [
      "warn",
      "The directory contains more than 30 files and directories; changes of the deepest ones are not detected",
      {
        directory: at("modules/010-a"),
        remedy: "remove the link that leads to them, or name it in .helmignore",
      },
    ];
    expect(lines).toEqual([warned]);
    await put(module("010-a/values.yaml"), "a: {}\n");
    await put(module("020-b/values.yaml"), "b: {}\n");
    await checked();
    expect(moved()).toEqual(["a", "b"]);
    expect(lines).toEqual([warned]);
  });

  test("is not entered where .helmignore names it, which hides no hooks", async () => {
    await put(module("010-a/.helmignore"), "/linked\n/hooks/\n");
    await start(watch, { entries: 30, bytes: 1000 });
    expect(lines).toEqual([]);
    await put(module("010-a/hooks/h.sh"), "#!/bin/sh\n");
    await checked();
    expect(moved()).toEqual(["a"]);
  });

  test("is no reason for a warning if .helmignore names its files", async () => {
    for (let n = 0; n < 40; n += 1) await put(module(`010-a/many/${n}.bin`), "x");
    await put(module("010-a/.helmignore"), "/linked\n*.bin\n");
    await start(watch, { entries: 30, bytes: 1000 });
    expect(lines).toEqual([]);
  });

  test("beyond so many bytes, stamps stand for what files hold", async () => {
    await start(watch, { entries: 1000, bytes: 10 });
    await put(module("010-a/values.yaml"), "a: {x: 1}\n");
    await checked();
    expect(moved()).toEqual(["a"]);
  });
});

test("nothing is watched any more after the end", async () => {
  await start();
  files.close();
  expect(clock.timers).toBe(0);
});
