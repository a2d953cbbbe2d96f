/** Parses a command line, runs its command, and converts errors to exit codes. */

import { Argument, Command, CommanderError, Option } from "commander";

import { readSettings, UsageError, type Environment, type GivenSettings } from "../config.ts";
import { findNearestName } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import { IGNORED_SETTINGS, SETTINGS, type SettingRow } from "../settings.ts";
import { NoOperatorError, type Flag, type Line, type Row, type Terminal } from "./table/row.ts";
import { wrap, helpFor, PROGRAM, usageOf } from "./help.ts";
import { COMMANDS, DEFAULT_COMMAND, GROUPS, SHORTCUTS, VISIBLE_COMMANDS } from "./table/commands.ts";

const REFUSED = 1;
const USAGE = 2;

/** Runs a command line. Returns the exit code: 0 for success or a requested stop. Throws errors that `exitCodeOf` maps. */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  // Without arguments a terminal shows the help; a unit file or a container starts the operator.
  const parsed = parseLine(
    args.length === 0 && terminal.isInteractive === true ? ["--help"] : args,
    terminal.env,
  );
  if ("help" in parsed) {
    terminal.print(wrap(parsed.help, terminal.columns));
    return 0;
  }
  return parsed.row.run(parsed, terminal);
}

/** 1: refused to start, or the request failed. 2: wrong usage. Undefined: a bug. */
export function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof UsageError) return USAGE;
  return error instanceof NoOperatorError || error instanceof ProblemError ? REFUSED : undefined;
}

/** A parsed line, or the requested help. */
export type Parsed = Line | { readonly help: string };

/** Results that the parser's callbacks collect. */
interface ParseState {
  readonly given: { readonly texts: Map<SettingRow["key"], string>; readonly ignored: string[] };
  help: string;
  line: Line | undefined;
}

/**
 * Parses a command line. Throws UsageError; for an unknown flag the error also lists the problems of the settings.
 */
export function parseLine(args: readonly string[], env: Environment = {}): Parsed {
  const typed = commandFirst(normalizeFlags(args));
  const found: ParseState = { given: { texts: new Map(), ignored: [] }, help: "", line: undefined };
  try {
    parserOf(found).parse(typed, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { help: found.help };
    throw usageError(error, { typed, env, given: found.given });
  }
  if (found.line === undefined) throw new UsageError([SEE_HELP]);
  return found.line;
}

/** A command of the parser that neither prints nor exits the process. */
function silentCommand(name: string, words: string, found: ParseState): Command {
  return new Command(name)
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ formatHelp: () => helpFor(words) })
    .configureOutput({ writeOut: (text) => void (found.help = text), writeErr: () => {} });
}

/** The parser of all commands. Its callbacks write into `found`. */
function parserOf(found: ParseState): Command {
  const whole = silentCommand(PROGRAM, "", found);
  for (const option of settingOptions(found.given)) whole.addOption(option);
  const groups = new Map(Object.keys(GROUPS).map((name) => [name, silentCommand(name, name, found)]));
  for (const group of groups.values()) whole.addCommand(group);
  for (const row of COMMANDS) {
    const [first = "", second] = row.words.split(" ");
    (second === undefined ? whole : (groups.get(first) ?? whole)).addCommand(commandOf(row, found));
  }
  return whole;
}

function commandOf(row: Row, found: ParseState): Command {
  const command = silentCommand(row.words.split(" ").at(-1) ?? "", row.words, found).allowExcessArguments();
  for (const name of argumentsOf(row)) command.addArgument(new Argument(name));
  for (const flag of row.flags ?? []) command.addOption(optionOf(flag));
  return command.action(() => {
    checkArguments(row, command.args);
    const settings: Line["settings"] = (env) => readSettings(found.given, env);
    found.line = { row, args: command.args, flags: command.opts<Line["flags"]>(), settings };
  });
}

function argumentsOf({ args }: Row): string[] {
  return (args?.split(" ") ?? []).map((name) => (name.startsWith("[") ? name : `<${name}>`));
}

/** An option of the parser. It refuses an empty value if it requires one. */
function optionOf({ flags }: Flag): Option {
  const option = new Option(flags);
  if (!option.required) return option;
  return option.argParser((text: string) => {
    if (text !== "") return text;
    throw new UsageError([`${option.long ?? flags}: needs a value`]);
  });
}

/** An option for each name of each setting; the last one on the line is in force. */
function settingOptions({ texts, ignored }: ParseState["given"]): Option[] {
  const settings = SETTINGS.flatMap((setting) =>
    setting.flags.map((name) =>
      new Option(`--${name} <${setting.kind}>`).argParser(
        (text: string) => void texts.set(setting.key, text),
      ),
    ),
  );
  const others = IGNORED_SETTINGS.map((name) =>
    new Option(`--${name} [value]`).preset("").argParser(() => void ignored.push(`--${name}`)),
  );
  return [...settings, ...others];
}

const SEE_HELP = `see ${PROGRAM} --help`;

/** Throws UsageError for an empty required argument or an excess one. */
function checkArguments(row: Row, args: readonly string[]): void {
  const wanted = argumentsOf(row);
  if (args.some((text, place) => text === "" && wanted[place]?.startsWith("<"))) throw missingArgument(row);
  const extra = wanted.at(-1)?.includes("...") === true ? undefined : args[wanted.length];
  if (extra === undefined) return;
  const showsArgument = row.call !== undefined || wanted.length === 0;
  throw new UsageError([
    showsArgument ? `"${extra}" is an unexpected argument; ${SEE_HELP}` : `usage: ${usageOf(row)}`,
  ]);
}

function missingArgument(row: Row): UsageError {
  return new UsageError([
    row.needs === undefined ? `usage: ${usageOf(row)}` : `${row.words}: needs ${row.needs}`,
  ]);
}

interface RefusedLine {
  readonly typed: readonly string[];
  readonly env: Environment;
  readonly given: GivenSettings;
}

/** Converts an error of the parser to a message of this program. */
function usageError({ code, message }: CommanderError, { typed, env, given }: RefusedLine): Error {
  const [, name = ""] = /'([^']*)'/.exec(message) ?? [];
  const meant = message
    .split("\n")
    .slice(1)
    .map((line) => line.replace(/^\((.*)\)$/, "$1"));
  const row = COMMANDS.find(({ words }) => `${typed.join(" ")} `.startsWith(`${words} `));
  if (code === "commander.missingArgument" && row !== undefined) return missingArgument(row);
  if (code === "commander.optionMissingArgument") return new UsageError([needsValue(name)]);
  if (code === "commander.unknownOption") {
    const lines = [`${unknownFlag(name, row)}; ${SEE_HELP}`, ...meant];
    try {
      readSettings(given, env, lines);
    } catch (error) {
      return error as Error;
    }
  }
  return new UsageError([notACommand(typed), ...(meant.length > 0 ? meant : suggestions(typed))]);
}

/** Suggests commands of another group: `values` for `module values`, `module plan` for `plan`. */
function suggestions([first = "", second = ""]: readonly string[]): string[] {
  const lastOf = ({ words }: Row): string => words.split(" ").at(-1) ?? "";
  const word = findNearestName(Object.hasOwn(GROUPS, first) ? second : first, VISIBLE_COMMANDS.map(lastOf));
  const meant = VISIBLE_COMMANDS.filter((row) => lastOf(row) === word).map(({ words }) => words);
  return meant.length === 0 ? [] : [`Did you mean ${meant.join(" or ")}?`];
}

/** The error for an option without its value. `flags` is how the option is declared: `-o, --output <FORMAT>`. */
function needsValue(flags: string): string {
  const long = /--[\w-]+/.exec(flags)?.[0] ?? flags;
  const setting = SETTINGS.find((each) => each.flags.includes(long.slice(2)));
  return `${long}: needs a value${setting === undefined ? "" : `: ${setting.accepted}`}`;
}

/** Why a flag is refused: it takes no value, belongs to another command, or is unknown. */
function unknownFlag(given: string, row: Row | undefined): string {
  const [name = ""] = given.split("=");
  const hasName = ({ flags }: Flag): boolean => flags.split(/[ ,]+/).includes(name);
  if (row?.flags?.some(hasName) === true) return `${name}: takes no value`;
  const isKnown = COMMANDS.some(({ flags }) => flags?.some(hasName));
  return isKnown ? `${name}: not a flag of "${row?.words ?? ""}"` : `${name}: unknown flag`;
}

function notACommand([first = "", second]: readonly string[]): string {
  const words = COMMANDS.map((row) => row.words.split(" ")).filter(([group]) => group === first);
  const known = words.map((each) => each[1] ?? "").join(", ");
  if (!Object.hasOwn(GROUPS, first)) return `"${first}" is not a sub-command; ${SEE_HELP}`;
  return second === undefined
    ? `${first}: needs one of ${known}`
    : `"${second}" is not a sub-command; use ${known}`;
}

const HELP = new Set(["--help", "-h"]);
const BOOLEANS = new Set(SETTINGS.filter(({ kind }) => kind === "boolean").flatMap(({ flags }) => flags));
const NAMES = new Set([...SETTINGS.flatMap(({ flags }) => flags), ...IGNORED_SETTINGS]);

/** `-ha` → `--ha`; a boolean setting may have no value, or its value as the next word. */
function normalizeFlags(args: readonly string[]): string[] {
  const out: string[] = [];
  const queue = [...args];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === "--") return [...out, arg, ...queue];
    const [, name = "", inline] = /^--?([^=]+)(=.*)?$/s.exec(arg) ?? [];
    out.push(NAMES.has(name) ? `--${name}${inline ?? booleanValue(name, queue)}` : arg);
  }
  return out;
}

/** `=VALUE` of a boolean setting, `=true` without a value; "" for other settings. */
function booleanValue(name: string, queue: string[]): string {
  if (!BOOLEANS.has(name)) return "";
  return `=${/^(true|false|yes|no)$/.test(queue[0] ?? "") ? queue.shift() : "true"}`;
}

/** Puts the command first. Without one, the line is the default command with flags. */
function commandFirst(args: readonly string[]): string[] {
  const [first, ...rest] = args;
  if (first === "help") return commandFirst([...rest, "--help"]);
  if (first === "--version") return ["version"];
  if (first === undefined) return [DEFAULT_COMMAND];
  if (first.startsWith("-"))
    return args.every((arg) => HELP.has(arg)) ? [...args] : [DEFAULT_COMMAND, ...args];
  const omittedGroup = SHORTCUTS.get(first);
  if (omittedGroup !== undefined) return [omittedGroup, ...args];
  const group = Object.hasOwn(GROUPS, first) ? GROUPS[first] : undefined;
  return group === undefined ? [...args] : [first, ...subCommandFirst(first, rest)];
}

/** Allows flags before the second word, and inserts the group's usual command if there is none. */
function subCommandFirst(group: string, args: readonly string[]): string[] {
  const [second] = args;
  if (second !== undefined && (!second.startsWith("-") || HELP.has(second))) return [...args];
  const known = COMMANDS.map(({ words }) => words.split(" ")).filter(([first]) => first === group);
  const place = args.findIndex((arg) => known.some(([, word]) => word === arg));
  const word = place < 0 ? GROUPS[group]?.usual : args[place];
  return word === undefined ? [...args] : [word, ...args.filter((_, at) => at !== place)];
}
