/** The command `logs`: the log lines of the last runs (executed tasks, such as runs of modules and hooks), and with `--follow` of the next ones. */

import {
  formatDuration,
  formatUtc,
  formatEntryAsText,
  sleep,
  systemClock,
  escapeControlCharacters,
  type Clock,
} from "../../../base/index.ts";
import type { RunView } from "../../../base/trace/index.ts";
import { getFromSocket, selectsJson, type CommandLine, type Terminal } from "../table/row.ts";
import { paint, reportRefusal } from "./query.ts";
import { quickTimeout, parseObject, operatorClient, type SocketResponse } from "./socket.ts";

const CHECK_MS = 500;

/** Runs with log lines that are newer than the cursor of the request, and the cursor for the next request. */
interface RunsPage {
  readonly cursor: number;
  readonly runs: readonly RunView[];
}

/** One line of output with its time in ms since the epoch. */
interface LogEntry {
  readonly timeMs: number;
  readonly text: string;
}

/** Prints the runs that the operator retains, of one module or of all; with `--follow` also new lines until interrupted. Returns the exit code. */
export async function printLogs(
  line: CommandLine,
  terminal: Terminal,
  clock: Clock = systemClock,
): Promise<number> {
  const [module] = line.args;
  const follows = line.flags.follow === true;
  const isJson = selectsJson(line);
  const query = operatorClient(line, terminal);
  const queryPath = (path: string): Promise<SocketResponse> => query(getFromSocket(path), quickTimeout());
  const printed: PrintedRuns = { starts: new Set(), ends: new Set() };
  // The operator numbers all lines: the cursor is the number of the last printed one.
  let cursor = 0;
  for (;;) {
    const answer = await queryPath(`/runs.json?${buildQuery(module, cursor)}`);
    if (answer.status >= 400) return reportRefusal(terminal, answer);
    const page = parseObject(answer.body) as RunsPage;
    const texts = isJson
      ? page.runs.map((run) => JSON.stringify(run))
      : takeNewEntries(page.runs, { cursor, printed, terminal }).map(({ text }) => text);
    for (const text of texts) terminal.print(`${text}\n`);
    if (!follows && page.runs.length === 0 && module !== undefined)
      return reportNoRuns(module, queryPath, terminal);
    if (!follows) return 0;
    cursor = page.cursor;
    await sleep(clock, CHECK_MS);
  }
}

/** The query for runs with log lines that are newer than the cursor `since`. */
function buildQuery(module: string | undefined, since: number): string {
  const moduleFilter = module === undefined ? {} : { module };
  return new URLSearchParams({ ...moduleFilter, since: String(since), lines: "true" }).toString();
}

/** Reports that there are no runs of a module: an error if the module is unknown, otherwise a note. Returns the exit code. */
async function reportNoRuns(
  module: string,
  queryPath: (path: string) => Promise<SocketResponse>,
  terminal: Terminal,
): Promise<number> {
  const answer = await queryPath(`/module/${encodeURIComponent(module)}/status.json`);
  if (answer.status >= 400) return reportRefusal(terminal, answer);
  const message = "the operator has no record of a run. It keeps only the last runs since its start";
  terminal.printError(`${module}: ${message}\n`);
  return 0;
}

/** Ids of runs whose start or end is printed. */
interface PrintedRuns {
  readonly starts: Set<string>;
  readonly ends: Set<string>;
}

interface LogContext {
  readonly cursor: number;
  readonly printed: PrintedRuns;
  readonly terminal: Terminal;
}

/**
 * Builds the output for runs that was not printed before: their starts, log lines and ends, in order of time. Marks starts and
 * ends as printed, because `--follow` gets a run again while it has new lines.
 */
function takeNewEntries(runs: readonly RunView[], { cursor, printed, terminal }: LogContext): LogEntry[] {
  const entries: LogEntry[] = [];
  for (const run of runs) {
    if (!printed.starts.has(run.id))
      entries.push({ timeMs: runStartMs(run), text: paint(terminal, "bold", startText(run)) });
    printed.starts.add(run.id);
    for (const { timeMs, ...line } of run.lines ?? []) {
      if (line.n <= cursor) continue;
      entries.push({ timeMs, text: formatEntryAsText({ ...line, time: formatUtc(timeMs) }) });
    }
    // Later steps, such as a status update, may add lines after the end of a run.
    const lastEntry = printed.ends.has(run.id) ? undefined : endEntry(run, terminal);
    if (lastEntry === undefined) continue;
    entries.push(lastEntry);
    printed.ends.add(run.id);
  }
  return entries.toSorted((a, b) => a.timeMs - b.timeMs);
}

/** When a run started: at the end of the wait in its queue, with which the span of its task begins. */
function runStartMs({ task, spans }: RunView): number {
  return spans.find(({ kind }) => kind === "wait")?.endMs ?? task.startMs;
}

/** The line with which a run begins: its task and cause. The task is described by the attribute `about` of its span, else by its name. */
function startText(run: RunView): string {
  const { task, from: cause, dropped } = run;
  const droppedText = dropped === 0 ? "" : ` (the operator discarded ${dropped} older lines)`;
  const { about = task.name } = task.attributes;
  // Tasks whose cause is no traced event, such as those of a timer, have the cause `due`, which says nothing.
  const causeText = cause.name === "due" ? "" : ` (${cause.name})`;
  return escapeControlCharacters(`${formatUtc(runStartMs(run))} --- ${about}${causeText}${droppedText}`);
}

/** The line with the result and the duration of a run; undefined while it is running. */
function endEntry(run: RunView, terminal: Terminal): LogEntry | undefined {
  const { isOver, task } = run;
  if (!isOver || task.endMs === undefined) return undefined;
  const duration = formatDuration(Math.max(0, task.endMs - runStartMs(run)));
  const { interrupted } = task.attributes;
  const outcomeWithoutError = interrupted === undefined ? "succeeded" : `interrupted: ${interrupted}`;
  const result = task.error === undefined ? outcomeWithoutError : `failed: ${task.error}`;
  const text = `${formatUtc(task.endMs)} --- ${task.name}: ${result} after ${duration}`;
  const colour = task.error === undefined ? "green" : "red";
  return { timeMs: task.endMs, text: paint(terminal, colour, escapeControlCharacters(text)) };
}
