/** What may stand next on a command line, for completion in shells. */

import { SETTINGS } from "../../settings.ts";
import type { Overview } from "../../status/index.ts";
import { COMMANDS } from "../table/commands.ts";
import { get, type Line, type Row, type World } from "../table/row.ts";
import { operatorOf } from "./socket.ts";

/** In bash a completed word becomes part of the line as it is: no other name gets there. */
const NAME = /^[\w.-]+$/;
/** An operator that answers no sooner is left out: somebody waits with a finger on the key. */
const PATIENCE_MS = 1000;

const SCRIPTS = {
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
} as const;

type Shell = keyof typeof SCRIPTS;

/** `completion SHELL`: what that shell has to read. */
export function scriptFor(shell: string): string | undefined {
  return Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell as Shell] : undefined;
}

/** Prints what may stand in the place of the last word, one on a line; nothing where that is for the shell to know. */
export async function complete(line: Line, world: World): Promise<number> {
  const found = await candidates(line.args, () => namesOfModules(line, world));
  world.print(found.map((each) => `${each}\n`).join(""));
  return 0;
}

/** `words` are those behind the program; the last one is being typed, and may be empty. */
export async function candidates(
  words: readonly string[],
  modules: () => Promise<readonly string[]>,
): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const found = await all(
    { before: before.filter((word) => !word.startsWith("-")), last: before.at(-1), typed },
    modules,
  );
  return [...new Set(found)].filter((each) => each.startsWith(typed)).toSorted();
}

interface Place {
  /** Words before it, without flags. */
  readonly before: readonly string[];
  readonly last: string | undefined;
  readonly typed: string;
}

async function all(
  { before, last = "", typed }: Place,
  modules: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const row = rowAt(before);
  const values = row && valuesOf(row, last);
  if (values !== undefined) return values;
  if (typed.startsWith("-")) return flagsOf(row);
  if (row === undefined) return wordsBehind(before);
  return argument(row, before.length - row.words.split(" ").length, modules);
}

const SHOWN = COMMANDS.filter(({ isHidden }) => isHidden !== true);

function rowAt([first = "", second = ""]: readonly string[]): Row | undefined {
  return SHOWN.find(({ words }) => words === first || words === `${first} ${second}`);
}

/** Words of commands that begin with these. */
function wordsBehind(before: readonly string[]): string[] {
  const begun = SHOWN.map(({ words }) => words.split(" ")).filter((words) =>
    before.every((word, place) => words[place] === word),
  );
  return begun.flatMap((words) => words[before.length] ?? []);
}

/** The values of the flag that stands before, where they are known. */
function valuesOf({ flags = [] }: Row, flag: string): readonly string[] | undefined {
  return flags.find((each) => each.flags.split(/[ ,]+/).includes(flag))?.values;
}

function flagsOf(row: Row | undefined): string[] {
  const own = (row?.flags ?? []).flatMap(({ flags }) => flags.match(/--[\w-]+/g) ?? []);
  return [...own, "--help", ...SETTINGS.map(({ flags }) => `--${flags[0]}`)];
}

function argument(
  row: Row,
  place: number,
  modules: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const name = row.args?.split(" ")[place]?.replaceAll(/[[\]]/g, "") ?? "";
  if (name === "SHELL") return Promise.resolve(Object.keys(SCRIPTS));
  const isAnother = row.words.startsWith("new ") || row.words.startsWith("config ");
  return name === "NAME" && !isAnother ? modules() : Promise.resolve([]);
}

/** Names that the running operator knows; none where none answers in time. */
async function namesOfModules(line: Line, world: World): Promise<readonly string[]> {
  try {
    const ask = operatorOf(line, world);
    const { status, body } = await ask(get("/overview.json"), AbortSignal.timeout(PATIENCE_MS));
    return status < 400
      ? (JSON.parse(body) as Overview).modules.map(({ name }) => name).filter((name) => NAME.test(name))
      : [];
  } catch {
    return [];
  }
}
