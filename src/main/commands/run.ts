/**
 * Parses a command line, runs its command, and converts errors to exit codes. The table COMMANDS describes all commands; some belong to
 * a *group*, such as `list` to `module`. *Settings* are the flags of the operator that are environment variables, too.
 */

import { Argument, Command, CommanderError, Option } from "commander";

import {
  readSettings,
  UsageError,
  type Environment,
  type CommandLineSettings,
} from "../../config/settings/index.ts";
import { findNearestName } from "../../base/index.ts";
import { ProblemError } from "../../base/model/index.ts";
import { FOREIGN_FLAGS, SETTINGS, type SettingRow } from "../../config/settings/index.ts";
import { NoOperatorError, type Flag, type CommandLine, type CommandRow, type Terminal } from "./table/row.ts";
import { wrapHelp, helpFor, PROGRAM_NAME, usageLine } from "./help.ts";
import { COMMANDS, DEFAULT_COMMAND, GROUPS, SHORTCUTS, VISIBLE_COMMANDS } from "./table/commands.ts";

const EXIT_REFUSED = 1;
const EXIT_USAGE = 2;

/** Runs a command line. Returns the exit code: 0 for success or a requested stop. Throws errors that `exitCodeForError` maps. */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  // Without arguments a terminal shows the help; a unit file or a container starts the operator.
  const needsHelp = args.length === 0 && terminal.isInteractive === true;
  const parsed = parseCommandLine(needsHelp ? ["--help"] : args, terminal.env);
  if ("help" in parsed) {
    terminal.print(wrapHelp(parsed.help, terminal.columns));
    return 0;
  }
  return parsed.row.run(parsed, terminal);
}

/** The exit code for an error: 2 = wrong usage; 1 = the operator refused to start, or a request failed; undefined = a bug. */
export function exitCodeForError(error: unknown): number | undefined {
  if (error instanceof UsageError) return EXIT_USAGE;
  return error instanceof NoOperatorError || error instanceof ProblemError ? EXIT_REFUSED : undefined;
}

/** A parsed line, or the requested help. */
export type Parsed = CommandLine | { readonly help: string };

/** What the parser's callbacks have collected. */
interface ParseState {
  readonly typedSettings: {
    readonly texts: Map<SettingRow["key"], string>;
    readonly foreign: Map<string, string>;
  };
  help: string;
  line: CommandLine | undefined;
}

/** Parses a command line, which may also request help. Throws UsageError; for an unknown flag the error also lists the problems of the settings. */
export function parseCommandLine(args: readonly string[], env: Environment = {}): Parsed {
  const words = moveCommandFirst(normalizeFlags(args));
  const typedSettings = { texts: new Map(), foreign: new Map() };
  const state: ParseState = { typedSettings, help: "", line: undefined };
  try {
    buildParser(state).parse(words, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { help: state.help };
    throw toUsageError(error, { words, env, typedSettings });
  }
  // A callback of the parser sets the line, unless the words name no command.
  if (state.line === undefined) throw new UsageError([SEE_HELP]);
  return state.line;
}

/** A command of the parser that neither prints nor exits the process. Its help, that of `words`, goes into `state`. */
function silentCommand(name: string, words: string, state: ParseState): Command {
  const writeOut = (text: string): void => {
    state.help = text;
  };
  return new Command(name)
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ formatHelp: () => helpFor(words) })
    .configureOutput({ writeOut, writeErr: () => {} });
}

/** Builds the parser of all commands. Its callbacks write their results into `state`. */
function buildParser(state: ParseState): Command {
  const program = silentCommand(PROGRAM_NAME, "", state);
  for (const option of buildSettingOptions(state.typedSettings)) program.addOption(option);
  const groups = new Map(Object.keys(GROUPS).map((name) => [name, silentCommand(name, name, state)]));
  for (const group of groups.values()) program.addCommand(group);
  for (const row of COMMANDS) {
    const [first = "", second] = row.words.split(" ");
    const group = second === undefined ? undefined : groups.get(first);
    (group ?? program).addCommand(buildCommand(row, state));
  }
  return program;
}

/** Builds the parser's command for a row of the table. Its callback stores the parsed command line in `state`. */
function buildCommand(row: CommandRow, state: ParseState): Command {
  // `checkArguments` refuses excess arguments with a better message.
  const command = silentCommand(row.words.split(" ").at(-1) ?? "", row.words, state).allowExcessArguments();
  for (const name of declaredArguments(row)) command.addArgument(new Argument(name));
  for (const flag of row.flags ?? []) command.addOption(buildOption(flag));
  return command.action(() => {
    checkArguments(row, command.args);
    const settings: CommandLine["settings"] = (env) => readSettings(state.typedSettings, env);
    state.line = { row, args: command.args, flags: command.opts<CommandLine["flags"]>(), settings };
  });
}

/** The arguments of a command in the parser's notation: `[NAME]` if optional, otherwise `<NAME>`. */
function declaredArguments({ args }: CommandRow): string[] {
  return (args?.split(" ") ?? []).map((name) => (name.startsWith("[") ? name : `<${name}>`));
}

/** An option of the parser. It refuses an empty value if it requires one. */
function buildOption({ flags }: Flag): Option {
  const option = new Option(flags);
  if (!option.required) return option;
  return option.argParser((text: string) => {
    if (text !== "") return text;
    throw new UsageError([`${option.long ?? flags}: needs a value`]);
  });
}

/**
 * Builds an option of the parser for each name of each setting, and for flags of the Go operator that are no settings here. Their
 * callbacks record what the user typed; of a repeated setting, the last one counts.
 */
function buildSettingOptions({ texts, foreign }: ParseState["typedSettings"]): Option[] {
  const options: Option[] = [];
  for (const { key, kind, flags } of SETTINGS) {
    const record = (text: string): void => void texts.set(key, text);
    for (const name of flags) options.push(new Option(`--${name} <${kind}>`).argParser(record));
  }
  for (const name of FOREIGN_FLAGS) {
    const record = (text: string): void => void foreign.set(name, text);
    options.push(new Option(`--${name} [value]`).preset("").argParser(record));
  }
  return options;
}

const SEE_HELP = `see ${PROGRAM_NAME} --help`;

/** Throws UsageError for an empty required argument (declared as `<NAME>`) or an excess one. */
function checkArguments(row: CommandRow, args: readonly string[]): void {
  const declared = declaredArguments(row);
  if (args.some((text, index) => text === "" && declared[index]?.startsWith("<")))
    throw missingArgumentError(row);
  const takesAnyNumber = declared.at(-1)?.includes("...") === true;
  const excess = takesAnyNumber ? undefined : args[declared.length];
  if (excess === undefined) return;
  // Commands that send no request may take several arguments, where the usage helps more.
  const namesArgument = row.request !== undefined || declared.length === 0;
  throw new UsageError([
    namesArgument ? `"${excess}" is an unexpected argument; ${SEE_HELP}` : `usage: ${usageLine(row)}`,
  ]);
}

/** The error for a command line without a required argument. */
function missingArgumentError(row: CommandRow): UsageError {
  return new UsageError([
    row.needs === undefined ? `usage: ${usageLine(row)}` : `${row.words}: needs ${row.needs}`,
  ]);
}

interface ParsedInput {
  readonly words: readonly string[];
  readonly env: Environment;
  readonly typedSettings: CommandLineSettings;
}

/**
 * Converts an error of the parser, which names its own notation of flags and arguments, to a message of this program. The parser
 * quotes the flag or the word in its first line, and puts suggestions in brackets into further lines.
 */
function toUsageError({ code, message }: CommanderError, { words, env, typedSettings }: ParsedInput): Error {
  const [, name = ""] = /'([^']*)'/.exec(message) ?? [];
  const [, ...suggestionLines] = message.split("\n");
  const parserSuggestions = suggestionLines.map((line) => line.replace(/^\((.*)\)$/, "$1"));
  const row = COMMANDS.find((each) => `${words.join(" ")} `.startsWith(`${each.words} `));
  if (code === "commander.missingArgument" && row !== undefined) return missingArgumentError(row);
  if (code === "commander.optionMissingArgument") return new UsageError([missingValueMessage(name)]);
  if (code === "commander.unknownOption") {
    const problems = [`${refusedFlagMessage(name, row)}; ${SEE_HELP}`, ...parserSuggestions];
    try {
      // Always throws: it adds the problems of the settings to the given ones.
      readSettings(typedSettings, env, problems);
    } catch (error) {
      return error as Error;
    }
  }
  return new UsageError([
    unknownCommandMessage(words),
    ...(parserSuggestions.length > 0 ? parserSuggestions : suggestCommands(words)),
  ]);
}

/** Suggests commands of which the user typed the wrong group: `module values` for `values`, `plan` for `module plan`. */
function suggestCommands([first = "", second = ""]: readonly string[]): string[] {
  const lastWord = ({ words }: CommandRow): string => words.split(" ").at(-1) ?? "";
  const typedWord = Object.hasOwn(GROUPS, first) ? second : first;
  const nearestWord = findNearestName(typedWord, VISIBLE_COMMANDS.map(lastWord));
  const matching = VISIBLE_COMMANDS.filter((row) => lastWord(row) === nearestWord).map(({ words }) => words);
  return matching.length === 0 ? [] : [`Did you mean ${matching.join(" or ")}?`];
}

/** The message for a flag without its value. `flags` is how the flag is declared: `-o, --output <FORMAT>`. */
function missingValueMessage(flags: string): string {
  const long = /--[\w-]+/.exec(flags)?.[0] ?? flags;
  const setting = SETTINGS.find((each) => each.flags.includes(long.slice(2)));
  return `${long}: needs a value${setting === undefined ? "" : `: ${setting.accepted}`}`;
}

/** Why a flag is refused: it takes no value, belongs to another command, or is unknown. */
function refusedFlagMessage(typedFlag: string, row: CommandRow | undefined): string {
  const [name = ""] = typedFlag.split("=");
  const hasName = ({ flags }: Flag): boolean => flags.split(/[ ,]+/).includes(name);
  if (row?.flags?.some(hasName) === true) return `${name}: takes no value`;
  const isKnown = COMMANDS.some(({ flags }) => flags?.some(hasName));
  return isKnown ? `${name}: not a flag of "${row?.words ?? ""}"` : `${name}: unknown flag`;
}

/** The message for words that are no command: the first one is unknown, or it is a group and the second one is unknown or missing. */
function unknownCommandMessage([first = "", second]: readonly string[]): string {
  if (!Object.hasOwn(GROUPS, first)) return `"${first}" is not a sub-command; ${SEE_HELP}`;
  const known = listSubCommands(first).join(", ");
  if (second === undefined) return `${first}: needs one of ${known}`;
  return `"${second}" is not a sub-command; use ${known}`;
}

const HELP_FLAGS = new Set(["--help", "-h"]);
const BOOLEAN_SETTINGS = new Set(
  SETTINGS.filter(({ kind }) => kind === "boolean").flatMap(({ flags }) => flags),
);
const SETTING_NAMES = new Set([...SETTINGS.flatMap(({ flags }) => flags), ...FOREIGN_FLAGS]);

/**
 * Converts flags of settings to the form that the parser accepts: `-ha` to `--ha`, and a boolean setting without a value, or
 * with its value as the next word, to `--ha=true`. Go programs accept these forms.
 */
function normalizeFlags(args: readonly string[]): string[] {
  const normalized: string[] = [];
  const remaining = [...args];
  for (let arg = remaining.shift(); arg !== undefined; arg = remaining.shift()) {
    // All words after `--` are arguments.
    if (arg === "--") return [...normalized, arg, ...remaining];
    // `inlineValue` begins with `=`.
    const [, name = "", inlineValue] = FLAG_WITH_VALUE.exec(arg) ?? [];
    if (SETTING_NAMES.has(name))
      normalized.push(`--${name}${inlineValue ?? takeBooleanValue(name, remaining)}`);
    else normalized.push(arg);
  }
  return normalized;
}

/** `-NAME`, `--NAME` or either with `=VALUE`. */
const FLAG_WITH_VALUE = /^--?([^=]+)(=.*)?$/s;

/** The value of a boolean setting as `=VALUE`; "" for other settings. Removes the value from `nextArgs` if it is the next word. */
function takeBooleanValue(name: string, nextArgs: string[]): string {
  if (!BOOLEAN_SETTINGS.has(name)) return "";
  const [nextArg = ""] = nextArgs;
  if (!/^(true|false|yes|no)$/.test(nextArg)) return "=true";
  nextArgs.shift();
  return `=${nextArg}`;
}

/**
 * Puts the words of the command before the flags, as the parser needs them: `module --watch list` becomes `module list --watch`.
 * Inserts the default command (`start`), or the group of a command that can do without it.
 */
function moveCommandFirst(args: readonly string[]): string[] {
  const [first, ...rest] = args;
  if (first === "help") return moveCommandFirst([...rest, "--help"]);
  if (first === "--version") return ["version"];
  if (first === undefined) return [DEFAULT_COMMAND];
  const isHelpOnly = args.every((arg) => HELP_FLAGS.has(arg));
  if (first.startsWith("-")) return isHelpOnly ? [...args] : [DEFAULT_COMMAND, ...args];
  const omittedGroup = SHORTCUTS.get(first);
  if (omittedGroup !== undefined) return [omittedGroup, ...args];
  return Object.hasOwn(GROUPS, first) ? [first, ...moveSubCommandFirst(first, rest)] : [...args];
}

/** The second words of the commands of a group. */
function listSubCommands(group: string): string[] {
  const commands = COMMANDS.map(({ words }) => words.split(" "));
  return commands.flatMap(([first, second = ""]) => (first === group ? second : []));
}

/** Puts the second word of a command (`args` follow the name of its group) before the flags. If there is none, inserts the usual command of the group. */
function moveSubCommandFirst(group: string, args: readonly string[]): string[] {
  const [second] = args;
  const isInPlace = second !== undefined && (!second.startsWith("-") || HELP_FLAGS.has(second));
  if (isInPlace) return [...args];
  const subCommands = listSubCommands(group);
  const index = args.findIndex((arg) => subCommands.includes(arg));
  const subCommand = index < 0 ? GROUPS[group]?.usual : args[index];
  if (subCommand === undefined) return [...args];
  return [subCommand, ...args.filter((_, argIndex) => argIndex !== index)];
}
