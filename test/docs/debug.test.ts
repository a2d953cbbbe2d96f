import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { callOf } from "../../src/debug/index.ts";
import { usage } from "../../src/usage.ts";

const page = await readFile(new URL("../../docs/DEBUG.md", import.meta.url), "utf8");

/** `module values|config NAME` → `module values NAME`, `module config NAME`. */
function spelledOut(line: string): string[] {
  const [first = "", second = "", ...rest] = line.split(" ");
  const seconds = /^[a-z|-]+$/.test(second) ? second.split("|") : [second];
  const own = (word: string): string[] =>
    rest.filter((each) => word !== "list" || each === each.toLowerCase());
  return seconds.map((word) => [first, word, ...own(word)].filter((each) => each !== "").join(" "));
}

const commands = usage()
  .slice(0, usage().indexOf("Settings"))
  .split("\n")
  .filter((line) => /^ {2}\S/.test(line))
  .flatMap((line) => spelledOut(line.trim()));

/** Commands that ask a running operator. */
const asking = commands.filter((line) => /^(queue|global|module|config|plan|raw)\b/.test(line));

test("the help names every command of the contract", () => {
  expect(asking).toEqual([
    "queue list",
    "queue main",
    ...["list", "values", "config", "patches", "snapshots"].map((what) => `global ${what}`),
    "module list",
    "module resource-monitor",
    "module graph",
    ...["values", "config", "render", "patches", "snapshots", "why", "status", "diff", "run"].map(
      (what) => `module ${what} NAME`,
    ),
    "config list",
    "config set NAME VALUE [DURATION]",
    "plan",
    "raw PATH",
  ]);
});

test.each(asking)("%s is understood, and docs/DEBUG.md has it", (line) => {
  const words = line.replace(/ \[.*/, "").split(" ");
  expect(callOf(words).path).toMatch(/^\//);
  const told = words.slice(0, 2).join(" ");
  expect([...page.matchAll(/`([^`]+)`/g)].some(([, code = ""]) => code.startsWith(told))).toBe(true);
});

test("every command of the table in docs/DEBUG.md is in the help", () => {
  const rows = [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code.split(" ").slice(0, 2).join(" ")),
  );
  expect(rows.length).toBeGreaterThan(15);
  const known = commands.map((line) => line.split(" ").slice(0, 2).join(" "));
  expect(rows.filter((row) => !known.includes(row))).toEqual([]);
});
