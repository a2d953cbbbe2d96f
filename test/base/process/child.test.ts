import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";

import { afterAll, describe, expect, test } from "vitest";

import { LibcSpawner, createLauncher, startByNode } from "../../../src/base/process/child.ts";
import type { Child, LaunchSpec } from "../../../src/base/process/child.ts";
import { getLibc, type Libc } from "../../../src/base/process/libc.ts";

type Start = (spec: LaunchSpec) => Child;

const dir = mkdtempSync(join(tmpdir(), "child-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const env = { PATH: process.env.PATH ?? "", GREETING: "good\nday" };

/** A file of this content, executable unless told otherwise. */
function script(name: string, text: string, mode = 0o755): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const bash = (command: string, more: Partial<LaunchSpec> = {}): LaunchSpec => ({
  file: "bash",
  args: ["-c", command],
  cwd: dir,
  env,
  ...more,
});

async function text(stream: Readable | undefined): Promise<string> {
  return Buffer.concat(await (stream as Readable).toArray()).toString();
}

async function ended(child: Child) {
  const [stdout, stderr, exit] = await Promise.all([text(child.stdout), text(child.stderr), child.exit]);
  return { stdout, stderr, exit };
}

/** The error, whether it is thrown or told. */
async function startError(start: Start, spec: LaunchSpec): Promise<NodeJS.ErrnoException | undefined> {
  try {
    const exit = await start(spec).exit;
    return exit.kind === "notStarted" ? exit.error : undefined;
  } catch (error) {
    return error as NodeJS.ErrnoException;
  }
}

const library = getLibc();
const spawner = library === undefined ? undefined : new LibcSpawner(library);
const linux: Start = (spec) => (spawner as LibcSpawner).start(spec);
const ways: [string, Start][] = [
  ...(spawner === undefined ? [] : [["posix_spawn", linux] as [string, Start]]),
  ["Node", startByNode],
];

test("posix_spawn can be had on Linux", () => {
  expect(library !== undefined).toBe(process.platform === "linux");
});

describe.each(ways)("a child started by %s", (_way, start) => {
  test("gets its arguments, directory and environment, and nothing else", async () => {
    const child = start(
      bash('pwd; echo "$GREETING" "$0" "${HOME-none}"', {
        args: ["-c", 'pwd; echo "$GREETING" "$0" "${HOME-none}"', "zero arg"],
      }),
    );
    expect((await ended(child)).stdout).toBe(`${dir}\ngood\nday zero arg none\n`);
  });

  test("leads a session of its own", async () => {
    const child = start(bash("ps -o pid=,sid= -p $$; exit 7"));
    const { stdout, exit } = await ended(child);
    expect(stdout.trim().split(/\s+/)).toEqual([String(child.pid), String(child.pid)]);
    expect(exit).toMatchObject({ kind: "exited", code: 7, signal: undefined });
  });

  test("has no signal blocked or ignored", async () => {
    const { stdout } = await ended(
      start({ file: "grep", args: ["-E", "Sig(Blk|Ign)", "/proc/self/status"], cwd: dir, env }),
    );
    expect(stdout).toMatch(/SigBlk:\s+0{16}\nSigIgn:\s+0{16}/);
  });

  test("that a signal ends says which", async () => {
    expect((await ended(start(bash("kill -USR1 $$")))).exit).toMatchObject({
      code: undefined,
      signal: "SIGUSR1",
    });
  });

  test("reads nothing from its stdin where it has none", async () => {
    expect((await ended(start(bash("wc -c; readlink /proc/$$/fd/0")))).stdout).toBe("0\n/dev/null\n");
  });

  test("reads what it is written", async () => {
    const child = start(bash("cat", { stdin: "pipe" }));
    const big = "x".repeat(3_000_000);
    child.stdin?.end(big);
    expect((await ended(child)).stdout).toBe(big);
  });

  test("does not hold the files of another open", async () => {
    const first = start(bash("sleep 600"));
    const second = start(bash("cat", { stdin: "pipe" }));
    const third = start(bash("sleep 600"));
    second.stdin?.end("done");
    expect((await ended(second)).stdout).toBe("done");
    for (const { pid } of [first, third]) process.kill(-(pid as number), "SIGKILL");
    await Promise.all([ended(first), ended(third)]);
  });

  test("may be a script without a first line that names its shell", async () => {
    const file = script("plain", 'echo "plain $1"\n');
    expect((await ended(start({ file, args: ["a b"], cwd: dir, env }))).stdout).toBe("plain a b\n");
  });

  test("may be named relative to its directory", async () => {
    script("near", "#!/bin/sh\necho near\n");
    expect((await ended(start({ file: "./near", args: [], cwd: dir, env }))).stdout).toBe("near\n");
  });

  test("that cannot be started reports why", async () => {
    const bad = async (file: string, more: Partial<LaunchSpec> = {}) =>
      (await startError(start, { file, args: [], cwd: dir, env, ...more }))?.code;
    expect(await bad("no-such-program")).toBe("ENOENT");
    expect(await bad(join(dir, "absent"))).toBe("ENOENT");
    expect(await bad(script("no-interpreter", "#!/no/such/shell\n"))).toBe("ENOENT");
    expect(await bad(script("not-executable", "#!/bin/sh\n", 0o644))).toBe("EACCES");
    expect(await bad("/bin/true", { cwd: join(dir, "absent") })).toBe("ENOENT");
    expect(await bad("/bin/true", { args: ["x".repeat(3_000_000)] })).toBe("E2BIG");
  });

  test("gets no text that C would cut short", async () => {
    expect(await startError(start, bash("true\0false"))).toBeInstanceOf(Error);
  });

  test("leaves no file open here", async () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    await ended(start(bash("true")));
    const before = open();
    for (let round = 0; round < 20; round += 1) {
      await ended(start(bash("echo out; echo err >&2")));
      await startError(start, { file: join(dir, "absent"), args: [], cwd: dir, env });
    }
    await expect.poll(open).toBeLessThanOrEqual(before);
  });

  test("is one of many that end at once", async () => {
    const children = Array.from({ length: 40 }, (_, index) => start(bash(`exit ${index}`)));
    const ends = await Promise.all(children.map(ended));
    expect(ends.map(({ exit }) => exit.kind === "exited" && exit.code)).toEqual(
      children.map((_, index) => index),
    );
  });
});

describe.runIf(spawner !== undefined)("a child started by posix_spawn (Linux)", () => {
  test("may open its output by name, as scripts do", async () => {
    const { stdout, stderr, exit } = await ended(
      linux(bash("set -e; echo out >/dev/stdout; echo err >/dev/stderr; echo more >/proc/self/fd/2")),
    );
    expect({ stdout, stderr }).toEqual({ stdout: "out\n", stderr: "err\nmore\n" });
    expect(exit).toMatchObject({ code: 0 });
  });

  test("gives way, if told to, to others of the operator's session", async () => {
    const child = createLauncher()(
      bash("read -r; ps -o pid=,pgid=,sid=,ni= -p $$", { stdin: "pipe", givesWay: true }),
    );
    child.stdin?.end("go\n");
    const { stdout } = await ended(child);
    const session = execFileSync("ps", ["-o", "sid=", "-p", String(process.pid)], { encoding: "utf8" });
    const { pid } = child;
    expect(stdout.trim().split(/\s+/)).toEqual([`${pid}`, `${pid}`, session.trim(), "10"]);
  });

  test("gets no more data than its limit, and ends before the operator where memory is short", async () => {
    const child = createLauncher()(
      bash("read -r; ulimit -d; cat /proc/self/oom_score_adj", { stdin: "pipe", memoryLimit: 50 * 2 ** 20 }),
    );
    child.stdin?.end("go\n");
    // In KiB. What bash starts inherits both.
    expect((await ended(child)).stdout).toBe("51200\n1000\n");
  });

  test("that finds no room for its pipes leaves none of them open", () => {
    const taken: number[] = [];
    const closed: number[] = [];
    let room = 2;
    const crowded = new LibcSpawner({
      ...(library as Libc),
      pipe2: (fds, flags) => {
        if (room-- === 0) return -1;
        const result = (library as Libc).pipe2(fds, flags);
        taken.push(...fds);
        return result;
      },
      close: (fd) => {
        closed.push(fd);
        return (library as Libc).close(fd);
      },
      errno: () => constants.errno.EMFILE,
    });
    expect(() => crowded.start(bash("true", { stdin: "pipe" }))).toThrow(/EMFILE/);
    expect(taken).toHaveLength(4);
    expect(new Set(closed)).toEqual(new Set(taken));
  });

  test("reports the processor time it took, with that of its children, and no peak of memory below our own", async () => {
    const busy = "for ((i = 0; i < 100000; i++)); do :; done";
    const { exit } = await ended(linux(bash(`bash -c '${busy}'; ${busy}`)));
    const usage = exit.kind === "exited" ? exit.usage : undefined;
    expect(usage?.userSeconds).toBeGreaterThan(0.02);
    expect(usage?.maxRssBytes).toBeUndefined();
  });

  test("reports its peak of memory where it is above our own", async () => {
    const bytes = process.resourceUsage().maxRSS * 1024 + 50e6;
    const { exit } = await ended(linux(bash(`head -c ${bytes} /dev/zero | tail -c ${bytes} >/dev/null`)));
    expect(exit.kind === "exited" && exit.usage?.maxRssBytes).toBeGreaterThan(bytes);
  });
});
