/** Runs the operator as a process: signals, uncaught errors, exit code. */

import type { Environment, ParsedSettings } from "../config/settings/index.ts";
import { ApiError, ConnectionError } from "../kube/index.ts";
import {
  Failures,
  Scope,
  createLogger,
  formatDuration,
  createStdoutSink,
  oneLine,
  systemClock,
  Timers,
} from "../base/index.ts";
import type { Logger } from "../base/index.ts";
import { ProblemError, describeProblem } from "../base/model/index.ts";
import { ScratchError } from "../base/process/index.ts";
import type { StopRequest } from "./stop-signals.ts";
import { setV8Flags } from "./v8-flags.ts";
import { Operator } from "./wiring/operator.ts";

const EXIT_REFUSED = 1;

/** Time for an orderly stop after an uncaught error, in addition to the shutdown timeout; then the process exits by force. */
const EXTRA_STOP_MS = 15_000;

/**
 * Runs the operator until a signal stops it or it loses its lease (exit code 0), or until it refuses to start (exit code
 * 1, one line per problem). An uncaught error stops it in order (exit code 1).
 */
export async function runOperator(
  { settings, warnings, refusals }: ParsedSettings,
  env: Environment,
  stopRequest: StopRequest,
): Promise<number> {
  setV8Flags();
  const logger = createLogger(createStdoutSink(settings));
  for (const warning of warnings) logger.warn(warning);
  for (const refusal of refusals) logger.error(refusal);
  if (refusals.length > 0) return EXIT_REFUSED;
  const scope = new Scope();
  const { abortController } = stopRequest;
  let operator: Operator | undefined;
  stopRequest.onSignal((signal) => {
    const mayTake = formatDuration(settings.shutdownTimeoutMs);
    logger.info("Asked to stop", { signal, ...operator?.pendingWork(), mayTake });
    logStopDuration(logger);
  });
  scope.addRelease(() => stopRequest.removeHandlers());
  const uncaughtErrors = handleUncaughtErrors(abortController, {
    report: (error) => (operator?.failures ?? new Failures(logger)).report("uncaught", error),
    mayTakeMs: settings.shutdownTimeoutMs + EXTRA_STOP_MS,
  });
  try {
    operator = new Operator({ settings, env, scope, stop: abortController });
    await operator.run();
    return uncaughtErrors.exitCode();
  } catch (error) {
    // A stop request makes a start fail, too.
    if (abortController.signal.aborted) return uncaughtErrors.exitCode();
    logStartError(error, logger);
    return EXIT_REFUSED;
  } finally {
    await operator?.stop();
    await scope
      .close()
      .catch((error: unknown) => logger.warn("Stopping was not clean", { error: oneLine(error) }));
    uncaughtErrors.removeHandlers();
    warnOfLeftTimers(logger);
  }
}

/** Called when a stop is requested: at process exit, logs how long the stop took. */
function logStopDuration(logger: Logger): void {
  const requestedAt = systemClock.monotonic();
  process.once("exit", () =>
    logger.info("Stopped", { ms: Math.round(systemClock.monotonic() - requestedAt) }),
  );
}

/** Warns of timers that are left after a stop: they delay the exit of the process. */
function warnOfLeftTimers(logger: Logger): void {
  const { length: count } = process.getActiveResourcesInfo().filter((name) => name === "Timeout");
  if (count > 0) logger.warn("Timers delay the exit", { count });
}

/** Logs why the operator refuses to start, one line for each problem. Throws an unexpected error again, for its stack. */
function logStartError(error: unknown, logger: Logger): void {
  if (error instanceof ApiError || error instanceof ConnectionError)
    return logger.error(`the API server: ${oneLine(error)}`);
  if (error instanceof ScratchError) return logger.error(oneLine(error));
  if (!(error instanceof ProblemError)) throw error;
  for (const problem of error.problems) logger.error(describeProblem(problem));
}

/**
 * Installs handlers for uncaught errors: the first one stops the operator in order through `abortController`, and the
 * process exits by force if the stop takes longer than `mayTakeMs`. `exitCode()` returns 0 while no error has occurred.
 */
function handleUncaughtErrors(
  abortController: AbortController,
  { report, mayTakeMs }: { report: (error: unknown) => void; mayTakeMs: number },
): { exitCode(): number; removeHandlers(): void } {
  const timers = new Timers<"exit">(systemClock);
  let exitCode = 0;
  const handle = (error: unknown): void => {
    report(error);
    exitCode = EXIT_REFUSED;
    timers.setUnlessRunning("exit", mayTakeMs, () => process.exit(EXIT_REFUSED));
    abortController.abort(new Error("an internal error"));
  };
  process.on("uncaughtException", handle);
  process.on("unhandledRejection", handle);
  // The reader of the log has closed its end (EPIPE): continue without it.
  process.stdout.on("error", () => {});
  return {
    exitCode: () => exitCode,
    removeHandlers() {
      process.off("uncaughtException", handle);
      process.off("unhandledRejection", handle);
      timers.close();
    },
  };
}
