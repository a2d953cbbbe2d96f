import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";

import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";

import { systemClock } from "../../../src/base/index.ts";
import {
  endOwnProcesses,
  removeStaleDirs,
  ScratchDir,
  ScratchError,
} from "../../../src/base/process/index.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "scratch-test-"));
});
afterEach(async () => {
  await chmod(root, 0o700);
  await rm(root, { recursive: true });
});

async function mode(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777;
}

test("directory and files are private, and go away", async () => {
  const scratch = await ScratchDir.open(join(root, "a", "b"), "hook-002-Cool/hooks:x.py");
  const path = await scratch.write("values.json", "{}");
  expect(await mode(scratch.dir)).toBe(0o700);
  expect(await mode(path)).toBe(0o600);
  expect(await readFile(path, "utf8")).toBe("{}");
  await scratch.dispose();
  await scratch.dispose();
  expect(await readdir(join(root, "a", "b"))).toEqual([]);
});

test("pieces are written one after the other", async () => {
  const scratch = await ScratchDir.open(root, "x");
  async function* pieces() {
    yield "one ";
    yield Buffer.from("two ");
    yield "drei";
  }
  expect(await readFile(await scratch.write("f", pieces()), "utf8")).toBe("one two drei");
  expect(await readFile(await scratch.write("h", ""), "utf8")).toBe("");
});

test.each([0, 1, 2, 3, 5])("%i pieces, in memory already or made one by one", async (count) => {
  const scratch = await ScratchDir.open(root, "x");
  const all = Array.from({ length: count }, (_, index) => Buffer.from(`${index};`.repeat(300_000)));
  function* made() {
    yield* all;
  }
  expect((await readFile(await scratch.write("list", all))).equals(Buffer.concat(all))).toBe(true);
  expect((await readFile(await scratch.write("made", made()))).equals(Buffer.concat(all))).toBe(true);
  expect(await mode(scratch.path("list"))).toBe(0o600);
});

test("kept files stay", async () => {
  const scratch = await ScratchDir.open(root, "x", { keep: true });
  await scratch.write("f", "1");
  await scratch.dispose();
  expect(await readdir(scratch.dir)).toEqual(["f"]);
});

test("a full disk is one clear error", async () => {
  // /dev/full answers each write with ENOSPC.
  const scratch = await ScratchDir.open(root, "x");
  await rm(scratch.path("f"), { force: true });

  await symlink("/dev/full", scratch.path("f"));
  await expect(scratch.write("f", "data")).rejects.toThrow(
    `cannot use the temp directory ${root} (--tmp-dir): no space left on the device`,
  );
});

test("a path that cannot be a directory is one clear error", async () => {
  await writeFile(join(root, "file"), "");
  const attempt = ScratchDir.open(join(root, "file"), "x");
  await expect(attempt).rejects.toThrow(ScratchError);
  await expect(attempt).rejects.toThrow(/\(--tmp-dir\): a part of the path is not a directory/);
});

test.each([
  ["a dangling link", "dangling/sub"],
  ["a place where nothing can be made", "proc/sub"],
])("%s is one clear error, and ends", async (_, path) => {
  await symlink(join(root, "nowhere"), join(root, "dangling"));
  await symlink("/proc", join(root, "proc"));
  await expect(ScratchDir.open(join(root, path), "x")).rejects.toThrow(
    /^cannot use the temp directory .*--tmp-dir/,
  );
});

test("what dead processes left is removed, what belongs to the living stays", async () => {
  const mine = await ScratchDir.open(root, "hook-a");
  // No process has this pid; this process did not start at tick 1.
  await mkdir(join(root, "hook-b.4194305-77.AbCdEf"));
  await mkdir(join(root, `hook-c.${process.pid}-1.AbCdEf`));
  await writeFile(join(root, "hook-b.4194305-77.AbCdEf", "values.json"), "secret");
  await mkdir(join(root, "something-else"));
  expect(await removeStaleDirs(root, systemClock)).toBe(2);
  expect((await readdir(root)).sort()).toEqual([mine.dir.slice(root.length + 1), "something-else"].sort());
  expect(await removeStaleDirs(join(root, "missing"), systemClock)).toBe(0);
});

test("the directory of a process that has ended is removed, although its parent has not collected it", async () => {
  // The child ends at the end of its input, when its parent has become a program that never waits for it.
  const parent = spawn("sh", ["-c", "read line <&3 & echo $!; exec sleep 600 3<&-"], {
    stdio: ["ignore", "pipe", "ignore", "pipe"],
  });
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [pid] = (await once(parent.stdout!, "data")) as [Buffer];
  const read = (process: number, file: string): string =>
    readFileSync(`/proc/${process}/${file}`, "latin1").trim();
  await vi.waitUntil(() => read(parent.pid!, "comm") === "sleep", { timeout: 60_000 });
  (parent.stdio[3] as Writable).end();
  const stat = (): string[] => read(Number(pid), "stat").split(" ");
  await vi.waitUntil(() => stat()[2] === "Z", { timeout: 60_000 });
  await mkdir(join(root, `kube.${Number(pid)}-${stat()[21]}.AbCdEf`));
  expect(await removeStaleDirs(root, systemClock)).toBe(1);
});

test("what a hook left in the background is ended with its operator, what another process started is not", async () => {
  const scratch = await ScratchDir.open(root, "hook-a");
  const env = { PATH: process.env["PATH"], VALUES_PATH: scratch.path("values.json") };
  const background = spawn("sleep", ["60"], { env, stdio: "ignore" });
  const others = { ...env, VALUES_PATH: join(root, "hook-a.4194305-77.AbCdEf", "values.json") };
  const stranger = spawn("sleep", ["60"], { env: others, stdio: "ignore" });
  const ended = once(background, "exit");
  await endOwnProcesses(root, { clock: systemClock, graceMs: 60_000 });
  expect(await ended).toEqual([null, "SIGTERM"]);
  expect(stranger.exitCode ?? stranger.signalCode).toBe(null);
  stranger.kill("SIGKILL");
});

test("children that outlived their operator are ended before their files go", async () => {
  const dir = join(root, "hook-b.4194305-77.AbCdEf");
  await mkdir(dir);
  const env = { PATH: process.env["PATH"], VALUES_PATH: join(dir, "values.json") };
  const orphan = spawn("sleep", ["60"], { env, stdio: "ignore" });
  const stranger = spawn("sleep", ["60"], { env: { ...env, VALUES_PATH: `${dir}-not` }, stdio: "ignore" });
  const ended = once(orphan, "exit");
  expect(await removeStaleDirs(root, systemClock)).toBe(1);
  expect(await ended).toEqual([null, "SIGTERM"]);
  expect(await readdir(root)).toEqual([]);
  expect(stranger.exitCode ?? stranger.signalCode).toBe(null);
  stranger.kill("SIGKILL");
});
