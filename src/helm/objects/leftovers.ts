/** Finds objects that no release contains any more, but that finalizers keep although they are being deleted. */

import { exponentialDelay, mapInParallel, type Clock } from "../../lib/index.ts";
import { Loop } from "../../runtime/index.ts";
import { namespacedKey, resourceName, type ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseCheckTools } from "../types.ts";
import { MAX_PARALLEL_REQUESTS, readLiveObject } from "./live-objects.ts";

/** At most so many objects of a release are checked. */
const MAX_OBJECTS = 500;
/** Most objects are deleted before the first check. */
const CHECK_DELAYS = { firstMs: 5000, maxMs: 60_000 };

interface LeftoversOptions {
  readonly clock: Clock;
  /** Called with the objects of a release that finalizers keep, and these finalizers, when they have changed. */
  readonly onChange: (release: string, objects: readonly string[]) => void;
}

/** The objects that a release had, and that are checked until they are deleted. */
interface FormerObjects {
  readonly tools: ReleaseCheckTools;
  objects: ReadonlyMap<string, ObjectRef>;
  reported: readonly string[];
  checks: number;
}

/** Checks objects that helm has deleted until none of them is left. */
export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #releases = new Map<string, { readonly former: FormerObjects; readonly loop: Loop }>();
  #isClosed = false;

  constructor(options: LeftoversOptions) {
    this.#options = options;
  }

  /** Checks these former objects of a release from now on. `tools` act for the module. */
  add(release: string, refs: readonly ObjectRef[], tools: ReleaseCheckTools): void {
    if (refs.length === 0 || this.#isClosed) return;
    const before = this.#releases.get(release);
    before?.loop.close();
    const added = refs.map((ref) => [namespacedKey(tools.namespace, ref), ref] as const);
    const objects = new Map([...(before?.former.objects ?? []), ...added].slice(0, MAX_OBJECTS));
    const former = { tools, objects, reported: before?.former.reported ?? [], checks: 1 };
    const run = (signal: AbortSignal): Promise<number | void> => this.#check(release, former, signal);
    const loop = new Loop({ clock: this.#options.clock, run, retry: CHECK_DELAYS });
    this.#releases.set(release, { former, loop });
    loop.trigger(CHECK_DELAYS.firstMs);
  }

  /** Ends all checks. */
  close(): void {
    this.#isClosed = true;
    for (const { loop } of this.#releases.values()) loop.close();
    this.#releases.clear();
  }

  /** Checks the former objects of a release, and reports those that are left. Returns the time until the next check. */
  async #check(release: string, former: FormerObjects, signal: AbortSignal): Promise<number | void> {
    const names: string[] = [];
    const left = new Map<string, ObjectRef>();
    await mapInParallel(MAX_PARALLEL_REQUESTS, [...former.objects], async ([key, ref]) => {
      const name = await describeIfKept(former.tools, ref, signal).catch(() => "unknown");
      if (name === undefined) return;
      left.set(key, ref);
      // An object that cannot be read is checked again.
      if (name !== "unknown") names.push(name);
    });
    // Stopped, or replaced by a later call of `add`.
    if (signal.aborted) return;
    former.objects = left;
    names.sort();
    if (names.join("\n") !== former.reported.join("\n")) this.#options.onChange(release, names);
    former.reported = names;
    if (left.size === 0) return void this.#releases.delete(release);
    former.checks += 1;
    return exponentialDelay(former.checks, CHECK_DELAYS);
  }
}

/** Describes an object that finalizers keep although it is being deleted; undefined for any other. */
async function describeIfKept(
  tools: ReleaseCheckTools,
  ref: ObjectRef,
  signal: AbortSignal,
): Promise<string | undefined> {
  const live = await readLiveObject(tools, ref, signal);
  if (live?.isTerminating !== true || live.finalizers.length === 0) return undefined;
  const { resource, namespace } = live.target;
  const name = resourceName({ ...ref, namespace: resource.namespaced ? namespace : undefined });
  return `${name} (finalizer ${live.finalizers.join(", ")})`;
}
