/** Commands that ask a running operator: the answer is printed, in colours on a terminal, and again and again where that is asked for. */

import { UsageError } from "../../config.ts";
import { parseYaml, sleep, systemClock, visible } from "../../lib/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { VERSION } from "../../version.ts";
import { NoOperatorError, type Call, type Line, type World } from "../table/row.ts";
import { operatorOf, type Answer } from "./socket.ts";

const REFUSED = 1;
/** Of `module diff`, where there is a difference. */
const DIFFERS = 10;
const WATCH_MS = 1000;
const ITS_OWN =
  "An operator runs and was asked: its directories and namespace count, not those of this line (--debug-unix-socket chooses another one, or none)\n";

/** What the operator says, again with each call; undefined when it refuses, which is told. */
function askerOf(line: Line, world: World): () => Promise<string | undefined> {
  const ask = operatorOf(line, world);
  const call = callIn(line);
  return async () => {
    const answer = await ask(call);
    if (answer.status < 400) return answer.body;
    if (line.row.words === "raw") world.complain(visible(answer.body));
    else tellRefusal(world, answer);
    return undefined;
  };
}

/** Tells on stderr what the operator says against it; returns the exit code. */
export function tellRefusal({ complain }: World, answer: Answer): number {
  complain(visible(refusalOf(answer)));
  return REFUSED;
}

/** What the operator says against it. One that does not know the path of a command is older than this program. */
export function refusalOf({ status, body }: Answer): string {
  if (status !== 404) return body;
  return `${body}The running operator may be older than this command (${VERSION}): use its own program\n`;
}

function callIn(line: Line): Call {
  const call = line.row.call?.(line);
  if (call === undefined) throw new UsageError([`${line.row.words}: asks nothing`]);
  return call;
}

/** Prints the answer; with `--watch` again each second, on a terminal in the same place, until it is interrupted. */
export async function askOperator(line: Line, world: World): Promise<number> {
  const watches = line.flags["watch"] === true;
  const ask = askerOf(line, world);
  for (;;) {
    const body = await ask();
    if (body === undefined) return REFUSED;
    const shown = world.isTerminal || callIn(line).path.includes(".text") ? visible(body) : body;
    world.print(`${watches && world.isTerminal ? CLEAR : ""}${shown}`);
    if (!watches) return 0;
    await sleep(systemClock, WATCH_MS);
  }
}

/** `module diff`: its exit code tells whether there is a difference, and 1 that this is not known. */
export async function askForDiff(line: Line, world: World): Promise<number> {
  const body = await askerOf(line, world)();
  if (body === undefined) return REFUSED;
  world.print(body === "" ? "No differences\n" : inColour(visible(body), world));
  if (body === "") return 0;
  return /^# .*: cannot be compared: /m.test(body) ? REFUSED : DIFFERS;
}

/** Names bold, what goes red, what comes green. */
function inColour(text: string, world: World): string {
  const colours = { "#": "bold", "-": "red", "+": "green" } as const;
  const paint = (line: string): string => {
    const colour = colours[line.charAt(0) as keyof typeof colours];
    return colour === undefined ? line : painted(world, colour, line);
  };
  return text.split("\n").map(paint).join("\n");
}

/** `plan` does the work itself where no operator runs; one that runs plans by its own settings, which is told. */
export async function askForPlan(line: Line, world: World): Promise<number> {
  try {
    const plan = await askerOf(line, world)();
    if (plan === undefined) return REFUSED;
    world.print(world.isTerminal ? visible(plan) : plan);
    const { modulesDir, globalHooksDir, namespace } = line.settings({}).settings;
    if ([modulesDir, globalHooksDir, namespace].some((each) => each !== undefined)) world.complain(ITS_OWN);
    return codeOf(plan);
  } catch (error) {
    if (!(error instanceof NoOperatorError)) throw error;
    const { planAlone } = await import("../../wiring/base.ts");
    const isJson = callIn(line).path.endsWith(".json");
    const plan = await planAlone(line.settings(world.env).settings, world.env, isJson ? "json" : "yaml");
    world.print(plan);
    return codeOf(plan);
  }
}

/** 1 where a start would be refused: then a plan, YAML or JSON, says nothing else. */
function codeOf(plan: string): number {
  const { value } = parseYaml(plan, "plan");
  return isJsonObject(value) && value["refuses"] !== undefined ? REFUSED : 0;
}

/** Cursor home, clear the rest of the screen. */
export const CLEAR = "\u001b[H\u001b[J";

const CODES = { bold: 1, red: 31, green: 32, yellow: 33, grey: 90 } as const;

export type Colour = keyof typeof CODES;

/** A text in a colour: on terminals, unless NO_COLOR is set. */
export function painted(
  { isTerminal, env }: Pick<World, "isTerminal" | "env">,
  colour: Colour,
  text: string,
): string {
  return isTerminal && !env["NO_COLOR"] ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}
