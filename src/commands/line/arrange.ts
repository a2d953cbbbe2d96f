/** Puts a command line into the order and the spelling that the parser knows: what was accepted once still is. */

import { SETTINGS, IGNORED_SETTINGS } from "../../settings.ts";
import { COMMANDS, DEFAULT_COMMAND, GROUPS } from "../table/commands.ts";

const HELP = new Set(["--help", "-h"]);
const BOOLEANS = new Set(SETTINGS.filter(({ kind }) => kind === "boolean").flatMap(({ flags }) => flags));
const NAMES = new Set([...SETTINGS.flatMap(({ flags }) => flags), ...IGNORED_SETTINGS]);

/** The words of the command first, then everything else as it was. */
export function arranged(args: readonly string[]): string[] {
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
  if (first === "help") return [...rest, "--help"];
  if (first === "--version") return ["version"];
  if (first === undefined) return [DEFAULT_COMMAND];
  if (first.startsWith("-"))
    return args.every((arg) => HELP.has(arg)) ? [...args] : [DEFAULT_COMMAND, ...args];
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
