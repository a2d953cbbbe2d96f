/** Finds the resources of kinds, and waits for missing ones. */

import type { Clock, Timer } from "../../lib/index.ts";
import { toError } from "../../lib/index.ts";
import type { Subscription, WatchHub } from "../watch/hub.ts";
import type { Discovery } from "./discovery.ts";
import { CUSTOM_RESOURCE_DEFINITIONS, type Resource } from "../resources.ts";

/** What finding kinds needs. */
interface KindFinderOptions {
  readonly hub: WatchHub;
  readonly discovery: Pick<Discovery, "resolve" | "invalidate">;
  readonly clock: Clock;
}

/** A kind as a hook names it. */
interface Wanted {
  readonly kind: string;
  readonly apiVersion: string | undefined;
}

/** The server has no such kind (yet). */
class MissingKindError extends Error {
  constructor(kind: string, apiVersion: string | undefined) {
    const what = apiVersion === undefined ? kind : `${kind} of ${apiVersion}`;
    super(`the cluster does not know the kind ${what}; waiting for it to appear`);
    this.name = "MissingKindError";
  }
}

const LOOK_AGAIN_MS = 5000;
/** A new CRD is served a moment after it is created. */
const AFTER_CRD_MS = 250;
/** Discovery may take a moment to show it: this many tries follow in short intervals. */
const EAGER_LOOKS = 8;

/**
 * Finds kinds by discovery, and waits for those that are missing: looks again every 5 s and whenever a CRD changes.
 */
export class KindFinder {
  readonly #options: KindFinderOptions;
  /** Wakes those that wait, to look again. */
  #looks: (() => void)[] = [];
  /** Questions that were not answered at once and are still open. */
  #open = 0;
  #timer: Timer | undefined;
  #due = 0;
  #eager = 0;
  #crds: Subscription | undefined;

  constructor(options: KindFinderOptions) {
    this.#options = options;
  }

  /**
   * The resource, as soon as there is one; undefined when `signal` ends the wait. Calls `onMissing` with the
   * reason.
   */
  async find(
    wanted: Wanted,
    signal: AbortSignal,
    onMissing: (error: Error) => void,
  ): Promise<Resource | undefined> {
    const found = await this.#look(wanted, onMissing);
    if (found !== undefined) return found;
    this.#open += 1;
    try {
      while (!signal.aborted) {
        await this.#next(signal);
        const resource = signal.aborted ? undefined : await this.#look(wanted, onMissing);
        if (resource !== undefined) return resource;
      }
      return undefined;
    } finally {
      this.#open -= 1;
      if (this.#open === 0) this.#rest();
    }
  }

  /** Looks again at once: CRDs were just created and are served. */
  poke(): void {
    this.#lookSoon(0);
  }

  #lookSoon(ms: number): void {
    this.#eager = EAGER_LOOKS;
    this.#lookIn(ms);
  }

  async #look(
    { kind, apiVersion }: Wanted,
    onMissing: (error: Error) => void,
  ): Promise<Resource | undefined> {
    try {
      const resource = await this.#options.discovery.resolve(kind, apiVersion);
      if (resource === undefined) onMissing(new MissingKindError(kind, apiVersion));
      return resource;
    } catch (error) {
      onMissing(toError(error));
      return undefined;
    }
  }

  #next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const look = (): void => {
        signal.removeEventListener("abort", look);
        resolve();
      };
      signal.addEventListener("abort", look, { once: true });
      this.#looks.push(look);
      this.#lookIn(this.#eager > 0 ? 2 * AFTER_CRD_MS : LOOK_AGAIN_MS);
      this.#watchCrds();
    });
  }

  #lookIn(ms: number): void {
    if (this.#open === 0) return;
    const due = this.#options.clock.monotonic() + ms;
    if (this.#timer !== undefined && this.#due <= due) return;
    this.#timer?.cancel();
    this.#due = due;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#eager = Math.max(0, this.#eager - 1);
      this.#options.discovery.invalidate();
      const looks = this.#looks;
      this.#looks = [];
      for (const look of looks) look();
    });
  }

  #watchCrds(): void {
    const came = (): void => this.#lookSoon(AFTER_CRD_MS);
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
