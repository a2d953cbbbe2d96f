/** Reports for which hook of a chart helm waits. */

import { exponentialDelay, type Clock, type Timer } from "../lib/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import type { HookRecord } from "./release/record.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import { isUnfinished } from "./release/revisions.ts";

/** A hook of a chart that helm waits for. */
export interface HelmHook {
  /** E.g. `Job/migrate (pre-upgrade)`. */
  readonly name: string;
  /** In ms since the epoch. */
  readonly since: number;
}

export type OnWait = (hook: HelmHook | undefined) => void;

/** One run of helm. */
export interface Watched {
  readonly store: Pick<ReleaseStore, "get" | "record">;
  readonly clock: Clock;
  readonly release: string;
  readonly signal: AbortSignal;
  readonly onWait?: OnWait | undefined;
}

/** Most runs end before the first check, and cost no request. */
const PACE = { firstMs: 10_000, maxMs: 60_000 };

/**
 * Runs helm. During a long run, it reports for which of the chart's hooks helm waits, which it reads from the record of the
 * release. A HelmError after such a wait names the hook.
 */
export async function withHookWatch<T>(watched: Watched, helm: () => Promise<T>): Promise<T> {
  const watch = new HookWatch(watched);
  try {
    return await helm();
  } catch (error) {
    throw await watch.nameHookIn(error);
  } finally {
    watch.end();
  }
}

class HookWatch {
  readonly #watched: Watched;
  readonly #from: number;
  readonly #ended = new AbortController();
  #timer: Timer;
  /** Status of the release while helm works, such as `pending-upgrade`. */
  #status: string | undefined;
  #reported: string | undefined;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#from = watched.clock.now();
    this.#timer = this.#scheduleCheck(1);
  }

  end(): void {
    this.#ended.abort();
    this.#timer.cancel();
  }

  /** The same error with the name of the hook that helm waited for, if any. */
  async nameHookIn(failure: unknown): Promise<unknown> {
    this.end();
    const { signal } = this.#watched;
    if (this.#status === undefined || !(failure instanceof HelmError) || signal.aborted) return failure;
    const hook = await this.#lastHook(["Running", "Failed"], signal).catch(() => undefined);
    return hook === undefined ? failure : new HelmError(failure.verb, failure.result, hook.name);
  }

  #scheduleCheck(checks: number): Timer {
    return this.#watched.clock.setTimer(exponentialDelay(checks, PACE), () => this.#check(checks));
  }

  /** Reports the hook for which helm waits now, and schedules the next check. */
  async #check(checks: number): Promise<void> {
    const signal = this.#ended.signal;
    // A failed read is ignored, because the report is only for people and the next check reads again.
    const hook = await this.#lastHook(["Running"], signal).catch(() => undefined);
    if (signal.aborted) return;
    this.#report(hook);
    this.#timer = this.#scheduleCheck(checks + 1);
  }

  /** Calls `onWait` if the hook is another one than in the last report. */
  #report(hook: HelmHook | undefined): void {
    const now = hook && `${hook.name} ${hook.since}`;
    if (now === this.#reported) return;
    this.#reported = now;
    this.#watched.onWait?.(hook);
  }

  /** The hook that this run of helm started last, if it is in one of these phases. */
  async #lastHook(phases: readonly string[], signal: AbortSignal): Promise<HelmHook | undefined> {
    const { store, release } = this.#watched;
    const meta = store.get(release);
    if (meta === undefined) return undefined;
    if (isUnfinished(meta.status)) this.#status = meta.status;
    if (this.#status === undefined) return undefined;
    const { hooks } = await store.record(meta, signal);
    const begun = hooks.filter(({ startedAt = 0 }) => startedAt >= this.#from);
    const [last] = begun.toSorted((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0));
    if (last?.startedAt === undefined || !phases.includes(last.phase ?? "")) return undefined;
    return { name: nameOf(last, this.#status), since: last.startedAt };
  }
}

/** The hook's object, with those of its events that belong to helm's current operation. */
function nameOf({ object, events }: HookRecord, status: string): string {
  const verb = status === "uninstalling" ? "delete" : status.replace("pending-", "");
  const own = events.filter((event) => event.endsWith(`-${verb}`));
  return `${object} (${own.join(", ")})`;
}
