import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { COMMANDS } from "../../src/commands/table/commands.ts";

const text = await readFile(new URL("../../docs/reference/commands.md", import.meta.url), "utf8");
const page = text.replaceAll(/^```.*\n[^]*?^```$/gm, "");

/** Commands that ask a running operator, as they are typed. */
const asking = COMMANDS.filter(({ request }) => request !== undefined).map(({ words, args }) =>
  [words, args].filter(Boolean).join(" "),
);

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
    "module rollback NAME [REVISION]",
    "config list",
    "config set NAME VALUE [DURATION]",
    "plan",
    "raw PATH",
  ]);
});

test.each(asking)("docs/reference/commands.md has %s", (line) => {
  const reported = line.split(" ").slice(0, 2).join(" ");
  expect([...page.matchAll(/`([^`]+)`/g)].some(([, code = ""]) => code.startsWith(reported))).toBe(true);
});

test("every command of the table in docs/reference/commands.md is in the help", () => {
  const rows = [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code),
  );
  expect(rows.length).toBeGreaterThan(15);
  const isKnown = (row: string): boolean => COMMANDS.some(({ words }) => `${row} `.startsWith(`${words} `));
  expect(rows.filter((row) => !isKnown(row))).toEqual([]);
});
