import { appendFile, chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { HookLoader, type HookQueryOptions, lintHook } from "../../../src/hooks/index.ts";
import { createLogger, systemClock, type Clock } from "../../../src/base/index.ts";
import type { HookFile } from "../../../src/base/model/index.ts";
import { createLifecycleBinding } from "../../../src/hooks/bindings/index.ts";
import { Children } from "../../../src/base/process/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { bindingsWith } from "../build.ts";

const env = { PATH: process.env.PATH ?? "", INHERITED: "yes" };
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "loader-"));
});
afterEach(async () => {
  await rm(root, { recursive: true });
});

async function hookFile(script: string, name = "hook.sh"): Promise<HookFile> {
  const path = join(root, name);
  await mkdir(join(path, ".."), { recursive: true });
  await writeFile(path, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  return { name, path, root, signature: "1" };
}

const loader = (options: Partial<HookQueryOptions> = {}) =>
  new HookLoader({ env, children: new Children(), workingDir: undefined, ...options });

const V1 = `echo 'configVersion: v1'; echo`;

describe("asking for the configuration", () => {
  test("one argument, the operator's working directory, no stdin, WORKING_DIR and the operator's environment", async () => {
    const script = `echo "$@|$PWD|$WORKING_DIR|$INHERITED|$BINDING_CONTEXT_PATH|$(cat)" > "$0.seen"; echo 'onStartup: 3'`;
    const file = await hookFile(script, "sub/hook.sh");
    expect(await loader().load(file)).toEqual({
      hooks: [
        {
          ...file,
          id: "global:sub/hook.sh",
          module: undefined,
          config: {
            version: "v0",
            bindings: bindingsWith({ lifecycle: [createLifecycleBinding("onStartup", 3)] }),
            settings: undefined,
          },
        },
      ],
      warnings: [],
    });
    expect(await readFile(`${file.path}.seen`, "utf8")).toBe(`--config|${process.cwd()}|${root}|yes||\n`);
    await loader({ workingDir: "/addons", hookWorkingDir: "own" }).load(file);
    expect(await readFile(`${file.path}.seen`, "utf8")).toContain(`--config|${join(root, "sub")}|/addons|`);
    await loader({ workingDir: "/addons", env: { ...env, WORKING_DIR: "/ours" } }).load(file);
    expect(await readFile(`${file.path}.seen`, "utf8")).toContain("|/ours|");
  });

  test("the answer is kept while the content stays, a failure is not", async () => {
    const file = await hookFile(
      `echo x >> "$0.count"; [ $(wc -l < "$0.count") -gt 1 ] && echo 'onStartup: 3'`,
    );
    const requested = async () => (await readFile(`${file.path}.count`, "utf8")).length / 2;
    const subject = loader();
    expect(await subject.load(file, "m")).toMatchObject({ problem: {} });
    expect(await subject.load(file, "m")).toMatchObject({ hooks: [{ id: "m:hook.sh", module: "m" }] });
    await subject.load(file, "m");
    expect(await requested()).toBe(2);
    const same = await subject.load({ ...file, signature: "2" }, "m");
    expect([await requested(), same]).toMatchObject([2, { hooks: [{ signature: file.signature }] }]);
    await appendFile(file.path, "# changed\n");
    const changed = await subject.load({ ...file, signature: "3" }, "m");
    expect([await requested(), changed]).toMatchObject([3, { hooks: [{ signature: "3" }] }]);
    await chmod(file.path, 0o700);
    await subject.load({ ...file, signature: "4" }, "m");
    expect(await requested()).toBe(4);
  });

  test("hooks of a module and global hooks may differ in what they bind to", async () => {
    const file = await hookFile("echo 'beforeHelm: 1'");
    expect(await loader().load(file, "m")).toMatchObject({ hooks: [{}] });
    expect(await loader().load(file)).toMatchObject({
      problem: { message: "beforeHelm is not allowed in a global hook, only in module hooks" },
    });
  });
});

describe("a hook that cannot be configured is a problem that names it", () => {
  test.each([
    ["echo one >&2; echo two >&2; exit 4", "the hook failed: exit code 4: one | two"],
    ["exit 4", "the hook failed: exit code 4"],
    ["kill -9 $$", "the hook failed: ended by SIGKILL, which the system sends when memory is short"],
    ["true", "the configuration is empty: the hook printed nothing for --config"],
    [`${V1} 'schedule: [{}]'; echo 'x: 1'`, "schedule[0].crontab is required; x is a forbidden property"],
    ["head -c 2000000 /dev/zero | tr '\\0' x", "the configuration is larger than 1 MiB"],
    ["head -c 1000 /dev/urandom", expect.stringMatching(/^line \d+ is no UTF-8 text$/)],
  ])("%s", async (script, message) => {
    const file = await hookFile(script);
    expect(await loader().load(file)).toEqual({
      problem: {
        file: file.path,
        key: "--config",
        message: message,
        remedy: expect.any(String),
      },
    });
  });

  test("one that hangs is ended", async () => {
    const file = await hookFile("sleep 60");
    expect(await loader({ timeoutMs: 100 }).load(file)).toMatchObject({
      problem: { message: "the hook failed: timed out after 100ms" },
    });
  });

  test("one that hangs is ended with the task that waits for it, and is asked again by the next", async () => {
    const file = await hookFile("[ -e \"$WORKING_DIR/go\" ] || exec sleep 60; echo 'onStartup: 1'");
    const subject = loader();
    const stop = new AbortController();
    const load = subject.load(file, "m", stop.signal);
    stop.abort(new Error("the operator stops"));
    await expect(load).rejects.toThrow("the operator stops");
    await writeFile(join(root, "go"), "");
    expect(await subject.load(file, "m")).toMatchObject({ hooks: [{ name: "hook.sh" }] });
  });

  test("those that do not answer within 5 s delay no others", async () => {
    const answers = "until [ -e \"$WORKING_DIR/go\" ]; do sleep 0.05; done; echo 'onStartup: 1'";
    const hanging = ["a", "b", "c", "d", "e"].map((name) => hookFile(answers, name));
    const good = await hookFile("echo 'onStartup: 3'", "good.sh");
    const clock = new ManualClock();
    const subject = loader({ clock });
    const loads = (await Promise.all(hanging)).map((file) => subject.load(file));
    const loaded = subject.load(good);
    // Each of the four places is free again five seconds after its file was asked.
    while ((await Promise.race([loaded, settle()])) === undefined) await clock.advance(1000);
    expect(await loaded).toMatchObject({ hooks: [{ name: "good.sh" }] });
    await writeFile(join(root, "go"), "");
    expect(await Promise.all(loads)).toMatchObject(hanging.map(() => ({ hooks: [{}] })));
  });

  test("one that does not answer within 5 s is named in the log", async () => {
    const file = await hookFile("echo 'onStartup: 3'");
    const lines: string[] = [];
    const write = (line: string): void => void lines.push(line);
    const logger = createLogger({ level: "info", type: "text", noTime: true, clock: systemClock, write });
    const timers: string[] = [];
    const clock: Clock = {
      ...systemClock,
      setTimer: (ms, fn) => {
        timers.push(`set ${ms}`);
        void fn();
        return { cancel: () => void timers.push("cancelled") };
      },
    };
    await loader({ clock, logger }).load(file, "m");
    expect(new Set(timers)).toEqual(new Set(["set 5000", "cancelled"]));
    expect(lines).toEqual([expect.stringMatching(/Waiting for the configuration of a hook.*hook\.sh.*60s/)]);
  });

  test("one that prints no UTF-8", async () => {
    const file = await hookFile(String.raw`printf 'configVersion: v1\nonStartup: 1 # caf\227\n'`);
    expect(await loader().load(file)).toEqual({
      problem: {
        file: file.path,
        key: "--config",
        message: "line 2 is no UTF-8 text",
        remedy: "correct what the hook prints",
      },
    });
  });

  test("one with a byte order mark before its #!", async () => {
    const file = await hookFile("");
    await writeFile(file.path, "\ufeff#!/bin/bash\n");
    const { problem } = (await loader().load(file)) as { problem: { message: string } };
    expect(problem.message).toContain(
      'a byte order mark precedes its "#!" line; save the file as UTF-8 without a byte order mark',
    );
  });

  test("one that is not executable", async () => {
    const file = await hookFile("true");
    await chmod(file.path, 0o644);
    expect(await loader().load(file)).toMatchObject({
      problem: { message: expect.stringContaining("chmod +x") },
    });
  });

  test("crontabs and filters are checked where they are written", async () => {
    const config = (crontab: string): string =>
      `echo '{"configVersion":"v1","schedule":[{"crontab":"${crontab}"}],"kubernetes":[{"kind":"Pod","jqFilter":"bad"}]}'`;
    const checkFilter = (filter: string) => Promise.reject(new Error(`no filter: ${filter}`));
    const odd = await hookFile(config("x"), "odd.sh");
    expect(await loader().load(odd)).toMatchObject({
      problem: { message: expect.stringMatching(/^schedule\[0\].crontab is invalid: .*found 1: x/) },
    });
    const file = await hookFile(config("* 30 12 * * *"));
    expect(await loader({ checkFilter }).load(file)).toMatchObject({
      problem: { message: "kubernetes[0].jqFilter is invalid: no filter: bad" },
    });
    expect(await loader().load(file)).toMatchObject({
      warnings: [expect.stringMatching(/^schedule\[0\].crontab: .*second/)],
    });
  });
});

test("many hooks are asked a few at a time", async () => {
  const script = `mkdir "$WORKING_DIR/run.$$"; ls -d "$WORKING_DIR"/run.* | wc -l >> "$WORKING_DIR/counts"; sleep 0.05; rmdir "$WORKING_DIR/run.$$"; echo 'onStartup: 1'`;
  const files = await Promise.all(Array.from({ length: 12 }, (_, i) => hookFile(script, `h${i}.sh`)));
  const subject = loader();
  const answers = await Promise.all(files.map((file) => subject.load(file)));
  expect(answers.every((answer) => "hooks" in answer)).toBe(true);
  const counts = (await readFile(join(root, "counts"), "utf8")).trim().split("\n").map(Number);
  expect(Math.max(...counts)).toBeLessThanOrEqual(4);
});

test("lint reports each mistake apart, with its line in the script", async () => {
  const file = await hookFile(`cat <<EOF
configVersion: v1
kubernetes:
- kind: Pod
  jqFilter: .a
- kind: Node
  jqFilter: bad
  mode: old
schedule:
- name: x
EOF`);
  const options = { env, children: new Children(), workingDir: undefined };
  const { problems } = await lintHook(file, "m", options);
  expect(problems.map(({ key, message }) => [key, message])).toEqual([
    ["line 9", "kubernetes[1].mode is a forbidden property"],
    ["line 10", "schedule[0].crontab is required"],
  ]);
});

test("a hook is not called while it is not known as whom", async () => {
  const file = await hookFile(`touch "$0.seen"; ${V1} 'onStartup: 1'`);
  let isKnown = false;
  const actorOf = (): undefined => {
    if (!isKnown) throw new Error("its account is not known");
  };
  const hooks = loader({ actorOf } as Partial<HookQueryOptions>);
  const answer = await hooks.load(file, "web");
  expect("problem" in answer && answer.problem.message).toBe("the hook failed: its account is not known");
  await expect(readFile(`${file.path}.seen`)).rejects.toThrow("ENOENT");
  isKnown = true;
  expect(await hooks.load(file, "web")).toMatchObject({ hooks: [{ module: "web" }] });
});
