/** The command `logs`: the log lines of the last runs, and with `--follow` of the next ones. */

import { UsageError } from "../../config.ts";
import {
  formatDuration,
  formatUtc,
  formatEntryAsText,
  sleep,
  systemClock,
  escapeControlCharacters,
  type Clock,
} from "../../lib/index.ts";
import type { RunView } from "../../trace/index.ts";
import { debugRequest, type Line, type Terminal } from "../table/row.ts";
import { paint, reportRefusal } from "./query.ts";
import { requestTimeout, parseObject, operatorClient, type SocketResponse } from "./socket.ts";

const CHECK_MS = 500;

interface RunsPage {
  readonly cursor: number;
  readonly runs: readonly RunView[];
}

/** One line of output with its time in ms since the epoch. */
interface LogEntry {
  readonly at: number;
  readonly text: string;
}

/** Prints the retained runs; with `--follow` also new lines until it is interrupted. */
export async function showLogs(line: Line, terminal: Terminal, clock: Clock = systemClock): Promise<number> {
  const [module] = line.args;
  const follows = line.flags["follow"] === true;
  const isJson = formatOf(line) === "json";
  const operator = operatorClient(line, terminal);
  const ask = (path: string): Promise<SocketResponse> => operator(debugRequest(path), requestTimeout());
  const [begun, ended] = [new Set<string>(), new Set<string>()];
  let cursor = 0;
  for (;;) {
    const answer = await ask(`/runs.json?${query(module, cursor)}`);
    if (answer.status >= 400) return reportRefusal(terminal, answer);
    const answered = parseObject(answer.body) as RunsPage;
    if (isJson) for (const run of answered.runs) terminal.print(`${JSON.stringify(run)}\n`);
    else
      for (const { text } of logEntries(answered.runs, { cursor, begun, ended, terminal }))
        terminal.print(`${text}\n`);
    if (!follows)
      return answered.runs.length > 0 || module === undefined ? 0 : reportNoRuns(module, ask, terminal);
    cursor = answered.cursor;
    await sleep(clock, CHECK_MS);
  }
}

function formatOf({ flags: { output = "text" } }: Line): string {
  if (output === "text" || output === "json") return output;
  throw new UsageError([`-o: "${output}" is not accepted; use text or json`]);
}

function query(module: string | undefined, since: number): string {
  const moduleFilter = module === undefined ? {} : { module };
  return new URLSearchParams({ ...moduleFilter, since: String(since), lines: "true" }).toString();
}

/** Distinguishes a module without runs from an unknown module. */
async function reportNoRuns(
  module: string,
  ask: (path: string) => Promise<SocketResponse>,
  terminal: Terminal,
): Promise<number> {
  const answer = await ask(`/module/${encodeURIComponent(module)}/status.json`);
  if (answer.status >= 400) return reportRefusal(terminal, answer);
  terminal.printError(
    `${module}: the operator has no record of a run. It keeps only the last runs since its start\n`,
  );
  return 0;
}

interface LogContext {
  readonly cursor: number;
  readonly begun: Set<string>;
  readonly ended: Set<string>;
  readonly terminal: Terminal;
}

/** Starts, log lines and ends that were not printed before, in order of time. */
function logEntries(runs: readonly RunView[], { cursor, begun, ended, terminal }: LogContext): LogEntry[] {
  const parts = runs.flatMap((run) => {
    const head = begun.has(run.id)
      ? []
      : [{ at: startedAt(run), text: paint(terminal, "bold", headLine(run)) }];
    begun.add(run.id);
    const lines = (run.lines ?? [])
      .filter(({ n }) => n > cursor)
      .map(({ timeMs, ...entry }) => ({
        at: timeMs,
        text: formatEntryAsText({ ...entry, time: formatUtc(timeMs) }),
      }));
    // Later steps, such as a status update, may add lines after the end of a run.
    const end = ended.has(run.id) ? [] : endLine(run, terminal);
    if (end.length > 0) ended.add(run.id);
    return [...head, ...lines, ...end];
  });
  return parts.toSorted((a, b) => a.at - b.at);
}

/** When a run started: its task starts with the wait in its queue. */
function startedAt({ task, spans }: RunView): number {
  return spans.find(({ kind }) => kind === "wait")?.endMs ?? task.startMs;
}

/** The line with which a run begins: its task and cause. */
function headLine(run: RunView): string {
  const { task, from, dropped } = run;
  const missing = dropped === 0 ? "" : ` (${dropped} older lines were discarded)`;
  const { about = task.name } = task.attributes;
  const because = from.name === "due" ? "" : ` (${from.name})`;
  return escapeControlCharacters(`${formatUtc(startedAt(run))} --- ${about}${because}${missing}`);
}

/** The line with the result and the duration of a run; none while it is running. */
function endLine(run: RunView, terminal: Terminal): LogEntry[] {
  const { isOver, task } = run;
  if (!isOver || task.endMs === undefined) return [];
  const took = formatDuration(Math.max(0, task.endMs - startedAt(run)));
  const { interrupted } = task.attributes;
  const ended = interrupted === undefined ? "ended well" : `interrupted: ${interrupted}`;
  const how = task.error === undefined ? ended : `failed: ${task.error}`;
  const text = escapeControlCharacters(`${formatUtc(task.endMs)} --- ${task.name}: ${how} after ${took}`);
  return [{ at: task.endMs, text: paint(terminal, task.error === undefined ? "green" : "red", text) }];
}
