import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { COMMANDS } from "../../src/main/commands/table/commands.ts";

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

test("every section of docs/reference/commands.md about a command is about one of the help", async () => {
  const page = await readFile(new URL("../../docs/reference/commands.md", import.meta.url), "utf8");
  const headings = [...page.matchAll(/^### (.+)$/gm)].map(([, heading = ""]) => heading);
  expect(headings.length).toBeGreaterThan(5);
  const isKnown = (heading: string): boolean =>
    COMMANDS.some(({ words }) => `${heading} `.startsWith(`${words} `));
  expect(headings.filter((heading) => !isKnown(heading))).toEqual([]);
});
