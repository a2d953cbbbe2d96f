/** Finds the resources of kinds, and waits for missing ones. */

import type { Clock, DelayGrowth, Timer } from "../../lib/index.ts";
import { exponentialDelay, toError } from "../../lib/index.ts";
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

/** How to wait for a missing kind. */
interface Waiting {
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Called with the reason whenever the kind was not found: MissingKindError, ApiError or ConnectionError. */
  readonly onMissing: (error: Error) => void;
  /** Poll interval while no CRD changes; default: 5 s. */
  readonly pace?: DelayGrowth;
}

/** The server has no such kind (yet). */
export class MissingKindError extends Error {
  constructor({ kind, apiVersion }: KindQuery) {
    const what = apiVersion === undefined ? kind : `${kind} of ${apiVersion}`;
    super(`the cluster does not know the kind ${what}; waiting for it to appear`);
    this.name = "MissingKindError";
  }
}

const PACE = { firstMs: 5000, maxMs: 5000 };
/** A new CRD is served a moment after it is created. */
const AFTER_CRD_MS = 250;
/** Number of tries in short intervals after a CRD change, since discovery lags behind. */
const EAGER_CHECKS = 8;

/** Finds kinds by discovery, and waits for missing ones: polls, and checks again whenever a CRD changes. */
export class KindFinder {
  readonly #options: KindFinderOptions;
  /** Wake the pending `find` calls for another check. */
  #checks: (() => void)[] = [];
  /** Number of pending `find` calls. */
  #open = 0;
  #timer: Timer | undefined;
  #due = 0;
  #eager = 0;
  #crds: Subscription | undefined;

  constructor(options: KindFinderOptions) {
    this.#options = options;
  }

  /** The resource, as soon as there is one; undefined when `signal` ends the wait. */
  async find(query: KindQuery, { signal, onMissing, pace = PACE }: Waiting): Promise<Resource | undefined> {
    this.#open += 1;
    try {
      for (let checks = 1; ; checks += 1) {
        const resource = await this.#options.discovery.resolve(query.kind, query.apiVersion).catch(toError);
        if (resource !== undefined && !(resource instanceof Error)) return resource;
        onMissing(resource ?? new MissingKindError(query));
        await this.#next(signal, exponentialDelay(checks, pace));
        if (signal.aborted) return undefined;
      }
    } finally {
      this.#open -= 1;
      if (this.#open === 0) this.#rest();
    }
  }

  /** Call after CRDs were created: drops the cached discovery and searches for missing kinds at once. */
  kindsChanged(): void {
    this.#options.discovery.invalidate();
    this.#checkSoon(0);
  }

  #checkSoon(ms: number): void {
    this.#eager = EAGER_CHECKS;
    this.#checkIn(ms);
  }

  #next(signal: AbortSignal, ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const check = (): void => {
        signal.removeEventListener("abort", check);
        resolve();
      };
      signal.addEventListener("abort", check, { once: true });
      this.#checks.push(check);
      this.#checkIn(this.#eager > 0 ? 2 * AFTER_CRD_MS : ms);
      this.#watchCrds();
    });
  }

  #checkIn(ms: number): void {
    if (this.#open === 0) return;
    const due = this.#options.clock.monotonic() + ms;
    if (this.#timer !== undefined && this.#due <= due) return;
    this.#timer?.cancel();
    this.#due = due;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#eager = Math.max(0, this.#eager - 1);
      this.#options.discovery.invalidate();
      const checks = this.#checks;
      this.#checks = [];
      for (const check of checks) check();
    });
  }

  #watchCrds(): void {
    const came = (): void => this.#checkSoon(AFTER_CRD_MS);
    const spec = { resource: CUSTOM_RESOURCE_DEFINITIONS, metadataOnly: true };
    const ignore = (): void => {};
    this.#crds ??= this.#options.hub.subscribe(spec, {
      object: ignore,
      synced: ignore,
      applied: came,
      deleted: ignore,
    });
  }

  #rest(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#crds?.close();
    this.#crds = undefined;
  }
}
