/** Completion of command lines in shells: the shell calls the hidden command `__complete` with the words typed so far. */

import { orAborted } from "../../../base/index.ts";
import { member } from "../../../base/model/index.ts";
import { SETTINGS } from "../../../config/settings/index.ts";
import type { Overview } from "../../../report/index.ts";
import {
  getFromSocket,
  type CommandLine,
  type CommandRow,
  type NameKind,
  type Terminal,
} from "../table/row.ts";
import { operatorClient } from "./socket.ts";

/** Bash inserts a completed word without quoting, so names with other characters are not offered. */
const SAFE_NAME = /^[\w.-]+$/;
/** A slower operator or API server is ignored, because the user is waiting for the completion. */
const TIMEOUT_MS = 1000;

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_addon_operator() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _addon_operator addon-operator
`,
  zsh: `#compdef addon-operator
_addon_operator() {
  local -a found
  found=(\${(f)"$("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
compdef _addon_operator addon-operator
`,
  fish: `function __addon_operator
  set -l typed (commandline -opc)
  set -l found ($typed[1] __complete -- $typed[2..-1] (commandline -ct) 2>/dev/null)
  if set -q found[1]; printf '%s\\n' $found; else; __fish_complete_path (commandline -ct); end
end
complete -c addon-operator -f -a '(__addon_operator)'
`,
};

/** The completion script for a shell; undefined for an unknown shell. */
export function completionScript(shell: string): string | undefined {
  return member(SCRIPTS, shell);
}

/** The commands to complete, the groups of commands with the usual command of each, and the commands that work without their group. */
export interface CompletedCommands {
  readonly commands: readonly CommandRow[];
  readonly groups: Readonly<Record<string, { readonly usual?: string }>>;
  readonly shortcuts: ReadonlyMap<string, string>;
}

/** Prints the candidates for the last word, one per line; nothing for words that the shell completes, such as files. */
export async function printCandidates(
  line: CommandLine,
  terminal: Terminal,
  table: CompletedCommands,
): Promise<number> {
  const candidates = await findCandidates(line.args, table, (kind, flags) =>
    fetchNames(kind, { ...line, flags }, terminal),
  );
  terminal.print(candidates.map((each) => `${each}\n`).join(""));
  return 0;
}

/** Fetches names: called only where a name is expected. `flags` are those of the line that select a cluster. */
type FetchNames = (kind: NameKind, flags: { readonly n?: string }) => Promise<readonly string[]>;

/** What the last of `words` (the words after the program's name), of which the user has typed a part, may become. */
export async function findCandidates(
  words: readonly string[],
  table: CompletedCommands,
  fetchNames: FetchNames,
): Promise<string[]> {
  const line = joinFlagValues(words);
  const typed = line.at(-1) ?? "";
  const possibleWords = await findPossibleWords(line, table, fetchNames);
  const matching = [...new Set(possibleWords)].filter((each) => each.startsWith(typed)).toSorted();
  // Bash completes only the value after `=`, which is a word of its own.
  const isValueAlone = words.at(-1) === "=" || words.at(-2) === "=";
  return isValueAlone ? matching.map((each) => each.slice(each.indexOf("=") + 1)) : matching;
}

/** Joins `--flag`, `=` and the value to one word: Bash passes them as three. */
function joinFlagValues(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (const [index, word] of words.entries()) {
    const continues = word === "=" || words[index - 1] === "=";
    if (continues) joined.push(`${joined.pop() ?? ""}${word}`);
    else joined.push(word);
  }
  return joined;
}

/** All that the last word may be, whatever the user has typed of it: values of a flag, flags, commands or arguments. */
async function findPossibleWords(
  words: readonly string[],
  table: CompletedCommands,
  fetchNames: FetchNames,
): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  const before = dropFlags(words.slice(0, -1), table);
  const row = findCommand(before, table.commands);
  const rowOfFlags = row ?? findUsualCommand(before, table);
  // Values, if the word before is a flag that takes one, or if the word has one after `=`.
  const [flag = ""] = typed.split("=");
  if (flag.startsWith("-") && typed.includes("="))
    return (valuesOfFlag(rowOfFlags, flag) ?? []).map((value) => `${flag}=${value}`);
  const previous = words.at(-2) ?? "";
  if (takesValue(previous, table.commands)) return valuesOfFlag(rowOfFlags, previous) ?? [];
  if (typed.startsWith("-")) return acceptedFlags(rowOfFlags, typed, words.length === 1);
  const values = booleanValues(previous);
  if (row === undefined) return [...values, ...nextCommandWords(before, table)];
  const offer = row.offers?.[before.length - row.words.split(" ").length] ?? [];
  const names = typeof offer === "string" ? await fetchNames(offer, namespaceOf(words)) : offer;
  return [...values, ...names];
}

/** The words of a command and its arguments, with the group of a command that can do without it: `module why web` for `why -o json web`. */
function dropFlags(words: readonly string[], { commands, shortcuts }: CompletedCommands): string[] {
  const kept = words.filter((word, index) => {
    const previous = words[index - 1] ?? "";
    return (
      !word.startsWith("-") && !takesValue(previous, commands) && !booleanValues(previous).includes(word)
    );
  });
  const [first = "", ...rest] = kept;
  if (first === "help") return rest;
  const omittedGroup = shortcuts.get(first);
  return omittedGroup === undefined ? kept : [omittedGroup, ...kept];
}

/** Whether the next word is the value of this flag, of any command or of a setting. */
function takesValue(flag: string, commands: readonly CommandRow[]): boolean {
  if (!flag.startsWith("-") || flag.includes("=")) return false;
  const setting = findSetting(flag);
  if (setting !== undefined) return setting.kind !== "boolean";
  const found = commands.flatMap(({ flags }) => flags ?? []).find((each) => namesOf(each).includes(flag));
  return found?.flags.includes("<") === true;
}

const BOOLEANS = ["false", "true"];

/** The values that may follow a boolean setting as a word of their own. */
function booleanValues(flag: string): readonly string[] {
  return findSetting(flag)?.kind === "boolean" ? BOOLEANS : [];
}

/** The value of `-n`. */
function namespaceOf(words: readonly string[]): { n?: string } {
  const n = words[words.indexOf("-n") + 1];
  return words.includes("-n") && n !== undefined ? { n } : {};
}

/** Finds the command that begins with these words; undefined while they are incomplete. */
function findCommand(
  [first = "", second = ""]: readonly string[],
  commands: readonly CommandRow[],
): CommandRow | undefined {
  return commands.find(({ words }) => words === first || words === `${first} ${second}`);
}

/** The command of a line that names only its group, such as `queue`. */
function findUsualCommand(
  [group = "", second]: readonly string[],
  { commands, groups }: CompletedCommands,
): CommandRow | undefined {
  const usual = second === undefined ? member(groups, group)?.usual : undefined;
  return usual === undefined ? undefined : findCommand([group, usual], commands);
}

/** The words that may follow `before` in a command: `list` and `main` after `queue`. */
function nextCommandWords(before: readonly string[], { commands, shortcuts }: CompletedCommands): string[] {
  const matching = commands
    .map(({ words }) => words.split(" "))
    .filter((words) => before.every((word, index) => words[index] === word));
  const next = matching.flatMap((words) => words[before.length] ?? []);
  return before.length === 0 ? [...next, ...shortcuts.keys(), "help"] : next;
}

const namesOf = ({ flags }: { readonly flags: string }): string[] => flags.split(/[ ,]+/);

const findSetting = (flag: string) =>
  SETTINGS.find(({ flags }) => flags.some((each) => `--${each}` === flag || `-${each}` === flag));

/** The accepted values of a flag of the command or of a setting; undefined if it has no fixed list. */
function valuesOfFlag(row: CommandRow | undefined, flag: string): readonly string[] | undefined {
  const ofCommand = row?.flags?.find((each) => namesOf(each).includes(flag));
  if (ofCommand !== undefined) return ofCommand.values;
  const setting = findSetting(flag);
  return setting?.kind === "boolean" ? BOOLEANS : setting?.choices;
}

/** The long names of the flags of a command and, if it has none or the user has typed a part of a name, of all settings. */
function acceptedFlags(row: CommandRow | undefined, typed: string, isFirst: boolean): string[] {
  const commandFlags = (row?.flags ?? []).flatMap(({ flags }) => flags.match(/--[\w-]+/g) ?? []);
  const settings = SETTINGS.map(({ flags }) => `--${flags[0]}`);
  const isNameBegun = typed.length > "--".length;
  return [
    ...commandFlags,
    "--help",
    ...(isFirst ? ["--version"] : []),
    ...(commandFlags.length === 0 || isNameBegun ? settings : []),
  ];
}

/** Fetches the names of this kind; none if the operator or the API server does not respond in time. */
async function fetchNames(kind: NameKind, line: CommandLine, terminal: Terminal): Promise<readonly string[]> {
  try {
    const names = await (kind === "module"
      ? fetchModuleNames(line, terminal)
      : fetchFromCluster(kind, line, terminal));
    return names.filter((name) => SAFE_NAME.test(name));
  } catch {
    return [];
  }
}

/** The names of modules from the running operator. */
async function fetchModuleNames(line: CommandLine, terminal: Terminal): Promise<readonly string[]> {
  const query = operatorClient(line, terminal);
  const { status, body } = await query(getFromSocket("/overview.json"), AbortSignal.timeout(TIMEOUT_MS));
  if (status >= 400) return [];
  const { modules } = JSON.parse(body) as Overview;
  return modules.map(({ name }) => name);
}

/** Names from the cluster. */
async function fetchFromCluster(
  kind: Exclude<NameKind, "module">,
  line: CommandLine,
  terminal: Terminal,
): Promise<readonly string[]> {
  const { listCompletedNames, withReader } = await import("../cluster/read-resources.ts");
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  // The end of the reader ends a request that takes too long.
  return withReader(line, terminal, (reader) => orAborted(listCompletedNames(reader, kind), signal));
}
