/** Runs the operator as a process: signals, uncaught errors, exit code. */

import type { Environment, ParsedSettings } from "./config.ts";
import { ApiError, ConnectionError } from "./kube/index.ts";
import {
  Failures,
  Scope,
  createLogger,
  formatDuration,
  createStdoutSink,
  oneLine,
  systemClock,
} from "./lib/index.ts";
import type { Logger, Timer } from "./lib/index.ts";
import { ProblemError, describeProblem } from "./model/index.ts";
import { ScratchError } from "./process/index.ts";
import type { StopRequest } from "./stop-signals.ts";
import { Operator } from "./wiring/operator.ts";

const REFUSED = 1;

/** Limit of an orderly stop after an uncaught error, in addition to the shutdown timeout. */
const LAST_RESORT_MS = 15_000;

/**
 * Runs the operator until a signal stops it or it loses its lease (exit code 0), or until it refuses to start (exit code
 * 1, one line per problem). An uncaught error stops it in order (exit code 1).
 */
export async function operate(
  { settings, warnings }: ParsedSettings,
  env: Environment,
  request: StopRequest,
): Promise<number> {
  const logger = createLogger(createStdoutSink(settings));
  for (const warning of warnings) logger.warn(warning);
  const scope = new Scope();
  const { stop } = request;
  let operator: Operator | undefined;
  request.onSignal((signal) => {
    const mayTake = formatDuration(settings.shutdownTimeoutMs);
    logger.info("Asked to stop", { signal, ...operator?.due(), mayTake });
    logEnd(logger);
  });
  scope.addRelease(() => request.end());
  const uncaught = watchUncaught(stop, {
    report: (error) => (operator?.failures ?? new Failures(logger)).report("uncaught", error),
    mayTakeMs: settings.shutdownTimeoutMs + LAST_RESORT_MS,
  });
  try {
    operator = new Operator({ settings, env, scope, stop });
    await operator.run();
    return uncaught.code();
  } catch (error) {
    if (stop.signal.aborted) return uncaught.code();
    report(error, (line) => logger.error(line));
    return REFUSED;
  } finally {
    await operator?.stop();
    await scope
      .close()
      .catch((error: unknown) => logger.warn("Stopping was not clean", { error: oneLine(error) }));
    uncaught.end();
    warnOfTimers((count) => logger.warn("Timers delay the exit", { count }));
  }
}

/** Logs the duration of the stop at process exit, so that everything counts. */
function logEnd(logger: Logger): void {
  const requestedAt = systemClock.monotonic();
  process.once("exit", () =>
    logger.info("Stopped", { ms: Math.round(systemClock.monotonic() - requestedAt) }),
  );
}

/** Warns of timers that are left after a stop: they delay the exit of the process. */
function warnOfTimers(report: (count: number) => void): void {
  const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout");
  if (timers.length > 0) report(timers.length);
}

function report(error: unknown, write: (line: string) => void): void {
  // The API server's refusals explain themselves; anything else is a bug and is logged with its stack.
  if (error instanceof ApiError || error instanceof ConnectionError)
    return write(`the API server: ${oneLine(error)}`);
  if (error instanceof ScratchError) return write(oneLine(error));
  if (!(error instanceof ProblemError)) throw error;
  for (const problem of error.problems) write(describeProblem(problem));
}

/**
 * Handles uncaught errors: logs them and stops the operator in order, or by force after `mayTakeMs`.
 */
function watchUncaught(
  stop: AbortController,
  { report, mayTakeMs }: { report: (error: unknown) => void; mayTakeMs: number },
): { code(): number; end(): void } {
  let force: Timer | undefined;
  const handle = (error: unknown): void => {
    report(error);
    force ??= systemClock.setTimer(mayTakeMs, () => process.exit(REFUSED));
    stop.abort(new Error("an internal error"));
  };
  process.on("uncaughtException", handle);
  process.on("unhandledRejection", handle);
  // The reader of the log has closed its end (EPIPE): continue without it.
  process.stdout.on("error", () => {});
  return {
    code: () => (force === undefined ? 0 : REFUSED),
    end() {
      process.off("uncaughtException", handle);
      process.off("unhandledRejection", handle);
      force?.cancel();
    },
  };
}
