import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

import { QueueFile } from "../../../src/surface/debug/queue-dump.ts";
import { ManualClock } from "../../support/clock.ts";

let dir: string;
let path: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "queue-file-"));
  path = join(dir, "queue");
});
afterEach(() => rmSync(dir, { recursive: true }));

/** Writes once and waits for the end of the write. */
async function write(text: string): Promise<void> {
  const clock = new ManualClock();
  const file = new QueueFile(path, clock, () => text);
  file.scheduleWrite();
  await clock.advance(100);
  await file.lastWrite;
}

const mode = (): number => statSync(path).mode & 0o777;

test("only the owner may read the file, also one that existed before, and it contains only the last text", async () => {
  await write("main: one task, and another");
  expect(mode()).toBe(0o600);
  rmSync(path);
  writeFileSync(path, "main: a very long text that is to go", { mode: 0o644 });
  await write("main: none");
  expect([readFileSync(path, "utf8"), mode()]).toEqual(["main: none", 0o600]);
});

test("does not follow a symbolic link of another user", async () => {
  const victim = join(dir, "victim");
  writeFileSync(victim, "precious");
  symlinkSync(victim, path);
  await write("main: none");
  expect(readFileSync(victim, "utf8")).toBe("precious");
  rmSync(path);
  symlinkSync(join(dir, "new"), path);
  await write("main: none");
  expect(existsSync(join(dir, "new"))).toBe(false);
});
