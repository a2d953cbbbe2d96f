/** Observes updates: whether their content has become good, or helm has rolled the release back, and what users approve. */

import type { ModuleView } from "../../engine/state/index.ts";
import type { ModuleExplanation } from "../../report/index.ts";
import type { SourcesContext } from "../context.ts";
import type { LockEntry } from "../types.ts";
import { buildGoodEntry } from "./entry-marks.ts";

/** After this time the content of a module that is Ready counts as good, although nothing of the update made it run. */
const SETTLED_MS = 60_000;

/**
 * Whether new content has become good: the module has run with it and is Ready, or it is off or suspended. False while the state
 * has not read the content (`digest`). A module that is Ready long after the update counts without a run: nothing needed one.
 */
export function hasBecomeGood(
  { at, digest }: LockEntry,
  module: Pick<ModuleExplanation, "view" | "state"> | undefined,
  now: number,
): boolean {
  if (module?.view.module.origin?.digest !== digest) return false;
  const { view, state } = module;
  if (state === "Disabled" || state === "Suspended") return true;
  return state === "Ready" && (hasRunSince(at, view) || now - at > SETTLED_MS);
}

/** Whether a run of the module has begun since `at` and has ended. */
function hasRunSince(at: number, { lastRun }: ModuleView): boolean {
  return lastRun !== undefined && lastRun.startedAt >= at && lastRun.finishedAt !== undefined;
}

/**
 * Describes why helm has rolled the release back to the content before an update, whose own content is then rejected; undefined
 * if helm has not. `getInstalledDigest` returns the digest of the content from which the installed revision was made; undefined
 * if the revision does not record it, then new content counts as rolled back. Undefined also while the state has not read the
 * content of the update yet.
 */
export function describeRollback(
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

/** Describes why helm has rolled back the update of a module that is in use; undefined if it has not. */
export function findRollbackReason({ options, lock }: SourcesContext, module: string): string | undefined {
  const entry = lock.entries.get(module);
  const view = options.state.view.modules.get(module);
  return entry && describeRollback(entry, view, () => options.releases.observed.getArtifactDigest(module));
}

/** The content that a user has approved for a module: `VERSION@DIGEST`. */
export function getApproval({ options }: SourcesContext, module: string): string | undefined {
  return options.state.module(module)?.confirmedUpdate;
}

/** What the observer of updates calls. */
interface UpdateObserverPorts {
  /** Does work in the background, and reports its errors. */
  readonly runInBackground: (work: () => Promise<void>) => void;
  /** Checks a source, because the content of an update has become good or was rolled back, or a user has approved one. */
  readonly triggerCheck: (source: string) => void;
}

/** Records in the lock which content has become good, and triggers checks of sources after rollbacks by helm and approvals by users. */
export class UpdateObserver {
  readonly #context: SourcesContext;
  readonly #ports: UpdateObserverPorts;
  readonly #recording = new Set<string>();
  /** Updates that helm has rolled back, as module and digest. */
  readonly #reportedRollbacks = new Set<string>();
  /** The approvals at the last review, by module. */
  #approvals: ReadonlyMap<string, string | undefined> = new Map();

  constructor(context: SourcesContext, ports: UpdateObserverPorts) {
    this.#context = context;
    this.#ports = ports;
  }

  /** Searches the state, after it has changed, for rollbacks by helm, content that has become good, and new approvals. */
  review(): void {
    this.#reviewApprovals();
    const { lock, options } = this.#context;
    const { explain, clock } = options;
    for (const [name, entry] of lock.entries) {
      this.#reportRollbackOnce(name, entry);
      if (entry.isNew !== true || this.#recording.has(name)) continue;
      if (!hasBecomeGood(entry, explain().module(name), clock.now())) continue;
      this.#recording.add(name);
      this.#ports.runInBackground(() => this.#markGood(name, entry));
    }
  }

  /** Requests a check of the source once for each update that helm has rolled back; the check rolls the content back. */
  #reportRollbackOnce(name: string, { source, digest }: LockEntry): void {
    const key = `${name} ${digest}`;
    if (findRollbackReason(this.#context, name) === undefined)
      return void this.#reportedRollbacks.delete(key);
    if (this.#reportedRollbacks.has(key)) return;
    this.#reportedRollbacks.add(key);
    this.#ports.triggerCheck(source);
  }

  /** Marks the content of an entry good, so that updates of other modules may begin. */
  async #markGood(name: string, { digest }: LockEntry): Promise<void> {
    const { lock, lockedModules } = this.#context;
    try {
      await this.#context.commit(async () => {
        const entry = lock.entries.get(name);
        if (entry?.digest === digest) await lockedModules.writeEntry(name, buildGoodEntry(entry));
      });
    } finally {
      this.#recording.delete(name);
    }
    const source = lock.entries.get(name)?.source;
    if (source !== undefined) this.#ports.triggerCheck(source);
  }

  /** Triggers a check of the source of each module whose approval is new since the last review. */
  #reviewApprovals(): void {
    const { requested } = this.#context.sources;
    const before = this.#approvals;
    this.#approvals = new Map([...requested.keys()].map((name) => [name, getApproval(this.#context, name)]));
    for (const [name, { source }] of requested) {
      const approval = this.#approvals.get(name);
      if (approval !== undefined && approval !== before.get(name)) this.#ports.triggerCheck(source);
    }
  }
}
