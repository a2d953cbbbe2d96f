import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { beforeEach, expect, onTestFinished, test } from "vitest";

import { removeTree } from "../../../../src/base/process/user-ids/shared-dir.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "remove-tree-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "victim"));
  for (let at = 0; at < 50; at++) writeFileSync(join(root, "victim", `${at}`), "");
});

test("removes files, directories and links, but nothing that a link leads to", async () => {
  mkdirSync(join(root, "dir", "a", "b"), { recursive: true });
  writeFileSync(join(root, "dir", "a", "b", "file"), "");
  symlinkSync(join(root, "victim"), join(root, "dir", "a", "link"));
  symlinkSync("nowhere", join(root, "dir", "dangling"));
  await removeTree(join(root, "dir"));
  await removeTree(join(root, "dir"));
  expect(existsSync(join(root, "dir"))).toBe(false);
  symlinkSync("victim", join(root, "dir"));
  await expect(removeTree(join(root, "dir"))).rejects.toThrow(/ENOTDIR|ELOOP/);
  expect(readdirSync(join(root, "victim"))).toHaveLength(50);
});

test("ends in directories that lie too deep", async () => {
  const deep = join(root, "deep", ...Array.from({ length: 150 }, () => "d"));
  mkdirSync(deep, { recursive: true });
  await expect(removeTree(join(root, "deep"))).rejects.toThrow("more than 100 deep");
});

/** Fills a directory and exchanges it and a link to the victim again and again. */
const EXCHANGE = `
const { mkdirSync, renameSync, symlinkSync, writeFileSync } = require("node:fs");
const [, dir, victim] = process.argv;
const each = (step) => { try { step(); } catch {} };
for (let round = 0; ; round++) {
  each(() => mkdirSync(dir + "/sub", { recursive: true }));
  for (let at = 0; at < 50; at++) each(() => writeFileSync(dir + "/sub/" + at, "", { flag: "wx" }));
  for (let at = 0; at < 50; at++) {
    each(() => symlinkSync(victim, dir + "/link"));
    each(() => renameSync(dir + "/sub", dir + "/aside"));
    each(() => renameSync(dir + "/link", dir + "/sub"));
    each(() => renameSync(dir + "/sub", dir + "/link"));
    each(() => renameSync(dir + "/aside", dir + "/sub"));
  }
  if (round === 0) process.stdout.write("ready");
}`;

test("removes nothing elsewhere while another process exchanges a directory and a link", async () => {
  const dir = join(root, "dir");
  const other = spawn(process.execPath, ["-e", EXCHANGE, dir, join(root, "victim")]);
  const ended = new Promise((done) => other.once("close", done));
  await new Promise((ready) => other.stdout.once("data", ready));
  for (let round = 0; round < 100; round++) await removeTree(dir).catch(() => {});
  other.kill("SIGKILL");
  await ended;
  expect(readdirSync(join(root, "victim"))).toHaveLength(50);
});
