import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { buffer } from "node:stream/consumers";
import { expect, it } from "vitest";

import { unpackLayer } from "../../../../src/sources/registry/artifact/unpack.ts";
import { tempDir } from "./lab.ts";

const SCRIPT = "#!/bin/sh\n";

async function layer(): Promise<Buffer> {
  const from = mkdtempSync(join(tempDir(), "from-"));
  mkdirSync(join(from, "hooks"));
  mkdirSync(join(from, "empty"));
  writeFileSync(join(from, "Chart.yaml"), "name: web\n");
  writeFileSync(join(from, "hooks/run.sh"), SCRIPT, { mode: 0o755 });
  return gzipSync(await buffer(create({ cwd: from, portable: true }, ["Chart.yaml", "hooks", "empty"])));
}

/** A layer and the directory that it was unpacked to. */
async function unpacked(): Promise<{ bytes: Buffer; dir: string; inode: () => number }> {
  const bytes = await layer();
  const dir = join(mkdtempSync(join(tempDir(), "to-")), "web");
  await unpackLayer(bytes, dir, true);
  return { bytes, dir, inode: () => statSync(dir).ino };
}

it("a directory that has the content of the archive stays", async () => {
  const { bytes, dir, inode } = await unpacked();
  const before = inode();
  await unpackLayer(bytes, dir, true);
  expect(inode()).toBe(before);
});

it("stays, too, below a directory with the setgid bit, and whatever the umask was", async () => {
  const bytes = await layer();
  const above = mkdtempSync(join(tempDir(), "above-"));
  chmodSync(above, 0o2755);
  const dir = join(above, "web");
  const umask = process.umask(0o077);
  try {
    await unpackLayer(bytes, dir, true);
    expect([dir, join(dir, "hooks")].map((path) => statSync(path).mode & 0o7777)).toEqual([0o755, 0o755]);
    const { ino } = statSync(dir);
    await unpackLayer(bytes, dir, true);
    expect(statSync(dir).ino).toBe(ino);
  } finally {
    process.umask(umask);
  }
});

it.each<[string, (dir: string) => void]>([
  ["other content", (dir) => rewrite(join(dir, "Chart.yaml"), "name: bad\n")],
  ["longer content", (dir) => rewrite(join(dir, "Chart.yaml"), "name: web\n# more\n")],
  ["a file more", (dir) => writeFileSync(join(dir, "hooks/more.sh"), SCRIPT)],
  ["a directory more", (dir) => mkdirSync(join(dir, "more"))],
  ["a file less", (dir) => rmSync(join(dir, "Chart.yaml"))],
  ["a directory less", (dir) => rmSync(join(dir, "empty"), { recursive: true })],
  ["a file that can be written", (dir) => chmodSync(join(dir, "Chart.yaml"), 0o644)],
  ["a hook that is not executable", (dir) => chmodSync(join(dir, "hooks/run.sh"), 0o444)],
  ["a directory that everybody can write", (dir) => chmodSync(join(dir, "hooks"), 0o777)],
  ["itself a directory that everybody can write", (dir) => chmodSync(dir, 0o777)],
  [
    "a link in place of a file",
    (dir) => replace(join(dir, "Chart.yaml"), (file) => symlinkSync("/etc/hostname", file)),
  ],
  [
    "a link in place of a directory",
    (dir) => replace(join(dir, "empty"), (file) => symlinkSync("/tmp", file)),
  ],
  [
    "a FIFO in place of a file",
    (dir) => replace(join(dir, "Chart.yaml"), (file) => execFileSync("mkfifo", ["-m", "444", file])),
  ],
  ["a directory in place of a file", (dir) => replace(join(dir, "Chart.yaml"), (file) => mkdirSync(file))],
])("a directory with %s is replaced", async (_, change) => {
  const { bytes, dir, inode } = await unpacked();
  const before = inode();
  change(dir);
  await unpackLayer(bytes, dir, true);
  expect(inode()).not.toBe(before);
  const after = inode();
  await unpackLayer(bytes, dir, true);
  expect(inode(), "it is now as the archive").toBe(after);
});

/** Changes a read-only file, and leaves its mode. */
function rewrite(file: string, text: string): void {
  chmodSync(file, 0o644);
  writeFileSync(file, text);
  chmodSync(file, 0o444);
}

function replace(path: string, make: (path: string) => void): void {
  rmSync(path, { recursive: true });
  make(path);
}
