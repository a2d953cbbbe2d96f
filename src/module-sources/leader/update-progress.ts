/** Decides whether an update may begin: the last one of its source works, or a user has approved this one. */

import type { Clock } from "../../lib/index.ts";
import type { ModuleView, State } from "../../state/index.ts";
import { evaluateModule } from "../../status/index.ts";
import type { Stock, RequestedModule } from "../locked-modules.ts";
import type { Lock, LockEntry } from "../types.ts";

/** After this time a module that is Ready counts as proven, although nothing of the update made it run. */
const SETTLED_MS = 60_000;

/** Whether an update works: the module has run with it and is Ready, or it is off or suspended. */
export function isProven({ at, digest }: LockEntry, view: ModuleView | undefined, now: number): boolean {
  if (view === undefined || view.module.origin?.digest !== digest) return false;
  const { state } = evaluateModule(view, { now });
  if (state === "Disabled" || state === "Suspended") return true;
  return state === "Ready" && (hasRunSince(at, view) || now - at > SETTLED_MS);
}

function hasRunSince(at: number, { lastRun }: ModuleView): boolean {
  return lastRun !== undefined && lastRun.startedAt >= at && lastRun.finishedAt !== undefined;
}

/**
 * What an update of `module` has to wait for; undefined if it may begin. At most `parallel` updates of a source are under
 * way, or have failed and wait for other content.
 */
export function updatesBefore(
  lock: Lock,
  {
    module,
    source,
    parallel,
  }: { readonly module: string; readonly source: string; readonly parallel: number },
): string | undefined {
  const open = [...lock].filter(
    ([name, each]) =>
      name !== module &&
      each.source === source &&
      (each.isNew === true || each.isBack === true) &&
      each.removed !== true,
  );
  const [first] = open;
  if (first === undefined || open.length < parallel) return undefined;
  const [name, { version, isBack }] = first;
  return isBack === true
    ? `because an update of ${name} has failed, and ${version} is in use again`
    : `until the update of ${name} to ${version} has proven itself`;
}

interface UpdatesOptions {
  readonly state: State;
  readonly stock: Stock;
  readonly clock: Clock;
  /** Does work in the background, and reports its errors. */
  readonly guard: (work: () => Promise<void>) => void;
  readonly commit: (work: () => Promise<void>) => Promise<void>;
  /** Why the update of a module has failed; undefined if it has not. */
  readonly failureOf: (module: string) => string | undefined;
  /** Called when an update of this source has proven itself, or has failed. */
  readonly decided: (source: string) => void;
}

/** Notices when updates have proven themselves, and records that in the lock. Those that have failed are left to a check. */
export class Updates {
  readonly #options: UpdatesOptions;
  readonly #recording = new Set<string>();
  /** Updates that have failed, as module and digest. */
  readonly #failed = new Set<string>();

  constructor(options: UpdatesOptions) {
    this.#options = options;
  }

  /** To be called after each change of the state. */
  review(): void {
    const { state, stock, clock, guard } = this.#options;
    for (const [name, entry] of stock.entries) {
      this.#noticeFailure(name, entry);
      if (entry.isNew !== true || this.#recording.has(name)) continue;
      if (!isProven(entry, state.view.modules.get(name), clock.now())) continue;
      this.#recording.add(name);
      guard(() => this.#record(name, entry));
    }
  }

  #noticeFailure(name: string, { source, digest }: LockEntry): void {
    const { failureOf, decided } = this.#options;
    const key = `${name} ${digest}`;
    if (failureOf(name) === undefined) return void this.#failed.delete(key);
    if (this.#failed.has(key)) return;
    this.#failed.add(key);
    decided(source);
  }

  async #record(name: string, { digest }: LockEntry): Promise<void> {
    const { stock, commit, decided } = this.#options;
    try {
      await commit(async () => {
        const entry = stock.entries.get(name);
        if (entry?.digest !== digest) return;
        const { isNew: _, ...rest } = entry;
        await stock.lock(name, rest);
      });
    } finally {
      this.#recording.delete(name);
    }
    const source = stock.entries.get(name)?.source;
    if (source !== undefined) decided(source);
  }
}

/** The approvals at the last call. */
export class Approvals {
  readonly #seen = new Map<string, string>();

  /** The sources of modules that have an approval which they had not at the last call. */
  news(
    requested: ReadonlyMap<string, Pick<RequestedModule, "source">>,
    approvedOf: (module: string) => string | undefined,
  ): ReadonlySet<string> {
    const sources = new Set<string>();
    for (const [module, { source }] of requested) {
      const approval = approvedOf(module);
      if (approval === this.#seen.get(module)) continue;
      if (approval === undefined) this.#seen.delete(module);
      else this.#seen.set(module, approval);
      if (approval !== undefined) sources.add(source);
    }
    return sources;
  }
}
