/** Reads a command line by the table of commands and the table of settings. */

import { Argument, Command, CommanderError, Option } from "commander";

import { UsageError, readSettings, type Environment, type GivenSettings } from "../../config.ts";
import { IGNORED_SETTINGS, SETTINGS, type SettingRow } from "../../settings.ts";
import { arranged } from "./arrange.ts";
import { PROGRAM, helpOf, usageOf } from "./help.ts";
import type { Flag, Line, Row } from "../table/row.ts";
import { COMMANDS, GROUPS } from "../table/commands.ts";

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
  return new UsageError([notACommand(typed), ...meant]);
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
