import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { helpFor } from "../../src/main/commands/help.ts";
import { environmentNames } from "../../src/config/settings/index.ts";
import { SERIES } from "../../src/report/metrics/index.ts";
import { SETTINGS, type SettingRow } from "../../src/config/settings/setting-names.ts";

// Tables of reference pages, from the code: `npx vitest run --project unit test/docs/generated.test.ts -u` writes them.

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(" ");

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, head.map(() => "---"), ...rows];
  return cells.map((row) => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`).join("");
}

function settingCells(setting: SettingRow): string[] {
  const value = setting.choices?.join(", ") ?? setting.kind;
  const fallback = setting.default === undefined ? "" : `\`${setting.default}\``;
  const flags = code(setting.flags.map((flag) => `--${flag}`));
  return [flags, value, fallback, setting.help, code(environmentNames(setting))];
}

/** By what the names of series begin with; the rest is about modules and releases. */
const FAMILIES: Readonly<Record<string, RegExp>> = {
  "api-server": /^(kube|webhook|status_writes|binding_monitor|factory)/,
  queues: /^(task|live|trace|internal|schedule)/,
  hooks: /^(module_hook|global_hook|hook|binding_count)/,
  modules: /^/,
};

function seriesTable(family: string): string {
  const familyOf = (name: string): string | undefined =>
    Object.keys(FAMILIES).find((each) => FAMILIES[each]?.test(name));
  const rows = Object.values(SERIES)
    .filter(({ name }) => familyOf(name) === family)
    .map(({ name, type, labels, help }) => [
      `\`addon_operator_${name}\``,
      type,
      labels.length === 0 ? "–" : labels.map((label) => `\`${label}\``).join(", "),
      help,
    ]);
  return table(["Series", "Type", "Labels", "Meaning"], rows);
}

/** What the page needs of a JSON schema. */
interface Schema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
}

/** The keys of a schema, each with its type and description. */
function keysOf(schema: Schema, path: readonly string[] = []): string[][] {
  const { properties = {}, additionalProperties } = schema.items ?? schema;
  const rows = Object.entries(properties).flatMap(([key, each]) => {
    const inside = [...path, each.items === undefined ? key : `${key}[]`];
    const type = each.enum?.join(", ") ?? each.type ?? "";
    return [[code([inside.join(".")]), type, each.description ?? ""], ...keysOf(each, inside)];
  });
  if (typeof additionalProperties !== "object") return rows;
  return [
    ...rows,
    [
      code([[...path, "NAME"].join(".")]),
      additionalProperties.type ?? "",
      "The range of chart versions of the module `NAME`.",
    ],
  ];
}

const schema = JSON.parse(read("src/modules/addon.schema.json")) as Schema;

const PAGES: readonly (readonly [page: string, parts: Readonly<Record<string, string>>])[] = [
  [
    "docs/reference/settings.md",
    {
      settings: table(["Flag", "Value", "Default", "Meaning", "Environment"], SETTINGS.map(settingCells)),
    },
  ],
  [
    "docs/reference/metrics.md",
    Object.fromEntries(Object.keys(FAMILIES).map((family) => [family, seriesTable(family)])),
  ],
  ["docs/reference/addon-yaml.md", { keys: table(["Key", "Type", "Meaning"], keysOf(schema)) }],
];

test.each(PAGES)("%s is up to date", async (path, parts) => {
  const page = read(path);
  const names = [...page.matchAll(/<!-- generated: (.+) -->/g)].map(([, name = ""]) => name);
  expect(names.toSorted()).toEqual(Object.keys(parts).toSorted());
  const text = page.replaceAll(
    /(?<=<!-- generated: (.+) -->\n)[^]*?(?=<!-- end -->)/g,
    (_, name: string) => `\n${parts[name]}\n`,
  );
  await expect(text).toMatchFileSnapshot(join(root, path));
});

test("--help names every setting with its variables and the values it may have", () => {
  const help = helpFor("");
  const missing = SETTINGS.flatMap((setting) => [
    `--${setting.flags[0]}`,
    ...environmentNames(setting),
    setting.choices?.join(", ") ?? "",
  ]);
  expect(missing.filter((name) => !help.includes(name))).toEqual([]);
});

test("the durations that pages name as defaults are those of the settings", () => {
  const text = globSync("docs/**/*.md", { cwd: root }).map(read).join("\n");
  const named = [...text.matchAll(/`--([a-z-]+)` \(default: (\d+ \w)/g)].map(([, flag = "", time = ""]) => [
    flag,
    time.replace(" ", ""),
  ]);
  const defaults = new Map(
    SETTINGS.flatMap(({ flags, default: value }) => flags.map((flag) => [flag, value] as const)),
  );
  expect(named.length).toBeGreaterThan(2);
  expect(named).toEqual(named.map(([flag = ""]) => [flag, defaults.get(flag)]));
});
