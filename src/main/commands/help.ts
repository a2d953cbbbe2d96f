/** The texts of `--help`: for the whole program, for a group of commands (`module`), and for one command (`module why`). */

import { environmentNames } from "../../config/settings/index.ts";
import { SETTINGS, type SettingRow } from "../../config/settings/index.ts";
import type { Flag, CommandRow } from "./table/row.ts";
import { COMMANDS, GROUPS, VISIBLE_COMMANDS } from "./table/commands.ts";

export const PROGRAM_NAME = "addon-operator";

/** The usage of a command: `addon-operator module values NAME [flags]`. */
export function usageLine({ words, args, flags = [] }: CommandRow): string {
  return [PROGRAM_NAME, words, args, flags.length > 0 ? "[flags]" : undefined].filter(Boolean).join(" ");
}

/** The help for the command or group with these words (`module why`, `module`) or, for other words, for the whole program. */
export function helpFor(words: string): string {
  const row = COMMANDS.find((each) => each.words === words);
  if (row !== undefined) return commandHelp(row);
  const group = GROUPS[words];
  return group === undefined ? fullHelp() : groupHelp(words, group.help);
}

/** The help of one command. That of `start` also lists all settings. */
function commandHelp(row: CommandRow): string {
  const about = [toSentence(row.help), row.more].filter(Boolean).join(" ");
  const flags = (row.flags ?? []).filter(({ isHidden }) => isHidden !== true).map(flagColumns);
  const flagList = twoColumns([...flags, ["-h, --help", "print this help"]]);
  const parts = [
    `usage: ${usageLine(row)}`,
    about,
    `Flags:\n${flagList}`,
    `Example:\n  ${PROGRAM_NAME} ${row.example}`,
    row.words === "start"
      ? settingsHelp()
      : `The command also accepts settings. To list them, run: ${PROGRAM_NAME} --help`,
  ];
  return `${parts.join("\n\n").trimEnd()}\n`;
}

/** A flag and its help as two columns. Indents a flag without a short form, so that long names are aligned. */
function flagColumns({ flags, help }: Flag): [string, string] {
  return [flags.startsWith("--") ? `    ${flags}` : flags, help];
}

/** The help of a group of commands, such as `module`. */
function groupHelp(name: string, about: string): string {
  const rows = VISIBLE_COMMANDS.filter(({ words }) => words.startsWith(`${name} `));
  const usage = `usage: ${PROGRAM_NAME} ${name} COMMAND`;
  const example = rows[0]?.example ?? "";
  return `${usage}\n\n${toSentence(about)}\n\nCommands:\n${commandLines(rows)}\n\nExample:\n  ${PROGRAM_NAME} ${example}\n\n${DETAILS_HINT}\n`;
}

const DETAILS_HINT = `For details of a command, run: ${PROGRAM_NAME} COMMAND --help`;

/** The sections of the help, each with the first words of its commands. */
export const SECTIONS: Readonly<Record<string, readonly string[]>> = {
  "Run the operator": ["start", "version", "completion"],
  "See what a running operator does": ["status", "wait", "logs", "plan", "queue", "ui", "bundle", "raw"],
  "Modules of a running operator": ["module"],
  "Global values, hooks, and parameters": ["global", "config"],
  "Create and check modules and hooks": ["new", "upgrade-chart", "lint", "hook"],
  "Modules from registries": ["source"],
  "Modules of a cluster, without access to the operator": ["addon"],
};

/** The help of the whole program: all commands and all settings. */
function fullHelp(): string {
  const width = widthOf(VISIBLE_COMMANDS.map(commandWithArgs));
  const sections = Object.entries(SECTIONS).map(([title, firstWords]) => {
    const rows = VISIBLE_COMMANDS.filter(({ words }) => firstWords.includes(words.split(" ", 1)[0] ?? ""));
    return `${title}:\n${commandLines(rows, width)}`;
  });
  return `usage: ${PROGRAM_NAME} [COMMAND] [flags]\n\n${sections.join("\n\n")}\n\n${DETAILS_HINT}\n\n${settingsHelp()}`;
}

/** Commands with their arguments and their help, in two columns. The first column has at least `width` characters. */
function commandLines(rows: readonly CommandRow[], width = 0): string {
  return twoColumns(
    rows.map((row): [string, string] => [commandWithArgs(row), row.help]),
    width,
  );
}

/** A command with its arguments: `module why NAME`. */
function commandWithArgs({ words, args }: CommandRow): string {
  return [words, args].filter(Boolean).join(" ");
}

function widthOf(texts: readonly string[]): number {
  return Math.max(...texts.map((text) => text.length));
}

function twoColumns(lines: readonly (readonly [string, string])[], minWidth = 0): string {
  const width = Math.max(minWidth, widthOf(lines.map(([left]) => left)));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

/** Makes a sentence of a help text: a capital at the begin, a full stop at the end. */
function toSentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The choices and the default of a setting, in brackets. */
function describeAcceptedValues(setting: SettingRow): string {
  const defaultText = setting.default === undefined ? undefined : `default ${setting.default}`;
  const notes = [setting.choices?.join(", "), defaultText].filter((note) => note !== undefined);
  return notes.length === 0 ? "" : ` (${notes.join("; ")})`;
}

/** The title of the group of settings that begins with a setting. */
const SETTING_GROUPS: Readonly<Partial<Record<SettingRow["key"], string>>> = {
  modulesDir: "Directories and registries",
  namespace: "Namespaces and ConfigMap",
  listenAddress: "Servers and webhooks",
  kubeConfig: "Kubernetes API",
  helmBin: "Helm",
  purge: "Behavior",
  jqBin: "Hooks and files of modules",
  ha: "Replicas",
  manageCrds: "Status and shutdown",
  logLevel: "Logs, debugging, and traces",
};

/** Each setting with its variables, meaning and accepted values. Texts of settings mark code with backticks, which a terminal does not need. */
function settingsHelp(): string {
  const settings = SETTINGS.map((setting) => {
    const group = SETTING_GROUPS[setting.key];
    const env = environmentNames(setting).join(", ");
    const text = `${setting.help.replaceAll("`", "")}${describeAcceptedValues(setting)}`;
    return `${group === undefined ? "" : `\n${group}:\n`}  --${setting.flags[0]}${env === "" ? "" : `  [${env}]`}\n      ${text}`;
  });
  return `Settings (flag > environment > default):\n${settings.join("\n")}\n`;
}

/** The width of help on terminals that are wider, in pipes, and in documents. */
const HELP_WIDTH = 80;

/**
 * Wraps lines of help that are longer than 80 characters or than the terminal is wide. In a table, the rest of a line begins below the
 * text of its last column. An example stays whole, so that users can copy it.
 */
export function wrapHelp(text: string, terminalWidth = HELP_WIDTH): string {
  const columns = Math.min(terminalWidth, HELP_WIDTH);
  return text
    .split("\n")
    .map((line) => (line.startsWith(`  ${PROGRAM_NAME} `) ? line : wrapLine(line, columns)))
    .join("\n");
}

/** The begin of a line up to the text of its last column: words, then at least two spaces. */
const COLUMNS_BEFORE_TEXT = /^ *(?:\S+ )*\S+ {2,}/;

/** Wraps one line at spaces, and indents its further lines to the text of the last column. */
function wrapLine(line: string, columns: number): string {
  const [beforeText = ""] = COLUMNS_BEFORE_TEXT.exec(line) ?? /^ */.exec(line) ?? [];
  const indent = beforeText.length;
  let remainingText = line.slice(indent);
  const lines: string[] = [];
  while (indent + remainingText.length > columns) {
    const lastSpace = remainingText.lastIndexOf(" ", columns - indent);
    // A word that is longer than the column stays whole.
    if (lastSpace <= 0) break;
    lines.push(remainingText.slice(0, lastSpace));
    remainingText = remainingText.slice(lastSpace + 1);
  }
  return beforeText + [...lines, remainingText].join(`\n${" ".repeat(indent)}`);
}
