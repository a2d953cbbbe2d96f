import { availableParallelism, loadavg } from "node:os";
import { onTestFinished } from "vitest";
import { startOperator as start } from "../../scripts/operator.mjs";
import type { OperatorOptions, OperatorProcess } from "../../scripts/operator.mjs";
import { systemClock } from "../../src/base/index.ts";
import { endOrphanedProcesses } from "../../src/base/process/index.ts";
import { cluster, eventually } from "./cluster.ts";
import { watchStatuses } from "./statuses.ts";

export type { OperatorProcess };

export interface TestOptions extends Partial<OperatorOptions> {
  /** Who may read statuses, where the operator does not run against the shared control plane. */
  readonly admin?: string;
  /** Killed at the end, not asked to stop: the test broke something that it needs, or leaves it much to write. */
  readonly killed?: boolean;
}

/**
 * Starts the operator as a child process against the shared control plane (or `kubeconfig`), asked to stop when the test ends:
 * with nothing running it is gone as soon as it promises. It runs src/main.ts, or dist/main.js when OPERATOR_BUNDLE is set. Retry delays are short unless `env` says otherwise.
 */
export async function startOperator(options: TestOptions): Promise<OperatorProcess> {
  const operator = await launchOperator(options);
  onTestFinished(async () => {
    if (options.killed !== true) await leave(operator);
    await operator.kill9();
    await endOrphans(operator);
  });
  return operator;
}

/** Ends what an operator that was killed has left, for example a helm that hangs: the next operator would, but none comes. */
async function endOrphans({ dir }: OperatorProcess): Promise<void> {
  const isOf = (environment: readonly string[]): boolean =>
    environment.some((each) => each.includes(`${dir}/`));
  await endOrphanedProcesses(isOf, { clock: systemClock, graceMs: 1000 });
}

/** Milliseconds from SIGTERM to the end with nothing running and nothing to write (docs/guides/running.md, "Stopping"), as the operator reports them. */
const PROMISED_MS = 300;
/** What one stop may take: a machine that stands still for a moment is no fault of the operator's. */
const LONGEST_MS = 3000;
/** What the last statuses and Events get beside that. */
const LAST_WRITES_MS = 2000;
/** So many stops in a row are not all late by chance. */
const STOPS = 5;
const lastStops: number[] = [];
/** One that does not stop by itself is killed. */
const PATIENCE_MS = 30_000;

/** Asks the operator to stop; returns when it is gone, or when it waits for something that runs. */
async function leave(operator: OperatorProcess): Promise<void> {
  let isOver = false;
  void operator.exit.then(() => (isOver = true));
  const requested = (field: string): number | undefined => reported(operator, "Asked to stop", field);
  // One turn of the loop reports what is over already.
  await new Promise((done) => setImmediate(done));
  if (isOver || requested("running") !== undefined) return;
  process.kill(operator.pid ?? 0, "SIGTERM");
  const isSettled = (): boolean => isOver || (requested("running") ?? 0) > 0;
  await eventually(isSettled, "it stops", { timeoutMs: PATIENCE_MS }).catch(() => {});
  if (requested("running") !== 0) return;
  const ms = reported(operator, "Stopped", "ms") ?? Infinity;
  // On a machine with more to do than processors everything takes longer.
  const load = Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
  const isWritten = requested("unwritten") === 0;
  if (isWritten) lastStops.push(ms);
  const usual = lastStops.length < STOPS ? 0 : Math.min(...lastStops.slice(-STOPS));
  const most = LONGEST_MS * load + (isWritten ? 0 : LAST_WRITES_MS);
  if (ms > most || usual > PROMISED_MS * load)
    throw new Error(`it stopped in ${ms} ms, the last ones in ${usual} ms:\n${operator.log().slice(-2000)}`);
}

/** A number in the last line with that message, in text or JSON. */
function reported(operator: OperatorProcess, message: string, field: string): number | undefined {
  const line = operator.lines.findLast((each) => each.includes(message));
  const number = line === undefined ? undefined : new RegExp(`\\b${field}"?[=:](\\d+)`).exec(line)?.[1];
  return number === undefined ? undefined : Number(number);
}

/**
 * The same for `beforeAll`: the caller stops it. Every status it writes from its start to its end is held against the
 * rules of kstatus and Flux; `stop` and `kill9` reject when one of them was broken, or when a timer of an operator that
 * was stopped outlives it.
 */
export async function launchOperator(options: TestOptions): Promise<OperatorProcess> {
  const { admin, namespace, kubeconfig = cluster().kubeconfig } = options;
  const statuses = namespace === undefined ? undefined : await watchStatuses(namespace, admin);
  const env = { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "500ms", LOG_TYPE: "text", ...options.env };
  const operator = await start({ ...options, kubeconfig, env });
  const ending = async (end: OperatorProcess["stop"]) => {
    const exit = await end();
    await statuses?.end();
    if (operator.log().includes("hold up the end"))
      throw new Error(`a timer outlives the operator:\n${operator.log().slice(-2000)}`);
    return exit;
  };
  return { ...operator, stop: () => ending(operator.stop), kill9: () => ending(operator.kill9) };
}
