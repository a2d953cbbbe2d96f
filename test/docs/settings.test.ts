import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

import { environmentNames } from "../../src/config.ts";
import { SETTINGS } from "../../src/settings.ts";
import type { SettingRow } from "../../src/settings.ts";
import { helpOf } from "../../src/commands/help.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/SETTINGS.md"), "utf8");
const rows = page.split("\n").filter((line) => line.startsWith("| `--"));

const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(" ");

function rowOf(setting: SettingRow): string {
  const value = setting.choices?.join(", ") ?? setting.kind;
  const fallback = setting.default === undefined ? "" : `\`${setting.default}\``;
  const flags = code(setting.flags.map((flag) => `--${flag}`));
  return `| ${flags} | ${code(environmentNames(setting))} | ${value} | ${fallback} | ${setting.help} |`;
}

it("docs/SETTINGS.md is the table of settings", () => {
  expect(rows).toEqual(SETTINGS.map(rowOf));
});

it("--help names every setting with its variables and the values it may have", () => {
  const help = helpOf("");
  const missing = SETTINGS.flatMap((setting) => [
    `--${setting.flags[0]}`,
    ...environmentNames(setting),
    setting.choices?.join(", ") ?? "",
  ]);
  expect(missing.filter((name) => !help.includes(name))).toEqual([]);
});
