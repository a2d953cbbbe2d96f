import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

import { helpOf } from "../../src/commands/help.ts";
import { modulesTable, statusText, type Look } from "../../src/commands/asking/tables.ts";
import { COMMANDS } from "../../src/commands/table/commands.ts";
import { T0 } from "../status/views.ts";
import { ailingOverview, calmOverview } from "../support/overviews.ts";

// docs/CLI.md is printed by the program: `npx vitest run --project unit test/docs/cli.test.ts -u` writes it.

const look: Look = { now: T0, columns: 110, paint: (_, text) => text };
const shell = (command: string, output: string): string =>
  `\`\`\`\n$ addon-operator ${command}\n${output}\`\`\`\n`;

const ABOUT = `# The command line

What each command says of itself, and what some print; made by a test from the program. What the answers mean is in [DEBUG](DEBUG.md).
`;

test("docs/CLI.md is what the program prints", async () => {
  const [overall = ""] = helpOf("").split("\nSettings ");
  const parts = [
    ABOUT,
    shell("--help", `${overall}\nSettings …\n`),
    `The settings are those of [SETTINGS](SETTINGS.md).\n`,
    "## Output\n",
    shell("status", statusText(calmOverview(), look)),
    shell("status", statusText(ailingOverview(), look)),
    shell("module list", modulesTable(ailingOverview(), look)),
    "## Help\n",
    ...COMMANDS.filter(({ isHidden }) => isHidden !== true).map(({ words }) =>
      shell(`${words} --help`, `${helpOf(words).split("\n\nSettings ")[0]?.trimEnd()}\n`),
    ),
  ];
  await expect(parts.join("\n")).toMatchFileSnapshot("../../docs/CLI.md");
});

test("other pages lead to it", () => {
  expect(readFileSync(new URL("../../docs/DEBUG.md", import.meta.url), "utf8")).toContain("(CLI.md)");
});
