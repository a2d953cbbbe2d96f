/** Finds the resources of kinds, and waits for missing ones. */

import type { Clock, DelayGrowth } from "../../base/index.ts";
import { exponentialDelay, toError } from "../../base/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { Subscription } from "../watch/consumer.ts";
import type { WatchHub } from "../watch/hub.ts";
import type { Discovery } from "./discovery.ts";
import { CUSTOM_RESOURCE_DEFINITIONS, type Resource } from "../resources.ts";

interface KindFinderOptions {
  readonly hub: WatchHub;
  readonly discovery: Pick<Discovery, "resolve" | "invalidate">;
  readonly clock: Clock;
}

/** A kind as a hook names it. */
interface KindQuery {
  readonly kind: string;
  readonly apiVersion: string | undefined;
}

interface WaitOptions {
  readonly signal: AbortSignal;
  /** Called with the reason whenever the kind was not found: MissingKindError, ApiError or ConnectionError. */
  readonly onMissing: (error: Error) => void;
  /** Poll interval while no CRD changes; default: 5 s. */
  readonly pollInterval?: DelayGrowth;
}

/** The server does not serve the kind, or not yet. */
export class MissingKindError extends Error {
  constructor({ kind, apiVersion }: KindQuery) {
    const kindName = apiVersion === undefined ? kind : `${kind} of ${apiVersion}`;
    super(`the cluster does not know the kind ${kindName}; waiting for it to appear`);
    this.name = "MissingKindError";
  }
}

const POLL_INTERVAL = { firstMs: 5000, maxMs: 5000 };
/** A new CRD is served a moment after it is created. */
const AFTER_CRD_MS = 250;
const EAGER_CHECKS = 8;
const EAGER_INTERVAL_MS = 2 * AFTER_CRD_MS;

/**
 * Finds kinds by discovery, and waits for missing ones, because a module may install the CRD that the hook of another one watches. Polls
 * with one loop for all calls. After a CRD has changed, makes some eager checks in short intervals, because discovery lags behind.
 */
export class KindFinder {
  readonly #options: KindFinderOptions;
  /** Callbacks that let the pending `find` calls check again. */
  #waiters: (() => void)[] = [];
  #pendingCalls = 0;
  /** Lets the waiting calls check again; undefined while no call waits. */
  #loop: Loop | undefined;
  #eagerChecksLeft = 0;
  #crdSubscription: Subscription | undefined;

  constructor(options: KindFinderOptions) {
    this.#options = options;
  }

  /** Resolves with the resource as soon as the server serves the kind; undefined when `signal` ends the wait. */
  async find(
    query: KindQuery,
    { signal, onMissing, pollInterval = POLL_INTERVAL }: WaitOptions,
  ): Promise<Resource | undefined> {
    this.#pendingCalls += 1;
    try {
      for (let checks = 1; ; checks += 1) {
        const result = await this.#options.discovery.resolve(query.kind, query.apiVersion).catch(toError);
        if (result !== undefined && !(result instanceof Error)) return result;
        onMissing(result ?? new MissingKindError(query));
        await this.#waitForNextCheck(signal, exponentialDelay(checks, pollInterval));
        if (signal.aborted) return undefined;
      }
    } finally {
      this.#pendingCalls -= 1;
      if (this.#pendingCalls === 0) this.#stopChecks();
    }
  }

  /** Call after CRDs were created: drops the cached discovery and searches for missing kinds at once. */
  recheckKinds(): void {
    this.#options.discovery.invalidate();
    this.#startEagerChecks(0);
  }

  /** Lets all waiting calls check after `ms`, and then several times in short intervals. */
  #startEagerChecks(ms: number): void {
    this.#eagerChecksLeft = EAGER_CHECKS;
    this.#scheduleCheck(ms);
  }

  /** Resolves when the call is to check again: after `ms`, after a CRD changed, or when the signal is aborted. Watches CRDs from the first wait on. */
  #waitForNextCheck(signal: AbortSignal, ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const wake = (): void => {
        signal.removeEventListener("abort", wake);
        resolve();
      };
      signal.addEventListener("abort", wake, { once: true });
      this.#waiters.push(wake);
      this.#scheduleCheck(this.#eagerChecksLeft > 0 ? EAGER_INTERVAL_MS : ms);
      this.#watchCrds();
    });
  }

  /** Lets all waiting calls check after `ms`, unless an earlier check is scheduled. */
  #scheduleCheck(ms: number): void {
    if (this.#pendingCalls === 0) return;
    const { clock } = this.#options;
    this.#loop ??= new Loop({ clock, run: () => this.#wakeWaiters(), retry: POLL_INTERVAL });
    this.#loop.trigger(ms);
  }

  /** Lets all waiting calls check again; each of them then schedules the next check. */
  #wakeWaiters(): void {
    this.#eagerChecksLeft = Math.max(0, this.#eagerChecksLeft - 1);
    this.#options.discovery.invalidate();
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /** Watches CRDs while calls wait: a new or changed CRD may serve the kind. */
  #watchCrds(): void {
    const spec = { resource: CUSTOM_RESOURCE_DEFINITIONS, metadataOnly: true };
    this.#crdSubscription ??= this.#options.hub.subscribe(spec, {
      onListed: () => {},
      onSynced: () => {},
      onApplied: () => this.#startEagerChecks(AFTER_CRD_MS),
      onDeleted: () => {},
    });
  }

  /** Ends loop and watch, because no call waits any more. */
  #stopChecks(): void {
    this.#loop?.close();
    this.#loop = undefined;
    this.#crdSubscription?.close();
    this.#crdSubscription = undefined;
  }
}
