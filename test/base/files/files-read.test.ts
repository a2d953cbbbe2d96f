import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { digest, digestAll, readRegularFile } from "../../../src/base/index.ts";
import { listChartFiles } from "../../../src/modules/index.ts";
import { readText } from "../../../src/modules/read/files.ts";

function directory(): string {
  const dir = mkdtempSync(join(tmpdir(), "read-plain-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

/**
 * A pipe that nobody else waits for: `timeout` opens it for a reader that does, which so reads a text. `nocreat`: a writer that
 * starts after the test has ended must not put a file into the directory that is being removed.
 */
function pipe(path: string): void {
  execFileSync("mkfifo", [path]);
  const write = `echo '*.yaml' | timeout 5 dd of="$0" conv=nocreat >&- 2>&- &`;
  execFileSync("sh", ["-c", write, path]);
}

test("a file is read", () => {
  const path = join(directory(), "file");
  writeFileSync(path, "text");
  expect(readRegularFile(path).toString()).toBe("text");
});

test("a pipe is refused at once, and so is a device", () => {
  const path = join(directory(), "values.yaml");
  pipe(path);
  expect(() => readText(path)).toThrow("cannot be read: it is no plain file");
  expect(() => readRegularFile("/dev/zero")).toThrow("it is no plain file");
  expect(() => readRegularFile(tmpdir())).toThrow("EISDIR");
});

test("a pipe in place of .helmignore is refused at once, as every pipe in a chart", () => {
  const dir = directory();
  writeFileSync(join(dir, "values.yaml"), "a: 1\n");
  pipe(join(dir, ".helmignore"));
  expect(() => listChartFiles(dir, false)).toThrow(".helmignore: is no plain file");
});

test("a digest is made of more parts than a call takes arguments", () => {
  const parts = Array.from({ length: 300_000 }, (_, n) => String(n));
  expect(digestAll(parts)).toMatch(/^v1-[0-9a-f]{40}$/);
  expect(digestAll(["a", "b"])).toBe(digest("a", "b"));
});
