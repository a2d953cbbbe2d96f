/**
 * Decides whether an update may begin: the last one of its source works, or a user has approved this one. An update that
 * works has proven itself: its lock entry loses the mark `isNew`. After a failed one, the entry has the mark `isBack`.
 */

import type { ModuleView } from "../../state/index.ts";
import { evaluateModule } from "../../status/index.ts";
import type { SourcesContext } from "../context.ts";
import type { RequestedModule } from "../locked-modules.ts";
import type { Lock, LockEntry } from "../types.ts";

/** After this time a module that is Ready counts as proven, although nothing of the update made it run. */
const SETTLED_MS = 60_000;

/**
 * Whether an update works: the module has run with it and is Ready, or it is off or suspended. False while the state has not
 * read the new content (`digest`). A module that is Ready long after the update counts without a run: nothing needed one.
 */
export function isProven({ at, digest }: LockEntry, view: ModuleView | undefined, now: number): boolean {
  if (view === undefined || view.module.origin?.digest !== digest) return false;
  const { state } = evaluateModule(view, { now });
  if (state === "Disabled" || state === "Suspended") return true;
  return state === "Ready" && (hasRunSince(at, view) || now - at > SETTLED_MS);
}

/** Whether a run of the module has begun since `at` and has ended. */
function hasRunSince(at: number, { lastRun }: ModuleView): boolean {
  return lastRun !== undefined && lastRun.startedAt >= at && lastRun.finishedAt !== undefined;
}

/**
 * Describes for which other update an update has to wait; undefined if it may begin. At most `parallel` updates of a source are under
 * way, or have failed and wait for other content.
 */
export function describeBlockingUpdate(
  lock: Lock,
  update: { readonly module: string; readonly source: string; readonly parallel: number },
): string | undefined {
  const unfinished = [...lock].filter(
    ([name, each]) =>
      name !== update.module &&
      each.source === update.source &&
      (each.isNew === true || each.isBack === true) &&
      each.removed !== true,
  );
  const [first] = unfinished;
  if (first === undefined || unfinished.length < update.parallel) return undefined;
  const [name, { version, isBack }] = first;
  return isBack === true
    ? `because an update of ${name} has failed, and ${version} is in use again`
    : `until the update of ${name} to ${version} has proven itself`;
}

/**
 * Describes why an update has failed; undefined if it has not. An update has failed when the operator refused its run and
 * helm has rolled the release back to the content before the update. `getInstalledDigest` returns the digest of the content
 * from which the installed revision was made; undefined if the revision does not record it, then an update that has not
 * proven itself yet counts as rolled back. Not failed: a module of which the state has not read the new content yet.
 */
export function describeUpdateFailure(
  { previous, digest, isNew }: LockEntry,
  view: ModuleView | undefined,
  getInstalledDigest: () => string | undefined,
): string | undefined {
  if (previous === undefined || view?.rollbackReason === undefined) return undefined;
  if (view.module.origin?.digest !== digest) return undefined;
  const installedDigest = getInstalledDigest();
  const isRolledBack = installedDigest === undefined ? isNew === true : installedDigest === previous.digest;
  return isRolledBack ? view.rollbackReason : undefined;
}

/** Describes why the update of a module that is in use has failed; undefined if it has not. */
export function findUpdateFailure(
  { options, lockedModules }: SourcesContext,
  module: string,
): string | undefined {
  const entry = lockedModules.entries.get(module);
  const view = options.state.view.modules.get(module);
  return entry && describeUpdateFailure(entry, view, () => options.getInstalledDigest(module));
}

/** The content that a user has approved for a module: `VERSION@DIGEST`. */
export function getApproval({ options }: SourcesContext, module: string): string | undefined {
  return options.state.module(module)?.confirmedUpdate;
}

/** What the observer of updates calls. */
export interface UpdateObserverPorts {
  /** Does work in the background, and reports its errors. */
  readonly runInBackground: (work: () => Promise<void>) => void;
  /** Called when an update of this source has proven itself, or has failed. */
  readonly onDecided: (source: string) => void;
}

/** Observes updates: records in the lock that one has proven itself, and requests a check of the source when one has failed. */
export class UpdateObserver {
  readonly #context: SourcesContext;
  readonly #ports: UpdateObserverPorts;
  readonly #recording = new Set<string>();
  /** Updates that have failed, as module and digest. */
  readonly #reportedFailures = new Set<string>();

  constructor(context: SourcesContext, ports: UpdateObserverPorts) {
    this.#context = context;
    this.#ports = ports;
  }

  /** Looks in the state, after it has changed, for updates that have failed or have proven themselves. */
  reviewUpdates(): void {
    const { lockedModules, options } = this.#context;
    const { state, clock } = options;
    for (const [name, entry] of lockedModules.entries) {
      this.#reportFailureOnce(name, entry);
      if (entry.isNew !== true || this.#recording.has(name)) continue;
      if (!isProven(entry, state.view.modules.get(name), clock.now())) continue;
      this.#recording.add(name);
      this.#ports.runInBackground(() => this.#recordProven(name, entry));
    }
  }

  /** Requests a check of the source once for each failed update; the check rolls it back. */
  #reportFailureOnce(name: string, { source, digest }: LockEntry): void {
    const key = `${name} ${digest}`;
    if (findUpdateFailure(this.#context, name) === undefined) return void this.#reportedFailures.delete(key);
    if (this.#reportedFailures.has(key)) return;
    this.#reportedFailures.add(key);
    this.#ports.onDecided(source);
  }

  /** Removes the mark of a new update from its entry, so that updates of other modules may begin. */
  async #recordProven(name: string, { digest }: LockEntry): Promise<void> {
    const { lockedModules } = this.#context;
    const { onDecided } = this.#ports;
    try {
      await this.#context.commit(async () => {
        const entry = lockedModules.entries.get(name);
        if (entry?.digest !== digest) return;
        const { isNew: _, ...rest } = entry;
        await lockedModules.writeEntry(name, rest);
      });
    } finally {
      this.#recording.delete(name);
    }
    const source = lockedModules.entries.get(name)?.source;
    if (source !== undefined) onDecided(source);
  }
}

/** Observes the approvals of users: each new one requests a check of its source. */
export class ApprovalObserver {
  #lastApprovals: ReadonlyMap<string, string | undefined> = new Map();

  /** Returns the sources of modules whose approval is new since the last call. `readApproval` reads that of a module. */
  findNewlyApproved(
    requested: ReadonlyMap<string, Pick<RequestedModule, "source">>,
    readApproval: (module: string) => string | undefined,
  ): ReadonlySet<string> {
    const before = this.#lastApprovals;
    const now = new Map([...requested.keys()].map((module) => [module, readApproval(module)]));
    this.#lastApprovals = now;
    const isNew = (module: string): boolean =>
      now.get(module) !== undefined && now.get(module) !== before.get(module);
    return new Set([...requested].filter(([name]) => isNew(name)).map(([, { source }]) => source));
  }
}
