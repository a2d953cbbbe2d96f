import { expect, it } from "vitest";

import { runCommandLine, parseCommandLine } from "../../../src/main/commands/run.ts";
import { SECTIONS } from "../../../src/main/commands/help.ts";
import { COMMANDS, GROUPS, VISIBLE_COMMANDS } from "../../../src/main/commands/table/commands.ts";
import { VERSION } from "../../../src/config/settings/version.ts";
import { callOf, lineOf, parseSettings, run } from "../../support/command-line.ts";

const words = (text: string): string[] => text.split(" ").filter(Boolean);

it.each([
  ["modul list", /^"modul" is not a sub-command; see addon-operator --help\nDid you mean module\?$/],
  ["module lits", /^"lits" is not a sub-command; use list, .*\nDid you mean list\?$/],
  [
    "module list --ouptut json",
    /^--ouptut: unknown flag; see addon-operator --help\nDid you mean --output\?/,
  ],
  ["start --lisen-port=1", /^--lisen-port: unknown flag; .*\nDid you mean --listen-port\?/],
  ["start --kube-client-qps", /^--kube-client-qps: needs a value: a number, 0 or more$/],
  ["wait web --timeout", /^--timeout: needs a value$/],
  ["lint --values= modules", /^--values: needs a value$/],
  ["upgrade-chart web --yes=no", /^--yes: takes no value/],
  ["start web", /^"web" is an unexpected argument; see addon-operator --help$/],
  ["toString", /^"toString" is not a sub-command/],
  ["values web", /\nDid you mean global values or module values\?$/],
  ["snapshot", /\nDid you mean global snapshots or module snapshots\?$/],
  ["module plan", /\nDid you mean plan\?$/],
  ["nonsense", /^"nonsense" is not a sub-command; see addon-operator --help$/],
  ["module run web -o json", /^-o: not a flag of "module run"/],
  ["source sync -o json", /^-o: not a flag of "source sync"/],
  ["module render web --output=yaml", /^--output: not a flag of "module render"/],
  ["raw /discovery -o json", /^-o: not a flag of "raw"/],
])("%s: says what is meant", (line, message) => {
  expect(() => parseCommandLine(words(line))).toThrow(message);
});

it.each(["why", "diff", "graph", "render"])("%s stands for module %s", (word) => {
  const rest = word === "graph" ? [] : ["web"];
  expect(callOf([word, ...rest])).toEqual(callOf(["module", word, ...rest]));
  expect(parseCommandLine(["help", word])).toEqual(parseCommandLine(["module", word, "--help"]));
});

it("breaks the lines of help after 80 characters or where a terminal ends, below where their last column began", async () => {
  const display = async (columns: number): Promise<string> => {
    let displayed = "";
    const print = (text: string): void => void (displayed += text);
    const confirm = () => Promise.resolve(false);
    const terminal = { env: {}, print, printError: print, confirm, isTerminal: true, columns };
    for (const line of ["--help", "wait --help", "lint --help", "new module --help"])
      await runCommandLine(words(line), terminal);
    return displayed;
  };
  const displayed = await display(Infinity);
  // But for variables that are as long as that, and for examples.
  const long = displayed.split("\n").filter((line) => line.length > 80);
  expect(long.filter((line) => !/^ +\[?[A-Z_]+[,\]]?$|^ {2}addon-operator /.test(line))).toEqual([]);
  expect(displayed).toContain(
    "  module why NAME                   print why a module is enabled or disabled,\n                                    what it waits for,",
  );
  expect(displayed).toContain(
    "Print the state changes of a module until the module is Ready or healthy. The\nexit code is 1",
  );
  expect(displayed).toContain(
    "\n      The overlay, as secret/NAME or configmap/NAME, in which the operator saves\n      the values of hooks. Without an overlay,",
  );
  const narrow = await display(60);
  expect(narrow).not.toBe(displayed);
  expect(narrow.replaceAll(/\s+/g, " ")).toBe(displayed.replaceAll(/\s+/g, " "));
});

it("help lists each command in one section", () => {
  const firstWords = VISIBLE_COMMANDS.map(({ words: each }) => each.split(" ", 1)[0] ?? "");
  expect(Object.values(SECTIONS).flat().toSorted()).toEqual([...new Set(firstWords)].toSorted());
});

it("version prints JSON, too", async () => {
  expect(JSON.parse((await run(["version", "-o", "json"])).text)).toEqual({ version: VERSION });
});

it("names what is wrong with settings together with a flag that is not known", () => {
  const read = () => parseCommandLine(words("start --nope --ha=x"), { HOOK_TIMEOUT: "5" });
  expect(read).toThrow(/--nope: unknown flag[^]*HOOK_TIMEOUT: "5" is not[^]*--ha: "x" is not/);
});

it.each([
  ["", "start"],
  ["--ha", "start"],
  ["--version", "version"],
  ["queue", "queue list"],
  ["queue -w", "queue list"],
  ["queue --watch main", "queue main"],
  ["module -o json list", "module list"],
  ["config", "config list"],
])("%j is %s", (line, expected) => {
  expect(lineOf(words(line)).row.words).toBe(expected);
});

it.each([
  ["--ha", true],
  ["-ha", true],
  ["--ha=false", false],
  ["--ha no", false],
  ["--ha --debug", true],
])("start %s", (line, ha) => {
  expect(parseSettings(words(line), {}).settings.ha).toBe(ha);
});

it("takes settings and flags in any order, the last one of several, and words behind --", () => {
  const { args, flags, settings } = lineOf(words("module values -g --namespace a web --namespace=b"));
  expect([args, flags, settings({}).settings.namespace]).toEqual([["web"], { global: true }, "b"]);
  expect(callOf(words("module why -- -odd")).path).toBe("/module/-odd/why.text");
  expect(callOf(words("module list -o=json")).path).toBe("/module/list.json");
  expect(lineOf(words("lint --ha modules hooks")).args).toEqual(["modules", "hooks"]);
});

it.each(COMMANDS)("$words --help reports its usage, flags and an example that is understood", async (row) => {
  const { code, text } = await run([...words(row.words), "--help"]);
  expect(code).toBe(0);
  expect(text).toMatch(`usage: addon-operator ${row.words}`);
  const hidden = (row.flags ?? []).filter(({ isHidden }) => isHidden === true);
  for (const { flags } of row.flags ?? [])
    expect(text.includes(flags)).toBe(!hidden.some((each) => each.flags === flags));
  expect(text).toMatch(`Example:\n  addon-operator ${row.example}\n`);
  expect(lineOf(words(row.example)).row).toBe(row);
});

it.each(Object.keys(GROUPS))("%s --help, and help %s, list its commands", async (group) => {
  const { text } = await run([group, "-h"]);
  for (const row of COMMANDS.filter(({ words: all }) => all.startsWith(`${group} `)))
    expect(text.replaceAll(/\s+/g, " ")).toContain(row.help);
  expect(await run(["help", group])).toEqual({ code: 0, text });
});

it("help lists every command and every group has one", async () => {
  const { text } = await run(["help"]);
  expect(
    COMMANDS.filter(({ words: each, isHidden }) => isHidden !== true && !text.includes(`\n  ${each} `)).map(
      (row) => row.words,
    ),
  ).toEqual([]);
  expect(await run(["--help"])).toEqual({ code: 0, text });
});

it("prints help where nothing is typed on a terminal, and starts where there is none", async () => {
  const { code, text } = await run([], { isInteractive: true });
  expect({ code, text }).toEqual({
    code: 0,
    text: expect.stringContaining("usage: addon-operator") as string,
  });
  expect(lineOf([]).row.words).toBe("start");
  // A wrong setting: the command start reads it.
  await expect(run(["--ha=x"], { isInteractive: true })).rejects.toThrow("--ha");
});
