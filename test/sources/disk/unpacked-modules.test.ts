import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { buffer } from "node:stream/consumers";
import { expect, it } from "vitest";

import { UnpackedModules } from "../../../src/sources/disk/unpacked-modules.ts";
import { tempDir } from "../registry/artifact/lab.ts";

const HEX = "a".repeat(64);

async function layer(): Promise<Buffer> {
  const from = tempDir();
  writeFileSync(join(from, "Chart.yaml"), "name: web\n");
  return gzipSync(await buffer(create({ cwd: from, portable: true }, ["Chart.yaml"])));
}

const prepared = async (dir: string): Promise<UnpackedModules> => {
  const modules = new UnpackedModules(dir);
  await modules.prepareDirectory();
  return modules;
};

it("a start keeps unpacked modules and deletes everything else", async () => {
  const dir = join(tempDir(), "unpacked");
  mkdirSync(join(dir, HEX), { recursive: true });
  mkdirSync(join(dir, `${HEX}.part`));
  mkdirSync(join(dir, `${HEX}-0123456789abcdef`));
  writeFileSync(join(dir, "b".repeat(64)), "a file");
  symlinkSync("/nowhere", join(dir, "c".repeat(64)));
  await prepared(dir);
  expect(readdirSync(dir)).toEqual([HEX]);
});

it.each<[string, (dir: string, other: string) => void]>([
  ["a link to another directory", (dir, other) => symlinkSync(other, dir)],
  ["a link to nowhere", (dir) => symlinkSync("/nowhere", dir)],
  ["a file", (dir) => writeFileSync(dir, "")],
  [
    "a directory that others may write to",
    (dir) => {
      mkdirSync(join(dir, HEX), { recursive: true });
      chmodSync(dir, 0o777);
    },
  ],
])("%s in its place is replaced, and nothing that it leads to is touched", async (_, make) => {
  const [dir, other] = [join(tempDir(), "unpacked"), tempDir()];
  writeFileSync(join(other, "kept"), "");
  make(dir, other);
  await prepared(dir);
  const stats = lstatSync(dir);
  expect([stats.isDirectory(), stats.mode & 0o7777]).toEqual([true, 0o755]);
  expect([readdirSync(dir), readdirSync(other)]).toEqual([[], ["kept"]]);
});

it("a module of an earlier process stays, and counts as needed from now on", async () => {
  const dir = join(tempDir(), "unpacked");
  const bytes = await layer();
  const path = join(dir, HEX);
  await (await prepared(dir)).unpack(path, () => Promise.resolve(bytes));
  const { ino } = statSync(path);
  utimesSync(path, 0, 0);
  await (await prepared(dir)).unpack(path, () => Promise.resolve(bytes));
  expect(statSync(path).ino).toBe(ino);
  expect(statSync(path).mtimeMs).toBeGreaterThan(0);
});

it("a module is compared once in a process, and again after it was deleted", async () => {
  const dir = join(tempDir(), "unpacked");
  const bytes = await layer();
  const modules = await prepared(dir);
  let reads = 0;
  const unpack = () =>
    modules.unpack(join(dir, HEX), () => {
      reads += 1;
      return Promise.resolve(bytes);
    });
  await Promise.all([unpack(), unpack()]);
  await unpack();
  expect(reads).toBe(1);
  rmSync(join(dir, HEX), { recursive: true });
  await unpack();
  expect(reads).toBe(2);
});
