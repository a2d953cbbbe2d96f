/** The command `logs`: what the last runs of a module have logged, and what the next ones do. */

import { UsageError } from "../../config.ts";
import { formatDuration, logText, sleep, systemClock, visible, type Clock } from "../../lib/index.ts";
import type { RunView } from "../../trace/index.ts";
import { get, type Line, type World } from "../table/row.ts";
import { painted, tellRefusal } from "./ask.ts";
import { inTime, objectIn, operatorOf, type Answer } from "./socket.ts";

const LOOK_MS = 500;

interface Shown {
  readonly cursor: number;
  readonly runs: readonly RunView[];
}

/** One line of output, and what puts it into order. */
interface Told {
  readonly at: number;
  readonly text: string;
}

/** Prints the runs that are kept; with `--follow` what comes, too, until it is interrupted. */
export async function showLogs(line: Line, world: World, clock: Clock = systemClock): Promise<number> {
  const [module] = line.args;
  const follows = line.flags["follow"] === true;
  const isJson = formatIn(line) === "json";
  const operator = operatorOf(line, world);
  const ask = (path: string): Promise<Answer> => operator(get(path), inTime());
  const [begun, ended] = [new Set<string>(), new Set<string>()];
  let cursor = 0;
  for (;;) {
    const answer = await ask(`/runs.json?${query(module, cursor)}`);
    if (answer.status >= 400) return tellRefusal(world, answer);
    const shown = objectIn(answer.body) as Shown;
    if (isJson) for (const run of shown.runs) world.print(`${JSON.stringify(run)}\n`);
    else for (const { text } of told(shown.runs, { cursor, begun, ended, world })) world.print(`${text}\n`);
    if (!follows) return shown.runs.length > 0 || module === undefined ? 0 : nothingOf(module, ask, world);
    cursor = shown.cursor;
    await sleep(clock, LOOK_MS);
  }
}

function formatIn({ flags: { output = "text" } }: Line): string {
  if (output === "text" || output === "json") return output;
  throw new UsageError([`-o: "${output}" is not accepted; use text or json`]);
}

function query(module: string | undefined, since: number): string {
  const of = module === undefined ? {} : { module };
  return new URLSearchParams({ ...of, since: String(since), lines: "true" }).toString();
}

/** There is no run: is there such a module? */
async function nothingOf(
  module: string,
  ask: (path: string) => Promise<Answer>,
  world: World,
): Promise<number> {
  const answer = await ask(`/module/${encodeURIComponent(module)}/status.json`);
  if (answer.status >= 400) return tellRefusal(world, answer);
  world.complain(`${module}: no run is kept; only the last ones since the operator's start are\n`);
  return 0;
}

interface Telling {
  readonly cursor: number;
  readonly begun: Set<string>;
  readonly ended: Set<string>;
  readonly world: World;
}

/** Beginnings, lines and ends that were not told before, by the clock. */
function told(runs: readonly RunView[], { cursor, begun, ended, world }: Telling): Told[] {
  const parts = runs.flatMap((run) => {
    const head = begun.has(run.id)
      ? []
      : [{ at: run.task.startMs, text: painted(world, "bold", headOf(run)) }];
    begun.add(run.id);
    const lines = (run.lines ?? [])
      .filter(({ n }) => n > cursor)
      .map(({ timeMs, ...entry }) => ({ at: timeMs, text: logText({ ...entry, time: timeOf(timeMs) }) }));
    // What follows from a run, such as a status, may be added when it has ended.
    const end = ended.has(run.id) ? [] : endOf(run, world);
    if (end.length > 0) ended.add(run.id);
    return [...head, ...lines, ...end];
  });
  return parts.toSorted((a, b) => a.at - b.at);
}

function headOf({ task, from, dropped }: RunView): string {
  const missing = dropped === 0 ? "" : ` (${dropped} older lines are not kept)`;
  const { about = task.name } = task.attributes;
  const because = from.name === "owed" ? "" : ` (${from.name})`;
  return visible(`${timeOf(task.startMs)} --- ${about}${because}${missing}`);
}

function endOf({ isOver, task }: RunView, world: World): Told[] {
  if (!isOver || task.endMs === undefined) return [];
  const took = formatDuration(task.endMs - task.startMs);
  const how = task.error === undefined ? "ended well" : `failed: ${task.error}`;
  const text = visible(`${timeOf(task.endMs)} --- ${task.name}: ${how} after ${took}`);
  return [{ at: task.endMs, text: painted(world, task.error === undefined ? "green" : "red", text) }];
}

/** UTC, as the log has it. */
function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
