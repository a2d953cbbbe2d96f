/**
 * Reports for which hook of a chart helm waits. helm stores the phase of each hook (`Running`, `Failed` …) in the record of the release,
 * the Secret of its newest revision; the status of the release shows helm's operation, such as `pending-upgrade`. A hook whose object is
 * missing can neither succeed nor fail, but helm waits for it until its time limit, so the watch ends helm earlier.
 */

import { exponentialDelay, type DelayGrowth } from "../base/index.ts";
import { Loop } from "../runtime/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { buildDeletedObjectError, isHookMissing } from "./objects/hook-objects.ts";
import type { HookRecord } from "./release/record.ts";
import { isPending } from "./release/revisions.ts";
import type { HelmHook, OnWait, Reconciler } from "./types.ts";

/** A run of helm that is watched. */
export interface HelmRun {
  readonly release: string;
  readonly signal: AbortSignal;
  readonly onWait?: OnWait | undefined;
  /** The chart may have hooks, so that checks begin early. */
  readonly mayHaveHooks: boolean;
  /**
   * Nothing but hooks takes helm long, so that the watch may end it: helm updates the record only when it starts a hook, so a hook that
   * succeeded stays `Running` there while helm waits for Pods.
   */
  readonly mayEnd: boolean;
}

/** Delays between checks. Most runs of helm end before the first check, and cost no request. */
const CHECK_DELAYS = { firstMs: 10_000, maxMs: 60_000 };
const HOOK_CHECK_DELAYS = { firstMs: 3000, maxMs: 60_000 };

/** How long the object of a hook must be missing until helm is ended. By then helm has created it, or has finished all that follows the hook. */
const MISSING_MS = 300_000;

/**
 * Runs helm, which must end when its signal is aborted. During a long run, it reports for which of the chart's hooks helm waits. A HelmError
 * after such a wait names the hook. Throws HookObjectError if the object of the hook was deleted before helm saw how it ended. After a
 * failure, reads the release again, which an abort does not cancel, because later decisions depend on the record that helm left.
 */
export async function withHookWatch<T>(
  tools: Reconciler,
  run: HelmRun,
  helm: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const watch = new HookWatch(tools, run);
  try {
    return await helm(AbortSignal.any([run.signal, watch.endSignal]));
  } catch (error) {
    const failure = await watch.addHookName(error);
    await tools.store.refresh(run.release);
    throw failure;
  } finally {
    watch.stop();
  }
}

/** Checks from time to time, while helm runs, for which hook of the chart helm waits. */
class HookWatch {
  readonly #tools: Reconciler;
  readonly #run: HelmRun;
  readonly #startedAt: number;
  /** Aborted to end helm, with a HookObjectError. */
  readonly #endController = new AbortController();
  readonly #loop: Loop;
  /** Their delay grows with their number. */
  #checks = 1;
  /** Status of the release while helm works; undefined until a check finds that helm works on the release. */
  #status: string | undefined;
  #lastReportKey: string | undefined;
  /** The hook whose object was missing in the last checks, and the time of the first of them. */
  #missing: { readonly key: string; readonly since: number } | undefined;

  /** Starts the checks; `stop` ends them. */
  constructor(tools: Reconciler, run: HelmRun) {
    this.#tools = tools;
    this.#run = run;
    const { clock } = tools;
    this.#startedAt = clock.now();
    const delays = run.mayHaveHooks ? HOOK_CHECK_DELAYS : CHECK_DELAYS;
    this.#loop = new Loop({ clock, run: (signal) => this.#checkHook(delays, signal), retry: delays });
    this.#loop.trigger(delays.firstMs);
  }

  /** Ends the checks. */
  stop(): void {
    this.#loop.close();
  }

  /** Aborted when helm waits for a hook in vain. */
  get endSignal(): AbortSignal {
    return this.#endController.signal;
  }

  /** Ends the checks. Adds the name of the hook in which helm failed to a HelmError; returns any other failure unchanged. */
  async addHookName(failure: unknown): Promise<unknown> {
    this.stop();
    const { signal } = this.#run;
    if (this.endSignal.aborted && failure instanceof HelmError) return this.endSignal.reason;
    // No check saw helm at work, as in a short run, which must cost no request.
    const wasSeenAtWork = this.#status !== undefined;
    if (!wasSeenAtWork || !(failure instanceof HelmError) || signal.aborted) return failure;
    // `Running`: helm was killed while it waited for the hook.
    const hook = await this.#findLastHook(["Running", "Failed"], signal).catch(() => undefined);
    return hook === undefined ? failure : new HelmError(failure.verb, failure.result, hook.name);
  }

  /** Reports the hook for which helm waits now. Returns the time until the next check. */
  async #checkHook(delays: DelayGrowth, signal: AbortSignal): Promise<number | void> {
    // A failed read is ignored, because the report is only for people and the next check reads again.
    const hook = await this.#findLastHook(["Running"], signal).catch(() => undefined);
    if (signal.aborted) return;
    this.#reportIfNew(hook);
    if (hook !== undefined && this.#isLost(hook))
      return this.#endController.abort(
        buildDeletedObjectError(
          `helm waited for a hook of ${this.#run.release} that cannot end: ${hook.name}; it was deleted before helm saw how it ended`,
        ),
      );
    this.#checks += 1;
    return exponentialDelay(this.#checks, delays);
  }

  /** Whether the object of the hook has been missing for so long that helm waits in vain. */
  #isLost(hook: FoundHook): boolean {
    const now = this.#tools.clock.now();
    const key = reportKeyOf(hook);
    if (!hook.isMissing) this.#missing = undefined;
    else if (this.#missing?.key !== key) this.#missing = { key, since: now };
    return this.#run.mayEnd && this.#missing !== undefined && now - this.#missing.since >= MISSING_MS;
  }

  /** Calls `onWait` if the hook is another one than in the last report. */
  #reportIfNew(hook: HelmHook | undefined): void {
    const reportKey = hook && reportKeyOf(hook);
    if (reportKey === this.#lastReportKey) return;
    this.#lastReportKey = reportKey;
    this.#run.onWait?.(hook && { name: hook.name, since: hook.since });
  }

  /**
   * Reads from the record of the release which hook this run of helm started last. Undefined if the hook is in none of these phases,
   * or if helm has not begun to work on the release.
   */
  async #findLastHook(phases: readonly string[], signal: AbortSignal): Promise<FoundHook | undefined> {
    const { store } = this.#tools;
    const meta = store.get(this.#run.release);
    if (meta === undefined) return undefined;
    // Kept for the time after helm: a failed release has the status `failed`, whatever the operation.
    if (isPending(meta)) this.#status = meta.status;
    if (this.#status === undefined) return undefined;
    const { hooks } = await store.readRecord(meta, signal);
    // The record also has hooks of earlier operations on this revision.
    const startedHooks = hooks.filter(({ startedAt = 0 }) => startedAt >= this.#startedAt);
    const [last] = startedHooks.toSorted((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0));
    if (last?.startedAt === undefined || !phases.includes(last.phase ?? "")) return undefined;
    // helm itself deletes an object that failed.
    const isMissing = last.phase === "Running" && (await isHookMissing(this.#tools, last, signal));
    const mayHaveSucceeded = isMissing && last.deletePolicies.includes("hook-succeeded");
    if (mayHaveSucceeded && !this.#run.mayEnd) return undefined;
    return { name: describeHook(last, this.#status, isMissing), since: last.startedAt, isMissing };
  }
}

interface FoundHook extends HelmHook {
  readonly isMissing: boolean;
}

function reportKeyOf({ name, since }: HelmHook): string {
  return `${name} ${since}`;
}

/**
 * Describes a hook for people: its object, and its events that belong to helm's current operation, which `status` shows, such as
 * `Job/migrate (pre-upgrade)` for the status `pending-upgrade`. `isMissing`: the object does not exist.
 */
function describeHook({ object, events }: HookRecord, status: string, isMissing: boolean): string {
  const verb = status === "uninstalling" ? "delete" : status.replace("pending-", "");
  const eventsOfOperation = events.filter((event) => event.endsWith(`-${verb}`));
  const note = isMissing ? "; the object does not exist" : "";
  return `${object} (${eventsOfOperation.join(", ")}${note})`;
}
