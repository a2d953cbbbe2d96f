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
import { getFromSocket, type CommandLine, type Terminal } from "../table/row.ts";
import { paint, reportRefusal } from "./query.ts";
import { quickTimeout, parseObject, operatorClient, type SocketResponse } from "./socket.ts";

const CHECK_MS = 500;

interface RunsPage {
  readonly cursor: number;
  readonly runs: readonly RunView[];
}

/** One line of output with its time in ms since the epoch. */
interface LogEntry {
  readonly timeMs: number;
  readonly text: string;
}

/** Prints the runs that the operator retains; with `--follow` also new lines until interrupted. */
export async function printLogs(
  line: CommandLine,
  terminal: Terminal,
  clock: Clock = systemClock,
): Promise<number> {
  const [module] = line.args;
  const follows = line.flags["follow"] === true;
  const isJson = parseFormat(line) === "json";
  const query = operatorClient(line, terminal);
  const queryPath = (path: string): Promise<SocketResponse> => query(getFromSocket(path), quickTimeout());
  // Ids of runs whose start or end is printed.
  const printedStarts = new Set<string>();
  const printedEnds = new Set<string>();
  let cursor = 0;
  for (;;) {
    const answer = await queryPath(`/runs.json?${buildQuery(module, cursor)}`);
    if (answer.status >= 400) return reportRefusal(terminal, answer);
    const page = parseObject(answer.body) as RunsPage;
    if (isJson) for (const run of page.runs) terminal.print(`${JSON.stringify(run)}\n`);
    else
      for (const { text } of logEntries(page.runs, {
        cursor,
        printedStarts,
        printedEnds,
        terminal,
      }))
        terminal.print(`${text}\n`);
    if (!follows)
      return page.runs.length > 0 || module === undefined ? 0 : reportNoRuns(module, queryPath, terminal);
    cursor = page.cursor;
    await sleep(clock, CHECK_MS);
  }
}

/** The format of `-o`; default text. Throws UsageError. */
function parseFormat({ flags: { output = "text" } }: CommandLine): string {
  if (output === "text" || output === "json") return output;
  throw new UsageError([`-o: "${output}" is not accepted; use text or json`]);
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
  terminal.printError(
    `${module}: the operator has no record of a run. It keeps only the last runs since its start\n`,
  );
  return 0;
}

interface LogContext {
  readonly cursor: number;
  readonly printedStarts: Set<string>;
  readonly printedEnds: Set<string>;
  readonly terminal: Terminal;
}

/** The output for runs that was not printed before: their starts, log lines and ends, in order of time. */
function logEntries(
  runs: readonly RunView[],
  { cursor, printedStarts, printedEnds, terminal }: LogContext,
): LogEntry[] {
  const parts = runs.flatMap((run) => {
    const head = printedStarts.has(run.id)
      ? []
      : [{ timeMs: runStartMs(run), text: paint(terminal, "bold", startText(run)) }];
    printedStarts.add(run.id);
    const lines = (run.lines ?? [])
      .filter(({ n }) => n > cursor)
      .map(({ timeMs, ...entry }) => ({
        timeMs,
        text: formatEntryAsText({ ...entry, time: formatUtc(timeMs) }),
      }));
    // Later steps, such as a status update, may add lines after the end of a run.
    const end = printedEnds.has(run.id) ? [] : endEntry(run, terminal);
    if (end.length > 0) printedEnds.add(run.id);
    return [...head, ...lines, ...end];
  });
  return parts.toSorted((a, b) => a.timeMs - b.timeMs);
}

/** When a run started: at the end of the wait in its queue, with which the span of its task begins. */
function runStartMs({ task, spans }: RunView): number {
  return spans.find(({ kind }) => kind === "wait")?.endMs ?? task.startMs;
}

/** The line with which a run begins: its task and cause. */
function startText(run: RunView): string {
  const { task, from, dropped } = run;
  const droppedText = dropped === 0 ? "" : ` (${dropped} older lines were discarded)`;
  const { about = task.name } = task.attributes;
  const causeText = from.name === "due" ? "" : ` (${from.name})`;
  return escapeControlCharacters(`${formatUtc(runStartMs(run))} --- ${about}${causeText}${droppedText}`);
}

/** The line with the result and the duration of a run; none while it is running. */
function endEntry(run: RunView, terminal: Terminal): LogEntry[] {
  const { isOver, task } = run;
  if (!isOver || task.endMs === undefined) return [];
  const duration = formatDuration(Math.max(0, task.endMs - runStartMs(run)));
  const { interrupted } = task.attributes;
  const outcome = interrupted === undefined ? "ended well" : `interrupted: ${interrupted}`;
  const result = task.error === undefined ? outcome : `failed: ${task.error}`;
  const text = escapeControlCharacters(
    `${formatUtc(task.endMs)} --- ${task.name}: ${result} after ${duration}`,
  );
  return [{ timeMs: task.endMs, text: paint(terminal, task.error === undefined ? "green" : "red", text) }];
}
