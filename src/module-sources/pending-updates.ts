/** Records in the state and in metrics which newer content of modules is not used yet, and why. */

import { sameJson } from "../lib/index.ts";
import type { Json, UpdateWait, WaitingUpdate } from "../model/index.ts";
import { APPROVE_UPDATE } from "../state/index.ts";
import { toStatusLine } from "../status/index.ts";
import { toApproval } from "./choose.ts";
import type { PendingUpdate, ModuleError } from "./leader/entry/findings.ts";
import type { SourcesContext } from "./context.ts";
import type { LockEntry } from "./types.ts";

/** Describes why an update is not used yet, with the command that approves it. */
export function describePendingUpdate(held: PendingUpdate, namespace: string, module: string): string {
  const target = `-n ${namespace} addonmodule/${module}`;
  const command = `kubectl annotate --overwrite ${target} ${APPROVE_UPDATE}=${toApproval(held)}`;
  return toStatusLine(`${held.reason}; to use it now: ${command}`);
}

/** What a check has found about one module. */
interface ModuleFindings {
  readonly source: string;
  readonly module: string;
  readonly namespace: string;
  readonly pendingUpdate: PendingUpdate | undefined;
  readonly error: ModuleError | undefined;
  /** The entry whose content is in use. */
  readonly locked: LockEntry | undefined;
  readonly now: number;
}

const WAIT_BY_ERROR: Readonly<Record<ModuleError["reason"], UpdateWait | undefined>> = {
  NotVerified: "refused",
  Blocked: "blocked",
  Withdrawn: "withdrawn",
  CheckFailed: "registry",
  // Nothing waits: another directory or source provides the module.
  Overridden: undefined,
};

/**
 * Turns the findings about a module into the update that the state displays as waiting; undefined if none waits. An error
 * of a module that has no content in use is a problem of the module instead.
 */
export function toWaitingUpdate({
  source,
  module,
  namespace,
  pendingUpdate,
  error,
  locked,
  now,
}: ModuleFindings): WaitingUpdate | undefined {
  if (pendingUpdate !== undefined) {
    const { version, digest, since, until, waitsFor } = pendingUpdate;
    return {
      source,
      waitsFor,
      version,
      digest,
      since,
      until,
      message: describePendingUpdate(pendingUpdate, namespace, module),
    };
  }
  const waitsFor = error && WAIT_BY_ERROR[error.reason];
  if (error === undefined || waitsFor === undefined || locked === undefined) return undefined;
  const about = waitsFor === "registry" ? "newer versions cannot be looked up" : "newer content is not used";
  const message = toStatusLine(`${about}: ${error.message}; ${locked.version} stays in force`);
  return { source, waitsFor, version: undefined, digest: undefined, since: now, until: undefined, message };
}

/** Records pending updates in the state and in metrics. */
export class PendingUpdateRecorder {
  readonly #context: Pick<SourcesContext, "options" | "lockedModules">;
  readonly #updates = new Map<string, WaitingUpdate>();
  /** Whether the state may contain updates. While it does not, and there are none, its changes are of no interest. */
  #hasRecorded = false;

  constructor(shared: Pick<SourcesContext, "options" | "lockedModules">) {
    this.#context = shared;
    // The record of a new module is made when its directory is read, maybe after the check.
    shared.options.state.onChange(() => this.#recordInState());
  }

  /** Records what the last check of a source found about its modules; forgets modules about which it found nothing. */
  recordFindings(
    source: string,
    pendingUpdates: ReadonlyMap<string, PendingUpdate>,
    errors: ReadonlyMap<string, ModuleError> | undefined,
  ): void {
    const { namespace, clock } = this.#context.options;
    const names = new Set([...pendingUpdates.keys(), ...(errors?.keys() ?? [])]);
    for (const [module, { source: before }] of this.#updates)
      if (before === source && !names.has(module)) this.#setUpdate(module, undefined);
    for (const module of names) {
      const pendingUpdate = pendingUpdates.get(module);
      const error = errors?.get(module);
      const about = {
        source,
        module,
        namespace,
        now: clock.now(),
        locked: this.#findUsableEntry(source, module),
      };
      this.#setUpdate(module, toWaitingUpdate({ ...about, pendingUpdate, error }));
    }
    this.#recordInState();
  }

  /** Finds the locked entry of a module of this source, if its content can be used. */
  #findUsableEntry(source: string, module: string): LockEntry | undefined {
    const { lockedModules } = this.#context;
    const own = lockedModules.entries.get(module);
    return own?.source === source && lockedModules.getContent(module)?.problem === undefined
      ? own
      : undefined;
  }

  /** Replaces the pending update of a module, and its series. */
  #setUpdate(module: string, found: WaitingUpdate | undefined): void {
    const { metrics } = this.#context.options;
    const before = this.#updates.get(module);
    if (before?.waitsFor !== found?.waitsFor) metrics.dropSeries({ module }, ["sourceUpdateWaiting"]);
    if (found === undefined) return void this.#updates.delete(module);
    const now = keepEarlierTime(before, found);
    this.#updates.set(module, now);
    metrics.set("sourceUpdateWaiting", { module, reason: now.waitsFor }, 1);
  }

  /** Writes the updates into the records of the modules. Called again after each change of the state, see the constructor. */
  #recordInState(): void {
    if (this.#updates.size === 0 && !this.#hasRecorded) return;
    this.#hasRecorded = this.#updates.size > 0;
    const { state } = this.#context.options;
    for (const { module, update } of state.records()) {
      const now = this.#updates.get(module.name);
      if (update !== now) state.recordModule(module.name, "factsObserved", { update: now });
    }
  }
}

/**
 * Keeps the time at which an error first occurred, and the earlier object if nothing has changed: the state compares
 * objects.
 */
function keepEarlierTime(before: WaitingUpdate | undefined, found: WaitingUpdate): WaitingUpdate {
  const isSame = before?.source === found.source && before.waitsFor === found.waitsFor;
  const now = isSame && found.version === undefined ? { ...found, since: before.since } : found;
  return before !== undefined && sameJson(toJson(before), toJson(now)) ? before : now;
}

const toJson = (update: WaitingUpdate): Json => JSON.parse(JSON.stringify(update)) as Json;
