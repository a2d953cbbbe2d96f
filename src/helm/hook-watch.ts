/**
 * Reports for which hook of a chart helm waits. helm stores the phase of each hook (`Running`, `Failed` …) in the record of the release,
 * the Secret of its newest revision; the status of the release shows helm's operation, such as `pending-upgrade`.
 */

import { exponentialDelay, type Clock, type Timer } from "../lib/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import type { HookRecord } from "./release/record.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import { isPendingStatus } from "./release/revisions.ts";

export interface HelmHook {
  /** E.g. `Job/migrate (pre-upgrade)`. */
  readonly name: string;
  /** In ms since the epoch. */
  readonly since: number;
}

/** Called with the hook that helm waits for, and with undefined when it is over. */
export type OnWait = (hook: HelmHook | undefined) => void;

export interface HelmRun {
  readonly store: Pick<ReleaseStore, "get" | "readRecord">;
  readonly clock: Clock;
  readonly release: string;
  readonly signal: AbortSignal;
  readonly onWait?: OnWait | undefined;
  /** Whether no object of a hook exists any more. */
  readonly isMissing?: ((hook: HookRecord, signal: AbortSignal) => Promise<boolean>) | undefined;
}

/** Delays between checks. Most runs of helm end before the first check, and cost no request. */
const CHECK_DELAYS = { firstMs: 10_000, maxMs: 60_000 };

/** Runs helm. During a long run, it reports for which of the chart's hooks helm waits. A HelmError after such a wait names the hook. */
export async function withHookWatch<T>(watched: HelmRun, helm: () => Promise<T>): Promise<T> {
  const watch = new HookWatch(watched);
  try {
    return await helm();
  } catch (error) {
    throw await watch.addHookName(error);
  } finally {
    watch.stop();
  }
}

/** Checks from time to time, while helm runs, for which hook of the chart helm waits. */
class HookWatch {
  readonly #run: HelmRun;
  readonly #startedAt: number;
  readonly #abortController = new AbortController();
  #timer: Timer;
  /** Status of the release while helm works; undefined until a check finds that helm works on the release. */
  #status: string | undefined;
  #lastReportKey: string | undefined;

  /** Starts the checks; `stop` ends them. */
  constructor(watched: HelmRun) {
    this.#run = watched;
    this.#startedAt = watched.clock.now();
    this.#timer = this.#scheduleCheck(1);
  }

  /** Ends the checks. */
  stop(): void {
    this.#abortController.abort();
    this.#timer.cancel();
  }

  /** Ends the checks. Adds the name of the hook in which helm failed to a HelmError; returns any other failure unchanged. */
  async addHookName(failure: unknown): Promise<unknown> {
    this.stop();
    const { signal } = this.#run;
    // No check saw helm at work, as in a short run, which must cost no request.
    const wasSeenAtWork = this.#status !== undefined;
    if (!wasSeenAtWork || !(failure instanceof HelmError) || signal.aborted) return failure;
    // `Running`: helm was killed while it waited for the hook.
    const hook = await this.#findLastHook(["Running", "Failed"], signal).catch(() => undefined);
    return hook === undefined ? failure : new HelmError(failure.verb, failure.result, hook.name);
  }

  /** Schedules the next check; delays grow with the number of checks. */
  #scheduleCheck(checks: number): Timer {
    return this.#run.clock.setTimer(exponentialDelay(checks, CHECK_DELAYS), () => this.#checkHook(checks));
  }

  /** Reports the hook for which helm waits now, and schedules the next check. `checks` counts them, because their delay grows. */
  async #checkHook(checks: number): Promise<void> {
    const signal = this.#abortController.signal;
    // A failed read is ignored, because the report is only for people and the next check reads again.
    const hook = await this.#findLastHook(["Running"], signal).catch(() => undefined);
    if (signal.aborted) return;
    this.#reportIfNew(hook);
    this.#timer = this.#scheduleCheck(checks + 1);
  }

  /** Calls `onWait` if the hook is another one than in the last report. */
  #reportIfNew(hook: HelmHook | undefined): void {
    const reportKey = hook && `${hook.name} ${hook.since}`;
    if (reportKey === this.#lastReportKey) return;
    this.#lastReportKey = reportKey;
    this.#run.onWait?.(hook);
  }

  /**
   * Reads from the record of the release which hook this run of helm started last. Undefined if the hook is in none of these phases,
   * or if helm has not begun to work on the release.
   */
  async #findLastHook(phases: readonly string[], signal: AbortSignal): Promise<HelmHook | undefined> {
    const { store, release } = this.#run;
    const meta = store.get(release);
    if (meta === undefined) return undefined;
    // Kept for the time after helm: a failed release has the status `failed`, whatever the operation.
    if (isPendingStatus(meta.status)) this.#status = meta.status;
    if (this.#status === undefined) return undefined;
    const { hooks } = await store.readRecord(meta, signal);
    // The record also has hooks of earlier operations on this revision.
    const startedHooks = hooks.filter(({ startedAt = 0 }) => startedAt >= this.#startedAt);
    const [last] = startedHooks.toSorted((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0));
    if (last?.startedAt === undefined || !phases.includes(last.phase ?? "")) return undefined;
    // helm 4 waits until its time-out for an object that was deleted before helm saw how it ended. helm itself deletes one that failed.
    const isMissing = last.phase === "Running" && (await this.#run.isMissing?.(last, signal)) === true;
    return { name: describeHook(last, this.#status, isMissing), since: last.startedAt };
  }
}

/**
 * Describes a hook for people: its object, and its events that belong to helm's current operation, which `status` shows, such as
 * `Job/migrate (pre-upgrade)` for the status `pending-upgrade`. `isMissing`: the object does not exist any more.
 */
function describeHook({ object, events }: HookRecord, status: string, isMissing: boolean): string {
  const verb = status === "uninstalling" ? "delete" : status.replace("pending-", "");
  const eventsOfOperation = events.filter((event) => event.endsWith(`-${verb}`));
  const note = isMissing ? "; the object was deleted" : "";
  return `${object} (${eventsOfOperation.join(", ")}${note})`;
}
