/** Reads a command line, runs its command, and turns what went wrong into an exit code. */

import { Argument, Command, CommanderError, Option } from "commander";

import { readSettings, UsageError, type Environment, type GivenSettings } from "../config.ts";
import { ProblemError } from "../model/index.ts";
import { nearest } from "../values/index.ts";
import { IGNORED_SETTINGS, SETTINGS, type SettingRow } from "../settings.ts";
import { NoOperatorError, type Flag, type Line, type Row, type World } from "./table/row.ts";
import { fitted, helpOf, PROGRAM, usageOf } from "./help.ts";
import { COMMANDS, DEFAULT_COMMAND, GROUPS, SHORT } from "./table/commands.ts";

const REFUSED = 1;
const USAGE = 2;

/** The exit code of a command line: 0 it went well or was stopped on request. Throws what `exitCodeOf` knows. */
export async function runLine(args: readonly string[], world: World): Promise<number> {
  // Typed without anything, it is a question; in a unit file or a container it starts.
  const parsed = parseLine(args.length === 0 && world.isTyped === true ? ["--help"] : args, world.env);
  if ("help" in parsed) {
    world.print(fitted(parsed.help, world.columns));
    return 0;
  }
  return parsed.row.run(parsed, world);
}

/**
 * 1 refused to start or the call failed, 2 wrong usage; undefined for what is no mistake of the user or the environment:
 * a bug.
 */
export function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof UsageError) return USAGE;
  return error instanceof NoOperatorError || error instanceof ProblemError ? REFUSED : undefined;
}

/** A command with what was given to it, or the help that was asked for. */
export type Parsed = Line | { readonly help: string };

/** What is found while a line is read. */
interface Found {
  readonly given: { readonly texts: Map<SettingRow["key"], string>; readonly ignored: string[] };
  help: string;
  line: Line | undefined;
}

/**
 * The command that a line names, with its arguments and flags. Throws UsageError; where a flag is not known, with what is
 * wrong with the settings besides.
 */
export function parseLine(args: readonly string[], env: Environment = {}): Parsed {
  const typed = arranged(args);
  const found: Found = { given: { texts: new Map(), ignored: [] }, help: "", line: undefined };
  try {
    program(found).parse(typed, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { help: found.help };
    throw refusal(error, { typed, env, given: found.given });
  }
  if (found.line === undefined) throw new UsageError([SEE_HELP]);
  return found.line;
}

/** Nothing is printed while a line is read, and nothing ends the process. */
function quiet(name: string, words: string, found: Found): Command {
  return new Command(name)
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ formatHelp: () => helpOf(words) })
    .configureOutput({ writeOut: (text) => void (found.help = text), writeErr: () => {} });
}

function program(found: Found): Command {
  const whole = quiet(PROGRAM, "", found);
  for (const option of settingOptions(found.given)) whole.addOption(option);
  const groups = new Map(Object.keys(GROUPS).map((name) => [name, quiet(name, name, found)]));
  for (const group of groups.values()) whole.addCommand(group);
  for (const row of COMMANDS) {
    const [first = "", second] = row.words.split(" ");
    (second === undefined ? whole : (groups.get(first) ?? whole)).addCommand(commandOf(row, found));
  }
  return whole;
}

function commandOf(row: Row, found: Found): Command {
  const command = quiet(row.words.split(" ").at(-1) ?? "", row.words, found).allowExcessArguments();
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

function optionOf({ flags }: Flag): Option {
  const option = new Option(flags);
  if (!option.required) return option;
  return option.argParser((text: string) => {
    if (text !== "") return text;
    throw new UsageError([`${option.long ?? flags}: needs a value`]);
  });
}

/** An option for each name of each setting; the last one that is given counts. */
function settingOptions({ texts, ignored }: Found["given"]): Option[] {
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

function checkArguments(row: Row, args: readonly string[]): void {
  const wanted = argumentsOf(row);
  if (args.some((text, place) => text === "" && wanted[place]?.startsWith("<"))) throw missing(row);
  const extra = wanted.at(-1)?.includes("...") === true ? undefined : args[wanted.length];
  if (extra === undefined) return;
  const isTold = row.call !== undefined || wanted.length === 0;
  throw new UsageError([isTold ? `"${extra}" is not understood; ${SEE_HELP}` : `usage: ${usageOf(row)}`]);
}

function missing(row: Row): UsageError {
  return new UsageError([
    row.needs === undefined ? `usage: ${usageOf(row)}` : `${row.words}: needs ${row.needs}`,
  ]);
}

interface Refused {
  readonly typed: readonly string[];
  readonly env: Environment;
  readonly given: GivenSettings;
}

/** What the parser refuses, in words of our own. */
function refusal({ code, message }: CommanderError, { typed, env, given }: Refused): Error {
  const [, name = ""] = /'([^']*)'/.exec(message) ?? [];
  const meant = message
    .split("\n")
    .slice(1)
    .map((line) => line.replace(/^\((.*)\)$/, "$1"));
  const row = COMMANDS.find(({ words }) => `${typed.join(" ")} `.startsWith(`${words} `));
  if (code === "commander.missingArgument" && row !== undefined) return missing(row);
  if (code === "commander.optionMissingArgument") return new UsageError([needsValue(name)]);
  if (code === "commander.unknownOption") {
    const lines = [`${strayFlag(name, row)}; ${SEE_HELP}`, ...meant];
    try {
      readSettings(given, env, lines);
    } catch (error) {
      return error as Error;
    }
  }
  return new UsageError([notACommand(typed), ...(meant.length > 0 ? meant : meantElsewhere(typed))]);
}

/** A word that is none of its level, but one of another: `values` for `module values`, `module plan` for `plan`. */
function meantElsewhere([first = "", second = ""]: readonly string[]): string[] {
  const lastOf = ({ words }: Row): string => words.split(" ").at(-1) ?? "";
  const shown = COMMANDS.filter(({ isHidden }) => isHidden !== true);
  const word = nearest(Object.hasOwn(GROUPS, first) ? second : first, shown.map(lastOf));
  const meant = shown.filter((row) => lastOf(row) === word).map(({ words }) => words);
  return meant.length === 0 ? [] : [`Did you mean ${meant.join(" or ")}?`];
}

/** `flags` is that of an option: `-o, --output <FORMAT>`. */
function needsValue(flags: string): string {
  const long = /--[\w-]+/.exec(flags)?.[0] ?? flags;
  const setting = SETTINGS.find((each) => each.flags.includes(long.slice(2)));
  return `${long}: needs a value${setting === undefined ? "" : `: ${setting.accepted}`}`;
}

function strayFlag(given: string, row: Row | undefined): string {
  const [name = ""] = given.split("=");
  const has = ({ flags }: Flag): boolean => flags.split(/[ ,]+/).includes(name);
  if (row?.flags?.some(has) === true) return `${name}: takes no value`;
  const isKnown = COMMANDS.some(({ flags }) => flags?.some(has));
  return isKnown ? `${name}: no flag of "${row?.words ?? ""}"` : `${name}: unknown flag`;
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

/** The words of the command first, then everything else as it was. */
function arranged(args: readonly string[]): string[] {
  return withWords(spelled(args));
}

/** `-ha` → `--ha`; a boolean setting may stand alone, or have its value behind it. */
function spelled(args: readonly string[]): string[] {
  const out: string[] = [];
  const queue = [...args];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === "--") return [...out, arg, ...queue];
    const [, name = "", inline] = /^--?([^=]+)(=.*)?$/s.exec(arg) ?? [];
    out.push(NAMES.has(name) ? `--${name}${inline ?? valueBehind(name, queue)}` : arg);
  }
  return out;
}

/** `=true` of a boolean that stands alone; the value of any other setting stays where it is. */
function valueBehind(name: string, queue: string[]): string {
  if (!BOOLEANS.has(name)) return "";
  return `=${/^(true|false|yes|no)$/.test(queue[0] ?? "") ? queue.shift() : "true"}`;
}

function withWords(args: readonly string[]): string[] {
  const [first, ...rest] = args;
  if (first === "help") return withWords([...rest, "--help"]);
  if (first === "--version") return ["version"];
  if (first === undefined) return [DEFAULT_COMMAND];
  if (first.startsWith("-"))
    return args.every((arg) => HELP.has(arg)) ? [...args] : [DEFAULT_COMMAND, ...args];
  const left = SHORT.get(first);
  if (left !== undefined) return [left, ...args];
  const group = Object.hasOwn(GROUPS, first) ? GROUPS[first] : undefined;
  return group === undefined ? [...args] : [first, ...behindGroup(first, rest)];
}

/** Flags may stand before the second word, and the usual one may be left out. */
function behindGroup(group: string, args: readonly string[]): string[] {
  const [second] = args;
  if (second !== undefined && (!second.startsWith("-") || HELP.has(second))) return [...args];
  const known = COMMANDS.map(({ words }) => words.split(" ")).filter(([first]) => first === group);
  const place = args.findIndex((arg) => known.some(([, word]) => word === arg));
  const word = place < 0 ? GROUPS[group]?.usual : args[place];
  return word === undefined ? [...args] : [word, ...args.filter((_, at) => at !== place)];
}
