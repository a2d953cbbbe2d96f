/** Completion of command lines in shells: the shell calls the hidden command `__complete` with the words typed so far. */

import { member } from "../../model/index.ts";
import { SETTINGS } from "../../setting-names.ts";
import type { Overview } from "../../status/index.ts";
import { getFromSocket, type CommandLine, type CommandRow, type Terminal } from "../table/row.ts";
import { operatorClient } from "./socket.ts";

/** Bash inserts a completed word without quoting, so names with other characters are not offered. */
const SAFE_NAME = /^[\w.-]+$/;
/** A slower operator is ignored, because the user is waiting for the completion. */
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

/** Prints the candidates for the last word, one per line; nothing for words that the shell completes, such as files. */
export async function printCandidates(
  line: CommandLine,
  terminal: Terminal,
  commands: readonly CommandRow[],
): Promise<number> {
  const candidates = await findCandidates(line.args, commands, () => fetchModuleNames(line, terminal));
  terminal.print(candidates.map((each) => `${each}\n`).join(""));
  return 0;
}

/** Fetches the names of modules: called only where a module's name is expected. */
type FetchModuleNames = () => Promise<readonly string[]>;

/** What the last of `words` (the words after the program's name), of which the user has typed a part, may become. */
export async function findCandidates(
  words: readonly string[],
  commands: readonly CommandRow[],
  fetchModules: FetchModuleNames,
): Promise<string[]> {
  const line = joinFlagValues(words);
  const typed = line.at(-1) ?? "";
  const possibleWords = await findPossibleWords(line, commands, fetchModules);
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
  commands: readonly CommandRow[],
  fetchModules: FetchModuleNames,
): Promise<readonly string[]> {
  const before = words.slice(0, -1).filter((word) => !word.startsWith("-"));
  const row = findCommand(before, commands);
  const typed = words.at(-1) ?? "";
  // Values, if the word before is a flag that takes one, or if the word has one after `=`.
  const [flag = ""] = typed.split("=");
  if (flag.startsWith("-") && typed.includes("="))
    return (valuesOfFlag(row, flag) ?? []).map((value) => `${flag}=${value}`);
  const flagValues = valuesOfFlag(row, words.at(-2) ?? "");
  if (flagValues !== undefined) return flagValues;
  if (typed.startsWith("-")) return acceptedFlags(row, typed);
  if (row === undefined) return nextCommandWords(before, commands);
  const argumentIndex = before.length - row.words.split(" ").length;
  return valuesOfArgument(row, argumentIndex, fetchModules);
}

/**
 * The known values of the argument with this index: names of shells or of modules. `args` describes all arguments of the command, e.g.
 * `NAME [VERSION]`. Where NAME is that of a new module or of a config parameter, nothing is known.
 */
function valuesOfArgument(
  { words, args = "" }: CommandRow,
  index: number,
  fetchModules: FetchModuleNames,
): readonly string[] | Promise<readonly string[]> {
  const name = args.split(" ")[index]?.replaceAll(/[[\]]/g, "");
  if (name === "SHELL") return Object.keys(SCRIPTS);
  const isNewName = words.startsWith("new ") || words.startsWith("config ");
  return name === "NAME" && !isNewName ? fetchModules() : [];
}

/** Finds the command that begins with these words; undefined while they are incomplete. */
function findCommand(
  [first = "", second = ""]: readonly string[],
  commands: readonly CommandRow[],
): CommandRow | undefined {
  return commands.find(({ words }) => words === first || words === `${first} ${second}`);
}

/** The words that may follow `before` in a command: `list` and `main` after `queue`. */
function nextCommandWords(before: readonly string[], commands: readonly CommandRow[]): string[] {
  const matching = commands
    .map(({ words }) => words.split(" "))
    .filter((words) => before.every((word, index) => words[index] === word));
  return matching.flatMap((words) => words[before.length] ?? []);
}

/** The accepted values of a flag of the command or of a setting; undefined if it has no fixed list. */
function valuesOfFlag(row: CommandRow | undefined, flag: string): readonly string[] | undefined {
  const ofCommand = row?.flags?.find((each) => each.flags.split(/[ ,]+/).includes(flag));
  if (ofCommand !== undefined) return ofCommand.values;
  const setting = SETTINGS.find(({ flags }) => flags.some((each) => `--${each}` === flag));
  return setting?.kind === "boolean" ? ["false", "true"] : setting?.choices;
}

/** The long names of the flags of a command and, if it has none or the user has typed a part of a name, of all settings. */
function acceptedFlags(row: CommandRow | undefined, typed: string): string[] {
  const commandFlags = (row?.flags ?? []).flatMap(({ flags }) => flags.match(/--[\w-]+/g) ?? []);
  const settings = SETTINGS.map(({ flags }) => `--${flags[0]}`);
  const isNameBegun = typed.length > "--".length;
  return [...commandFlags, "--help", ...(commandFlags.length === 0 || isNameBegun ? settings : [])];
}

/** The names of modules from the running operator; none if it does not respond in time. */
async function fetchModuleNames(line: CommandLine, terminal: Terminal): Promise<readonly string[]> {
  try {
    const query = operatorClient(line, terminal);
    const { status, body } = await query(getFromSocket("/overview.json"), AbortSignal.timeout(TIMEOUT_MS));
    if (status >= 400) return [];
    const { modules } = JSON.parse(body) as Overview;
    return modules.map(({ name }) => name).filter((name) => SAFE_NAME.test(name));
  } catch {
    return [];
  }
}
