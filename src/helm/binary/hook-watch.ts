/** Tells which hook of a chart helm waits for. */

import type { Clock, Timer } from "../../lib/index.ts";
import { isUnfinished } from "../decide.ts";
import { HelmError } from "./helm-errors.ts";
import type { HookRecord } from "../release/record.ts";
import type { ReleaseStore } from "../release/release-store.ts";

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

/** Most runs are over by then, and cost no request. */
const FIRST_MS = 10_000;
const LONGEST_MS = 60_000;

/**
 * Runs helm. When it takes long, tells which of the chart's hooks it waits for, as helm notes it in the record of
 * the release. A HelmError after such a wait names the hook.
 */
export async function withHookWatch<T>(watched: Watched, helm: () => Promise<T>): Promise<T> {
  const watch = new HookWatch(watched);
  try {
    return await helm();
  } catch (error) {
    throw await watch.blame(error);
  } finally {
    watch.end();
  }
}

class HookWatch {
  readonly #watched: Watched;
  readonly #from: number;
  readonly #ended = new AbortController();
  #timer: Timer;
  /** Status of the release while helm works: it shows what helm does. */
  #status: string | undefined;
  #told: string | undefined;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#from = watched.clock.now();
    this.#timer = this.#later(FIRST_MS);
  }

  end(): void {
    this.#ended.abort();
    this.#timer.cancel();
  }

  /** The same error with the name of the hook that helm waited for, if any. */
  async blame(failure: unknown): Promise<unknown> {
    this.end();
    const { signal } = this.#watched;
    if (this.#status === undefined || !(failure instanceof HelmError) || signal.aborted) return failure;
    const hook = await this.#begun(["Running", "Failed"], signal).catch(() => undefined);
    return hook === undefined ? failure : new HelmError(failure.verb, failure.result, hook.name);
  }

  #later(ms: number): Timer {
    return this.#watched.clock.setTimer(ms, () => this.#look(ms));
  }

  async #look(ms: number): Promise<void> {
    const signal = this.#ended.signal;
    // What cannot be read now may be readable at the next look; it is only for people.
    const hook = await this.#begun(["Running"], signal).catch(() => undefined);
    if (signal.aborted) return;
    this.#tell(hook);
    this.#timer = this.#later(Math.min(ms * 2, LONGEST_MS));
  }

  #tell(hook: HelmHook | undefined): void {
    const now = hook && `${hook.name} ${hook.since}`;
    if (now === this.#told) return;
    this.#told = now;
    this.#watched.onWait?.(hook);
  }

  /** The hook that this run of helm started last, if it is in one of these phases. */
  async #begun(phases: readonly string[], signal: AbortSignal): Promise<HelmHook | undefined> {
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

/** Of a hook's events, those that belong to what helm does are named. */
function nameOf({ object, events }: HookRecord, status: string): string {
  const verb = status === "uninstalling" ? "delete" : status.replace("pending-", "");
  const own = events.filter((event) => event.endsWith(`-${verb}`));
  return `${object} (${own.join(", ")})`;
}
