import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

import { helpFor as unwrappedHelp, wrapHelp } from "../../src/main/commands/help.ts";
import { renderModulesTable, renderStatus, type Style } from "../../src/main/commands/operator/tables.ts";
import { COMMANDS } from "../../src/main/commands/table/commands.ts";
import { T0 } from "../report/views.ts";
import { ailingOverview, calmOverview } from "../support/overviews.ts";

// docs/reference/cli.md is printed by the program: `npx vitest run --project unit test/docs/cli.test.ts -u` writes it.

const helpFor = (words: string): string => wrapHelp(unwrappedHelp(words));
const style: Style = { now: T0, columns: 110, paint: (_, text) => text };
const shell = (command: string, output: string): string =>
  `\`\`\`\n$ addon-operator ${command}\n${output}\`\`\`\n`;

const ABOUT = `# Command line

This page contains the help text of each command and examples of output. [Commands](commands.md) describes the output. \`addon-operator --help\` prints the following text:
`;

test("docs/reference/cli.md is what the program prints", async () => {
  const [overall = ""] = helpFor("").split("\nSettings ");
  const parts = [
    ABOUT,
    shell("--help", `${overall}\nSettings …\n`),
    `The help text ends with a list of all settings. [Settings](settings.md) contains the same list as a table.\n`,
    "## Output\n\nIf all modules are Ready, `addon-operator status` prints one line:\n",
    shell("status", renderStatus(calmOverview(), style)),
    "If a module has a problem or a warning, `addon-operator status` prints the module and the reasons:\n",
    shell("status", renderStatus(ailingOverview(), style)),
    "On a terminal, `addon-operator module list` prints a table:\n",
    shell("module list", renderModulesTable(ailingOverview(), style)),
    "## Help\n",
    ...COMMANDS.filter(({ isHidden }) => isHidden !== true).map(
      ({ words }) =>
        `### ${words}\n\n${shell(`${words} --help`, `${helpFor(words).split("\n\nSettings ")[0]?.trimEnd()}\n`)}`,
    ),
  ];
  await expect(parts.join("\n")).toMatchFileSnapshot("../../docs/reference/cli.md");
});

test("other pages lead to it", () => {
  expect(readFileSync(new URL("../../docs/reference/commands.md", import.meta.url), "utf8")).toContain(
    "(cli.md)",
  );
});
