import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { describe, expect, onTestFinished, test } from "vitest";

import { Failures, KnownSecrets, silentLogger } from "../../../src/base/index.ts";
import { Children, type RunRequest, type RunResult, TRUNCATED } from "../../../src/base/process/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { until } from "../../support/until.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Bytes in use after a garbage collection: resident memory depends on when the engine collects. */
function retained(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const FIXTURES = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/process");
const env = { PATH: process.env.PATH ?? "" };
const children = new Children();

function runFixture(name: string, options: Partial<RunRequest> = {}): Promise<RunResult> {
  return children.run({ file: join(FIXTURES, name), args: [], cwd: FIXTURES, env, ...options });
}

/** Resolves with the first line of output, and starts the run. */
function started(name: string, options: Partial<RunRequest> = {}) {
  const first = Promise.withResolvers<string>();
  const result = runFixture(name, { ...options, onLine: (_, line) => first.resolve(line) });
  return { first: first.promise, result };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A killed process that its new parent has not collected yet is gone all the same.
  return !isZombie(pid);
}

/** Lets time pass until the run is over: its time limits do not depend on how soon a child comes to work. */
async function over<T>(result: Promise<T>, clock: ManualClock): Promise<T> {
  const state = { isOver: false };
  void result.finally(() => (state.isOver = true));
  while (!state.isOver) {
    await clock.advance(20);
    // The child needs the processor.
    await sleep(1);
  }
  return result;
}

function isZombie(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

test("a reader of lines that throws is reported, and ends neither the reading nor the operator", async () => {
  const failures = new Failures(silentLogger);
  const places: string[] = [];
  failures.onFailure = (place) => void places.push(place);
  const lines: string[] = [];
  const onLine = (_stream: string, line: string): void => {
    lines.push(line);
    throw new Error("broken");
  };
  const result = await new Children(failures).run({
    file: "/bin/echo",
    args: ["a\nb"],
    cwd: "/",
    env,
    onLine,
  });
  expect([result.outcome, lines, places]).toEqual(["succeeded", ["a", "b"], ["child", "child"]]);
});

test("lines come as they are written, blank ones do not", async () => {
  const lines: string[] = [];
  const result = await runFixture("lines.sh", { onLine: (stream, line) => lines.push(`${stream} ${line}`) });
  expect(lines.filter((line) => line.startsWith("stdout"))).toEqual([
    "stdout one",
    "stdout three",
    "stdout no line end",
  ]);
  expect(lines.filter((line) => line.startsWith("stderr"))).toEqual(["stderr two"]);
  expect(result).toMatchObject({ outcome: "succeeded", exitCode: 0, stderr: "two\n", message: "succeeded" });
  expect(result.stdout).toBe("one\n\nthree\r\nno line end");
});

test("a long line is cut and marked", async () => {
  const lines: string[] = [];
  await runFixture("long-line.sh", { onLine: (_, line) => lines.push(line) });
  expect(lines).toEqual([`${"x".repeat(10_000)}${TRUNCATED}`, "after"]);
});

test("where stderr and a line of output are cut, a secret can still be hidden, also within a character", async () => {
  const secrets = new KnownSecrets();
  secrets.register({ password: "s3cr3t-éééé-LEAK" });
  const script = `for i in {1..5000}; do printf %s s3cr3t-éééé-LEAK, >&2; done; printf %*s "$0" >&2`;
  for (let shift = 1; shift < 25; shift++) {
    const lines: string[] = [];
    const args = ["-c", script, String(shift)];
    const request = { file: "/bin/bash", args, cwd: "/", env: { LC_ALL: "C.UTF-8" } };
    const { stderr } = await new Children().run({ ...request, onLine: (_, line) => lines.push(line) });
    expect(stderr).toMatch(/^…[^\u{fffd}]*$/u);
    for (const text of [stderr, ...lines]) expect(secrets.redact(text)).not.toMatch(/s3cr|éé|LEAK/);
  }
});

test("a failure reports the exit code and the last line of stderr", async () => {
  expect(await runFixture("fails.sh")).toMatchObject({
    outcome: "failed",
    exitCode: 3,
    stderr: "first reason\nlast reason\n",
    message: "exit code 3: last reason",
  });
});

test("a Go program that panics is reported with the line before its stack", async () => {
  const { message } = await runFixture("panics.sh");
  expect(message).toBe("exit code 2: panic: runtime error: nil pointer");
});

test("a child that a signal ended says which", async () => {
  const result = await runFixture("suicide.sh");
  expect(result).toMatchObject({
    outcome: "failed",
    signal: "SIGKILL",
    message: "ended by SIGKILL, which the system sends when memory is short",
  });
  expect(result.exitCode).toBeUndefined();
});

test("a flood of output is bounded: the beginning of stdout and the end of stderr are kept", async () => {
  const before = retained();
  const result = await runFixture("flood.sh", { stdoutLimit: 1000 });
  expect(result).toMatchObject({ outcome: "succeeded", stdout: "x".repeat(1000), stdoutTruncated: true });
  expect(result.stderr).toBe(`…${"y".repeat(64 * 1024 - 8)}the end\n`);
  // The engine gives buffers back in its own time.
  await expect.poll(() => retained() - before).toBeLessThan(10 * 1024 * 1024);
});

test("lines that take long to handle leave the event loop its turns", async () => {
  const perTurn = [0];
  const turns = setInterval(() => perTurn.push(0), 0);
  const onLine = (): void => {
    const until = performance.now() + 0.1;
    while (performance.now() < until);
    perTurn.push((perTurn.pop() ?? 0) + 1);
  };
  await children.run({ file: "/usr/bin/seq", args: ["1", "3000"], cwd: "/", env, onLine });
  clearInterval(turns);
  expect(perTurn.reduce((sum, lines) => sum + lines)).toBe(3000);
  expect(Math.max(...perTurn)).toBeLessThan(500);
});

test("the output of a process is complete although its first lines take longer than the output of others is awaited", async () => {
  let lines = 0;
  const onLine = (): void => {
    lines += 1;
    // Together the lines of the first read.
    const until = performance.now() + (lines <= 64 ? 18 : 0);
    while (performance.now() < until);
  };
  const args = ["-f", "%01000.0f", "1", "120"];
  const { stdout } = await children.run({ file: "/usr/bin/seq", args, cwd: "/", env, onLine });
  expect([lines, stdout.trimEnd().split("\n").length]).toEqual([120, 120]);
});

test("bytes that are no text are read as such", async () => {
  let lines = 0;
  const result = await runFixture("garbage.sh", { onLine: () => lines++ });
  expect(result.outcome).toBe("succeeded");
  expect(lines).toBeGreaterThan(0);
});

test.each(["daemon.sh", "chatty-daemon.sh"])(
  "%s that keeps the output open does not delay the result",
  async (name) => {
    const result = await runFixture(name);
    const pid = Number.parseInt(result.stdout, 10);
    try {
      expect(result).toMatchObject({ outcome: "succeeded" });
      // Half of what it keeps the output open for.
      expect(result.durationMs).toBeLessThan(30_000);
    } finally {
      if (isAlive(pid)) process.kill(pid, "SIGKILL");
    }
  },
);

test("a child that ignores SIGTERM is killed with its group", async () => {
  const clock = new ManualClock();
  const { first, result } = started("stubborn.sh", { timeoutMs: 300, graceMs: 100, clock });
  const grandchild = Number(await first);
  expect(await over(result, clock)).toMatchObject({
    outcome: "timedOut",
    signal: "SIGKILL",
    message: "timed out after 300ms",
  });
  await until(() => !isAlive(grandchild));
});

test("what the leader leaves behind when it is ended goes too", async () => {
  const clock = new ManualClock();
  const controller = new AbortController();
  const { first, result } = started("family.sh", { signal: controller.signal, graceMs: 100, clock });
  const [leader = 0, child = 0] = (await first).split(" ").map(Number);
  controller.abort();
  await until(() => !isAlive(leader));
  expect(isAlive(child)).toBe(true);
  expect(await over(result, clock)).toMatchObject({
    outcome: "cancelled",
    signal: "SIGTERM",
    message: "cancelled",
  });
  await until(() => !isAlive(child));
});

test("a polite child may finish within the grace time", async () => {
  const controller = new AbortController();
  const { first, result } = started("polite.sh", { signal: controller.signal, graceMs: 60_000 });
  await first;
  controller.abort();
  expect(await result).toMatchObject({ outcome: "cancelled", exitCode: 7, stdout: "ready\nbye\n" });
});

test("an abort that came before starts nothing", async () => {
  expect(await runFixture("lines.sh", { signal: AbortSignal.abort() })).toMatchObject({
    outcome: "cancelled",
    stdout: "",
  });
});

test("the end of all children ends whatever still runs", async () => {
  const { first, result } = started("stubborn.sh");
  await first;
  await children.endAll(50);
  expect(await result).toMatchObject({ outcome: "cancelled", signal: "SIGKILL" });
});

test("stdin is empty", async () => {
  expect((await runFixture("/bin/cat", { file: "cat" })).stdout).toBe("");
});

test("the environment is the given one and no more", async () => {
  expect(
    (await runFixture("env", { file: "env", env: { ...env, A: "1" } })).stdout.trim().split("\n").sort(),
  ).toEqual(["A=1", `PATH=${env.PATH}`].sort());
});

test.each([
  ["missing.sh", /cannot start .*missing\.sh: no such file/],
  ["not-executable.sh", /permission denied; is it executable \(chmod \+x\)/],
  ["bad-interpreter.sh", /the interpreter in its "#!" line does not exist/],
])("%s cannot be started, and says why", async (name, message) => {
  const result = await runFixture(name);
  expect(result.outcome).toBe("notStarted");
  expect(result.message).toMatch(message);
});

describe("a script or program that cannot work names the remedy", () => {
  const elf = (machine: number): Buffer => {
    const bytes = Buffer.alloc(64);
    bytes.write("\x7fELF\x02\x01\x01", "latin1");
    bytes.writeUInt16LE(2, 16);
    bytes.writeUInt16LE(machine, 18);
    return bytes;
  };
  const foreign = process.arch === "x64" ? 183 : 62;
  const library =
    /exists only in the image of the operator; load the shell library with source "\$\{SHELL_LIB_PATH/;
  test.each<[string, string | Buffer, RegExp]>([
    ["CRLF", "#!/bin/sh\r\necho\r\n", /"#!" line ends with a carriage return \(CRLF\); save/],
    [
      "CRLF behind env",
      "#!/usr/bin/env sh\r\necho\r\n",
      /"#!" line ends with a carriage return \(CRLF\); save/,
    ],
    ["CRLF in an option", "#!/bin/sh -e\r\necho\r\n", /"#!" line ends with a carriage return \(CRLF\); save/],
    ["byte order mark", "\ufeff#!/bin/sh\nexit 1\n", /a byte order mark precedes/],
    ["no interpreter", "#!/no/python3\n", /does not exist \(\/no\/python3\); install it/],
    [
      "env finds nothing",
      "#!/usr/bin/env no-python\n",
      /^exit code 127: no-python is not on the PATH; install/,
    ],
    ["another architecture", elf(foreign), /^cannot start .*another processor architecture; build it for/],
    ["no library, errexit", "#!/bin/bash\nset -e\nsource /shell_lib.sh\n", library],
    ["no library", "#!/bin/bash\nsource /shell_lib.sh\nhook::run\n", library],
    ["no library, sh", "#!/bin/sh\n. /frameworks/shell/hook.sh\n", library],
    // The script itself says why it fails.
    [
      "a library that may be missing",
      "#!/bin/bash\nsource /shell_lib.sh\necho why >&2; exit 3\n",
      /^exit code 3: why$/,
    ],
  ])("%s", async (_, content, message) => {
    const dir = mkdtempSync(join(tmpdir(), "cannot-work-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const file = join(dir, "hook");
    writeFileSync(file, content, { mode: 0o755 });
    expect((await runFixture("x", { file })).message).toMatch(message);
  });
});

test("a program that is not on PATH, a directory that is not there, an argument that cannot be", async () => {
  expect((await runFixture("x", { file: "no-such-program" })).message).toBe(
    "cannot start no-such-program: not found on PATH",
  );
  expect((await runFixture("lines.sh", { cwd: "/no/such/dir" })).message).toMatch(
    /its working directory \/no\/such\/dir does not exist/,
  );
  expect((await runFixture("lines.sh", { args: ["a\0b"] })).outcome).toBe("notStarted");
});

test("a script without a first line is run by the shell, or refused with the remedy", async () => {
  const result = await runFixture("no-shebang.sh");
  expect(`${result.stdout}${result.message}`).toMatch(
    /^ran as .*no-shebang\.sh|a script needs a first line like/,
  );
});

describe("a file that another program is writing", () => {
  /** A script that is open for writing until `close` is called. */
  function busyScript(): { file: string; close: () => void } {
    const dir = mkdtempSync(join(tmpdir(), "busy-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const file = join(dir, "hook.sh");
    writeFileSync(file, "#!/bin/sh\necho done\n", { mode: 0o755 });
    const open = openSync(file, "a");
    const close = (): void => closeSync(open);
    return { file, close };
  }

  test("is started once it is written", async () => {
    const { file, close } = busyScript();
    const clock = new ManualClock();
    const result = children.run({ file, args: [], cwd: FIXTURES, env, clock });
    await clock.advance(5000);
    close();
    expect(await over(result, clock)).toMatchObject({ outcome: "succeeded", stdout: "done\n" });
  });

  test("fails with the reason if that takes too long", async () => {
    const { file, close } = busyScript();
    onTestFinished(close);
    const clock = new ManualClock();
    const result = children.run({ file, args: [], cwd: FIXTURES, env, clock });
    await clock.advance(31_000);
    expect(await over(result, clock)).toMatchObject({
      outcome: "notStarted",
      message: `cannot start ${file}: the file is being written just now`,
    });
  });

  test("is not waited for after an abort", async () => {
    const { file, close } = busyScript();
    onTestFinished(close);
    const abort = new AbortController();
    const result = children.run({ file, args: [], cwd: FIXTURES, env, signal: abort.signal });
    abort.abort();
    expect(await result).toMatchObject({ outcome: "cancelled" });
  });
});

test("a child is started only while that is allowed", async () => {
  let allowed = true;
  children.startOnlyWhile(() => allowed);
  try {
    expect(await runFixture("lines.sh")).toMatchObject({ outcome: "succeeded" });
    allowed = false;
    expect(await runFixture("lines.sh")).toMatchObject({ outcome: "cancelled", stdout: "" });
  } finally {
    children.startOnlyWhile(() => true);
  }
});

test("what the caller hides is neither in stderr nor in the message, however long that is", async () => {
  const result = await children.run({
    file: "/bin/sh",
    args: ["-c", `echo "a secret"; echo "${"x".repeat(290)} secret" >&2; exit 1`],
    cwd: "/",
    env,
    redact: (text) => text.replaceAll("secret", "(hidden)"),
  });
  expect(JSON.stringify([result.stderr, result.message])).not.toMatch(/secre/);
  // A caller that reads the output gets it as it is.
  expect(result.stdout).toBe("a secret\n");
});
