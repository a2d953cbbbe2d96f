/** The commands `wait` and `kubectl addon wait`: wait until a module is Ready or Healthy (docs/reference/commands.md). */

import { UsageError } from "../../../config/settings/index.ts";
import {
  formatDuration,
  parseDuration,
  sleep,
  systemClock,
  escapeControlCharacters,
  type Clock,
} from "../../../base/index.ts";
import { STALLED, type OverviewRow } from "../../../report/index.ts";
import { getFromSocket, selectsJson, type CommandLine, type Terminal } from "../table/row.ts";
import { refusalMessage } from "./query.ts";
import { quickTimeout, parseObject, operatorClient } from "./socket.ts";

const CHECK_MS = 250;
const DEFAULT_TIMEOUT_MS = 300_000;
/** The states from which a module cannot recover by itself. */
const STALLED_STATES: ReadonlySet<string> = new Set(STALLED);
/** How long a module may be Stalled: the operator may not have processed the latest edit yet. */
const STALLED_MS = 5000;

type ModuleStatus = Pick<OverviewRow, "state" | "message" | "ready" | "healthy" | "usualSeconds">;

export interface WaitOptions {
  readonly clock: Clock;
  /** The status of a module, or why it is unknown. */
  readonly readStatus: (module: string) => Promise<ModuleStatus | { readonly refusal: string }>;
}

/** The command `wait`, by queries to the running operator. Returns the exit code. Throws UsageError, and NoOperatorError if none listens. */
export function waitForModule(
  line: CommandLine,
  terminal: Terminal,
  clock: Clock = systemClock,
): Promise<number> {
  const query = operatorClient(line, terminal);
  return printUntilCondition(line, terminal, {
    clock,
    readStatus: async (module) => {
      const request = getFromSocket(`/module/${encodeURIComponent(module)}/status.json`);
      const answer = await query(request, quickTimeout());
      if (answer.status >= 400) return { refusal: refusalMessage(answer) };
      return parseObject(answer.body) as ModuleStatus;
    },
  });
}

/** Prints each change of the module's state until the condition is True (exit code 0), the timeout ends (1) or it is Stalled for five seconds (1). */
export async function printUntilCondition(
  line: CommandLine,
  terminal: Terminal,
  { clock, readStatus }: WaitOptions,
): Promise<number> {
  const { module, condition, timeoutMs } = parseWaitRequest(line);
  const isJson = selectsJson(line);
  const deadline = clock.monotonic() + timeoutMs;
  // In JSON, the standard output has only the states.
  const printText = isJson ? terminal.printError : terminal.print;
  const report = (text: string): void => printText(`${escapeControlCharacters(text)}\n`);
  const reportUsual = isJson ? () => {} : usualTimeReporter(module, report);
  let lastText = "";
  let notStalledAt = clock.monotonic();
  for (;;) {
    const status = await readStatus(module);
    if ("refusal" in status) return fail(report, status.refusal.trim());
    const text = `${module}: ${status.state}: ${status.message}`;
    if (text !== lastText && isJson) terminal.print(`${JSON.stringify({ module, ...status })}\n`);
    else if (text !== lastText) report(text);
    lastText = text;
    reportUsual(status);
    if (status[condition] === "True") return 0;
    if (!STALLED_STATES.has(status.state)) notStalledAt = clock.monotonic();
    if (clock.monotonic() - notStalledAt >= STALLED_MS)
      return fail(report, `${module}: the module cannot recover by itself. Fix the cause in the message`);
    if (clock.monotonic() >= deadline) return fail(report, `${module}: not ${condition} within the timeout`);
    await sleep(clock, CHECK_MS);
  }
}

/** Returns a function that, called with each status, reports once how long a run usually takes: when it first sees a run. */
function usualTimeReporter(module: string, report: (text: string) => void): (status: ModuleStatus) => void {
  let isReported = false;
  return ({ state, usualSeconds }) => {
    if (isReported || state !== "Running" || usualSeconds === undefined) return;
    isReported = true;
    report(`${module}: a run usually takes ${formatDuration(usualSeconds * 1000)}`);
  };
}

/** Reports a text and returns the exit code of a failure. */
function fail(report: (text: string) => void, text: string): number {
  report(text);
  return 1;
}

/** Reads module, condition and timeout from the command line. Throws UsageError. */
function parseWaitRequest({ args, flags }: CommandLine) {
  const [module = ""] = args;
  const { for: condition = "ready", timeout } = flags;
  if (condition !== "ready" && condition !== "healthy")
    throw new UsageError([`--for: "${condition}" is not accepted; use ready or healthy`]);
  const timeoutMs = timeout === undefined ? DEFAULT_TIMEOUT_MS : parseDuration(timeout);
  if (timeoutMs === undefined || timeoutMs < 0)
    throw new UsageError([`--timeout: "${timeout}" is not accepted; use a duration such as 90s or 5m`]);
  return { module, condition, timeoutMs } as const;
}
