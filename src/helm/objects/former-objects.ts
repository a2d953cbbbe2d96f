/**
 * The former objects of a release, which an earlier revision has and the installed one lacks, or which a removed release has. helm skips the
 * deletion of an object that it cannot read, or that it takes for missing, and succeeds: no later revision contains the object, so nobody
 * would delete it. Finalizers keep others although they are being deleted.
 */

import { exponentialDelay, mapInParallel, oneLine, retryAfterErrors, type Clock } from "../../base/index.ts";
import { isForbidden } from "../../kube/index.ts";
import { namespacedKey, resourceKey, resourceName, type ObjectRef } from "../manifest/manifest.ts";
import { Loop } from "../../runtime/index.ts";
import { isInstalled } from "../release/revisions.ts";
import type { Reconciler, ReleaseCheckTools } from "../types.ts";
import {
  deleteObject,
  hasKeepPolicy,
  isSameOwner,
  MAX_PARALLEL_REQUESTS,
  readLiveObject,
} from "./live-objects.ts";

/** Delays and number of tries after errors: what kept helm from reading an object may last for a moment, and later runs know no former objects. */
const RETRY_DELAYS = { firstMs: 250, maxMs: 2000 };
const MAX_TRIES = 5;

/**
 * Call it after a success of helm: deletes those of the `recorded` objects, which `retainBeforeUpgrade` or `retainBeforeRemoval` has returned,
 * that the installed revision lacks and that still belong to the release. Has those that remain watched until they are deleted. Never
 * throws: helm has succeeded. An object that cannot be deleted is logged.
 */
export async function handleFormerObjects(
  tools: Reconciler,
  release: string,
  { recorded, signal }: { readonly recorded: readonly ObjectRef[]; readonly signal: AbortSignal },
): Promise<void> {
  if (recorded.length === 0) return;
  // Not by version: helm may have applied the same object in another one.
  const keyOf = ({ namespace = tools.namespace, ...object }: ObjectRef): string =>
    resourceKey({ ...object, namespace, apiVersion: "" });
  try {
    const installed = tools.store.get(release);
    if (installed === undefined) return;
    const read = () => tools.store.readSummary(installed);
    const { objects } = isInstalled(installed) ? await repeatBriefly(tools, read, signal) : { objects: [] };
    const dropped = new Map(recorded.map((object) => [keyOf(object), object]));
    for (const object of objects) dropped.delete(keyOf(object));
    const remaining = await mapInParallel(MAX_PARALLEL_REQUESTS, [...dropped.values()], async (object) =>
      (await deleteIfLeft(tools, object, { release, signal })) ? [object] : [],
    );
    tools.watchFormerObjects(release, remaining.flat(), tools);
  } catch (error) {
    tools.logger.warn("Objects that helm left are not known", { release, error: oneLine(error) });
  }
}

/** Calls `work` again after errors that may pass, and throws the last error. */
function repeatBriefly<T>({ clock }: Reconciler, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const isFinal = (error: unknown, { tries }: { tries: number }): boolean =>
    signal.aborted || isForbidden(error) || tries >= MAX_TRIES;
  return retryAfterErrors(work, { clock, delays: RETRY_DELAYS, signal, isFinal });
}

/** Deletes an object unless it is gone, is being deleted, must be kept, or belongs to another owner. Returns whether its deletion may take longer. */
async function deleteIfLeft(
  tools: Reconciler,
  object: ObjectRef,
  { release, signal }: { readonly release: string; readonly signal: AbortSignal },
): Promise<boolean> {
  const fields = { release, object: resourceName(object) };
  const deleteOnce = async (): Promise<boolean> => {
    const live = await readLiveObject(tools, object, signal);
    const isOwn = isSameOwner(live?.owner, { release, namespace: tools.namespace });
    if (live === undefined || !isOwn || hasKeepPolicy(live)) return false;
    if (live.isTerminating) return true;
    await deleteObject(tools, live, { signal });
    tools.logger.warn("An object that helm left is deleted", fields);
    return true;
  };
  try {
    return await repeatBriefly(tools, deleteOnce, signal);
  } catch (error) {
    tools.logger.warn("An object that helm left cannot be deleted", { ...fields, error: oneLine(error) });
    return true;
  }
}

/** At most so many objects of a release are checked. */
const MAX_OBJECTS = 500;
/** Most objects are deleted before the first check. */
const CHECK_DELAYS = { firstMs: 5000, maxMs: 60_000 };

interface WatchOptions {
  readonly clock: Clock;
  /** Called with the objects of a release that finalizers keep, and these finalizers, when they have changed. */
  readonly onChange: (release: string, objects: readonly string[]) => void;
}

/** The former objects of one release. */
interface ObjectsOfRelease {
  readonly tools: ReleaseCheckTools;
  objects: ReadonlyMap<string, ObjectRef>;
  reported: readonly string[];
  checks: number;
}

/** Checks objects that helm has deleted until none of them is left, and reports those that finalizers keep. */
export class FormerObjectsWatch {
  readonly #options: WatchOptions;
  readonly #releases = new Map<string, { readonly former: ObjectsOfRelease; readonly loop: Loop }>();
  #isClosed = false;

  constructor(options: WatchOptions) {
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
  async #check(release: string, former: ObjectsOfRelease, signal: AbortSignal): Promise<number | void> {
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
