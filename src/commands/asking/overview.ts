/** Commands that show all modules at a glance: `module list` on a terminal, and `status`. */

import { UsageError } from "../../config.ts";
import { sleep, systemClock, toYaml, visible, type Clock } from "../../lib/index.ts";
import type { Json } from "../../model/index.ts";
import type { Overview } from "../../status/index.ts";
import { get, type Line, type World } from "../table/row.ts";
import { CLEAR, askOperator, painted, tellRefusal } from "./ask.ts";
import { inTime, objectIn, operatorOf } from "./socket.ts";
import { modulesTable, statusText, type Look } from "./tables.ts";

const LOOK_MS = 1000;

type Drawing = (overview: Overview, look: Look) => string;

/** `module list`: a table for people, and what scripts read for everybody else. */
export async function listModules(line: Line, world: World, clock: Clock = systemClock): Promise<number> {
  const watches = line.flags["watch"] === true;
  if (line.flags["output"] !== undefined || (!world.isTerminal && !watches)) return askOperator(line, world);
  return show(line, world, { clock, draw: modulesTable, code: () => 0 });
}

/** `status`: what is wrong and why. The exit code is 0 where all enabled modules are Ready, 1 where one is not. */
export async function showStatus(line: Line, world: World, clock: Clock = systemClock): Promise<number> {
  return show(line, world, { clock, draw: statusText, code: codeOf });
}

/** 0 where all enabled modules are Ready. */
export function codeOf({ ready }: Overview): number {
  return ready === "True" ? 0 : 1;
}

function drawingIn({ flags: { output } }: Line, text: Drawing): Drawing {
  if (output === undefined || output === "text") return text;
  if (output === "json") return (overview) => `${JSON.stringify(overview)}\n`;
  if (output === "yaml") return (overview) => toYaml(overview as unknown as Json);
  throw new UsageError([`-o: "${output}" is not accepted; use text, yaml or json`]);
}

/** Where an overview comes from, and what is made of it. */
export interface Showing {
  readonly clock: Clock;
  readonly draw: Drawing;
  readonly code: (overview: Overview) => number;
  /** The exit code, where there is none, which has been told. */
  readonly fetch: () => Promise<Overview | number>;
}

async function show(line: Line, world: World, how: Omit<Showing, "fetch">): Promise<number> {
  const ask = operatorOf(line, world);
  const fetch = async (): Promise<Overview | number> => {
    const answer = await ask(get("/overview.json"), inTime());
    return answer.status < 400 ? (objectIn(answer.body) as Overview) : tellRefusal(world, answer);
  };
  return showAll(line, world, { ...how, fetch });
}

/** Once, or with `--watch` until it is interrupted: drawn anew on a terminal, elsewhere a line for each change. */
export async function showAll(
  line: Line,
  world: World,
  { clock, draw, code, fetch }: Showing,
): Promise<number> {
  const paint: Look["paint"] = (colour, text) => painted(world, colour, text);
  const drawn = drawingIn(line, draw);
  let before: ReadonlyMap<string, string> = new Map();
  for (;;) {
    const fetched = await fetch();
    if (typeof fetched === "number") return fetched;
    const overview = drawn === draw ? withVisibleTexts(fetched) : fetched;
    const look = { now: clock.now(), columns: world.columns, paint };
    if (line.flags["watch"] !== true) {
      world.print(drawn(overview, look));
      return code(overview);
    }
    if (world.isTerminal) world.print(`${CLEAR}${drawn(overview, look)}`);
    else before = tellChanges(overview, before, world);
    await sleep(clock, LOOK_MS);
  }
}

function withVisibleTexts(overview: Overview): Overview {
  const shown = (_key: string, value: unknown) => (typeof value === "string" ? visible(value) : value);
  return JSON.parse(JSON.stringify(overview), shown) as Overview;
}

function tellChanges(
  { state, message, modules }: Overview,
  before: ReadonlyMap<string, string>,
  { print }: World,
): ReadonlyMap<string, string> {
  const lines = new Map([
    ["", `${state}: ${message}`],
    ...modules.map((row): [string, string] => [row.name, `${row.name}: ${row.state}: ${row.message}`]),
  ]);
  for (const [name, text] of lines) if (before.get(name) !== text) print(`${text}\n`);
  return lines;
}
