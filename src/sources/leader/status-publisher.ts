/**
 * Publishes what checks have found about ModuleSources: in their statuses, in the state and in metrics. Findings are the errors and
 * waiting versions, by module, that the last check of a source has found.
 */

import { isDeepStrictEqual } from "node:util";

import type { UpdateWait, WaitingUpdate } from "../../base/model/index.ts";
import { describeSourceProblem, toStatusLine } from "../../report/index.ts";
import type { SourcesContext } from "../context.ts";
import type { LockEntry, ModuleError, WaitingVersion } from "../types.ts";
import { buildStatus, describeWaitingVersion, type SourceFindings } from "./source-status.ts";

/** Publishes the status of a source, its waiting updates and its metrics. */
export class StatusPublisher {
  readonly #context: SourcesContext;
  readonly #waitingUpdates: WaitingUpdateRecorder;
  /** Sources that have a series for their last check. */
  readonly #sourcesWithSeries = new Set<string>();
  /** What is wrong with sources, by name. */
  readonly #problems = new Map<string, string>();

  constructor(context: SourcesContext) {
    this.#context = context;
    this.#waitingUpdates = new WaitingUpdateRecorder(context);
  }

  /** Clears the problem and the waiting updates of a source that was deleted. */
  forgetSource(name: string): void {
    this.#recordProblem(name, undefined);
    this.#sourcesWithSeries.delete(name);
    this.#waitingUpdates.recordFindings(name, new Map(), undefined);
  }

  /** Builds the status of a source from the findings of its last check, and publishes both. */
  publish(name: string, findings: SourceFindings): void {
    const { options, lock, lockedModules, sources } = this.#context;
    const source = sources.get(name);
    if (source === undefined) return;
    const { clock, namespace, metrics, statuses } = options;
    const status = buildStatus({ source, lock, lockedModules, findings, now: clock.now(), namespace });
    const ready = status.conditions.find(({ type }) => type === "Ready")?.status;
    metrics.set("sourceReady", { source: name }, ready === "True" ? 1 : 0);
    this.#recordFirstFailure(name, findings);
    this.#waitingUpdates.recordFindings(name, findings.waitingVersions, findings.errors);
    this.#recordProblem(name, describeSourceProblem({ ...source.object, status }));
    const { uid = "", generation = 1 } = source.object.metadata;
    statuses.setSourceStatus(name, { uid, generation }, status);
  }

  /** Records in the state what is wrong with a source; undefined: nothing is. */
  #recordProblem(name: string, problem: string | undefined): void {
    if (this.#problems.get(name) === problem) return;
    if (problem === undefined) this.#problems.delete(name);
    else this.#problems.set(name, problem);
    // Each begins with the name of its source.
    const sourceProblems = [...this.#problems.values()].sort();
    this.#context.options.state.record("sourceProblemsChanged", sourceProblems);
  }

  /** If the first check after a start fails, its time counts as the last success: an alert measures from then on. */
  #recordFirstFailure(name: string, { errors = new Map() }: SourceFindings): void {
    const { clock, metrics } = this.#context.options;
    const isFailed = [...errors.values()].some(({ reason }) => reason === "CheckFailed");
    if (!this.#sourcesWithSeries.has(name) && isFailed)
      metrics.set("sourceLastSuccess", { source: name }, clock.now() / 1000);
    this.#sourcesWithSeries.add(name);
  }
}

/** What a check has found about one module. */
interface ModuleFindings {
  readonly source: string;
  readonly module: string;
  readonly namespace: string;
  readonly waitingVersion: WaitingVersion | undefined;
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
 * Turns the findings about a module into the update that the state displays as waiting; undefined if none waits. Errors that
 * keep newer content away count as a waiting update, too. An error of a module that has no content in use does not: it is a
 * problem of the module.
 */
export function toWaitingUpdate(findings: ModuleFindings): WaitingUpdate | undefined {
  const { source, waitingVersion, error, locked, now } = findings;
  if (waitingVersion !== undefined) {
    const { version, digest, since, until, waitsFor } = waitingVersion;
    const message = describeWaitingVersion(waitingVersion, findings.namespace, findings.module);
    return { source, waitsFor, version, digest, since, until, message };
  }
  const waitsFor = error && WAIT_BY_ERROR[error.reason];
  if (error === undefined || waitsFor === undefined || locked === undefined) return undefined;
  const about = waitsFor === "registry" ? "newer versions cannot be looked up" : "newer content is not used";
  const message = toStatusLine(`${about}: ${error.message}; ${locked.version} stays in force`);
  return { source, waitsFor, version: undefined, digest: undefined, since: now, until: undefined, message };
}

/** Records waiting updates in the state and in metrics. */
export class WaitingUpdateRecorder {
  readonly #context: Pick<SourcesContext, "options" | "lock" | "lockedModules">;
  readonly #updates = new Map<string, WaitingUpdate>();
  /** Whether the state may contain updates. While it does not, and there are none, its changes are of no interest. */
  #hasRecorded = false;

  constructor(context: Pick<SourcesContext, "options" | "lock" | "lockedModules">) {
    this.#context = context;
    // The record of a new module is made when its directory is read, maybe after the check.
    context.options.state.onChange(() => this.#recordInState());
  }

  /** Records what the last check of a source found about its modules; forgets modules about which it found nothing. */
  recordFindings(
    source: string,
    waitingVersions: ReadonlyMap<string, WaitingVersion>,
    errors: ReadonlyMap<string, ModuleError> | undefined,
  ): void {
    const { namespace, clock } = this.#context.options;
    const names = new Set([...waitingVersions.keys(), ...(errors?.keys() ?? [])]);
    for (const [module, update] of this.#updates)
      if (update.source === source && !names.has(module)) this.#setUpdate(module, undefined);
    for (const module of names) {
      const found = { waitingVersion: waitingVersions.get(module), error: errors?.get(module) };
      const locked = this.#findUsableEntry(source, module);
      const about = { source, module, namespace, now: clock.now(), locked };
      this.#setUpdate(module, toWaitingUpdate({ ...about, ...found }));
    }
    this.#recordInState();
  }

  /** Finds the locked entry of a module of this source, if its content can be used. */
  #findUsableEntry(source: string, module: string): LockEntry | undefined {
    const { lock, lockedModules } = this.#context;
    const entry = lock.entries.get(module);
    const isUsable = lockedModules.getContent(module)?.problem === undefined;
    return entry?.source === source && isUsable ? entry : undefined;
  }

  /** Replaces the waiting update of a module, and its series. */
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
    // Without updates, a record has to be cleared only if the last call has written one.
    if (this.#updates.size === 0 && !this.#hasRecorded) return;
    this.#hasRecorded = this.#updates.size > 0;
    const { state } = this.#context.options;
    for (const { module, update } of state.records()) {
      const now = this.#updates.get(module.name);
      if (update !== now) state.recordModule(module.name, "updateObserved", now);
    }
  }
}

/**
 * Keeps the time at which an error first occurred, and the earlier object if nothing has changed: the state compares
 * objects. A waiting version, which has a version, keeps its own time.
 */
function keepEarlierTime(before: WaitingUpdate | undefined, found: WaitingUpdate): WaitingUpdate {
  const isSame = before?.source === found.source && before.waitsFor === found.waitsFor;
  const now = isSame && found.version === undefined ? { ...found, since: before.since } : found;
  return before !== undefined && isDeepStrictEqual(before, now) ? before : now;
}
