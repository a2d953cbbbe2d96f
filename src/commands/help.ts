/** The help: of everything, of a group of commands, and of one command. */

import { environmentNames } from "../config.ts";
import { SETTINGS, type SettingRow } from "../settings.ts";
import type { Flag, Row } from "./table/row.ts";
import { COMMANDS, GROUPS } from "./table/commands.ts";

export const PROGRAM = "addon-operator";

/** How a command is typed: `module values NAME [flags]`. */
export function usageOf({ words, args, flags = [] }: Row): string {
  return [PROGRAM, words, args, flags.length > 0 ? "[flags]" : undefined].filter(Boolean).join(" ");
}

/** The help of what these words name: everything, a group, or a command. */
export function helpOf(words: string): string {
  const row = COMMANDS.find((each) => each.words === words);
  if (row !== undefined) return helpOfRow(row);
  const group = GROUPS[words];
  return group === undefined ? helpOfAll() : helpOfGroup(words, group.help);
}

function helpOfRow(row: Row): string {
  const about = [sentence(row.help), row.more].filter(Boolean).join(" ");
  const flags = (row.flags ?? []).filter(({ isHidden }) => isHidden !== true).map(flagLine);
  const listed = aligned([...flags, ["-h, --help", "this help"]]);
  const parts = [
    `usage: ${usageOf(row)}`,
    about,
    `Flags:\n${listed}`,
    `Example:\n  ${PROGRAM} ${row.example}`,
    row.words === "start" ? settingsHelp() : `It takes settings, too: ${PROGRAM} --help lists them.`,
  ];
  return `${parts.join("\n\n").trimEnd()}\n`;
}

function flagLine({ flags, help }: Flag): [string, string] {
  return [flags.startsWith("--") ? `    ${flags}` : flags, help];
}

function helpOfGroup(name: string, about: string): string {
  const rows = SHOWN.filter(({ words }) => words.startsWith(`${name} `));
  const usage = `usage: ${PROGRAM} ${name} COMMAND`;
  const example = rows[0]?.example ?? "";
  return `${usage}\n\n${sentence(about)}\n\nCommands:\n${listed(rows)}\n\nExample:\n  ${PROGRAM} ${example}\n\n${MORE}\n`;
}

const MORE = `${PROGRAM} COMMAND --help tells more of one of them.`;

const SHOWN = COMMANDS.filter(({ isHidden }) => isHidden !== true);

function helpOfAll(): string {
  return `usage: ${PROGRAM} [COMMAND] [flags]\n\nCommands:\n${listed(SHOWN)}\n\n${MORE}\n\n${settingsHelp()}`;
}

function listed(rows: readonly Row[]): string {
  return aligned(
    rows.map((row): [string, string] => [[row.words, row.args].filter(Boolean).join(" "), row.help]),
  );
}

/** Two columns, the second one at the same place in each line. */
function aligned(lines: readonly (readonly [string, string])[]): string {
  const width = Math.max(...lines.map(([left]) => left.length));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function inBrackets(setting: SettingRow): string {
  const notes = [
    setting.choices === undefined ? [] : [setting.choices.join(", ")],
    setting.default === undefined ? [] : [`default ${setting.default}`],
  ].flat();
  return notes.length === 0 ? "" : ` (${notes.join("; ")})`;
}

/** What each setting means, with its variables and what it may be. */
function settingsHelp(): string {
  const settings = SETTINGS.map((setting) => {
    const env = environmentNames(setting).join(", ");
    return `  --${setting.flags[0]}${env === "" ? "" : `  [${env}]`}\n      ${setting.help}${inBrackets(setting)}`;
  });
  return `Settings (flag > environment > default):\n${settings.join("\n")}\n`;
}

/** Help for a terminal: long lines go on below where their last column begins. */
export function fitted(text: string, columns: number): string {
  return text
    .split("\n")
    .map((line) => broken(line, columns))
    .join("\n");
}

function broken(line: string, columns: number): string {
  const [lead = ""] = /^ *(?:\S+ )*\S+ {2,}/.exec(line) ?? /^ */.exec(line) ?? [];
  const indent = lead.length;
  let rest = line.slice(indent);
  const lines: string[] = [];
  while (indent + rest.length > columns) {
    const end = rest.lastIndexOf(" ", columns - indent);
    if (end <= 0) break;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end + 1);
  }
  return line.slice(0, indent) + [...lines, rest].join(`\n${" ".repeat(indent)}`);
}
