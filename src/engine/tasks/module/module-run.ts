/**
 * A run of a module in progress, or its removal: what it records, its hooks, and the files that these may write (docs/reference/lifecycle.md,
 * "Files that hooks write"). The record of the module, in the state, contains among others its last run, its hooks, and what its runs have
 * attempted and handled.
 */

import { ExistingObjectsError, type OnWait } from "../../../helm/index.ts";
import { lineWithCommand, oneLine } from "../../../base/index.ts";
import { describeProblem } from "../../../base/model/index.ts";
import type { Cause, Hook, LifecycleName, Problem } from "../../../base/model/index.ts";
import { reportTree } from "../../../modules/index.ts";
import { findRunProblem } from "../../plan/index.ts";
import type { RunContext } from "../../queue/index.ts";
import type { ModuleActivity, ModuleEvents, ModuleRecord, RetryReason } from "../../state/index.ts";
import { configureModule, factsOf, recordLoadResult } from "../files/load.ts";
import { scheduleRecheck } from "../files/read-modules.ts";
import { executeHook, describeHookError } from "../hooks/execute-hook.ts";
import { deactivate } from "../hooks/activate-hooks.ts";
import type { Ports } from "../ports.ts";

export const SWITCHED_OFF = "the module was disabled";

interface ModuleRunOptions {
  readonly record: ModuleRecord;
  readonly activity: ModuleActivity;
  readonly cause: Cause;
}

/** A run of a module in progress, or its removal. Each method records what has happened in the record of the module, which the status displays. */
export class ModuleRun {
  readonly name: string;
  readonly ports: Ports;
  readonly context: RunContext;
  /** The first run for a user's request, unless that requests a rollback. */
  readonly isRequested: boolean;
  /** Whether the module must be on or off: the only run of a module that is off is its removal. */
  readonly #requiredState: "on" | "off";
  #lastRecord: ModuleRecord;
  readonly #startedAt: number;
  readonly #startedMonotonic: number;
  /** Digest of the module's files, if changed files are the cause. */
  readonly #filesDigest: string | undefined;
  /** Hooks have changed files of the module. If files are watched, that causes another run. */
  hasWritten = false;

  /**
   * Records the begin of the run with its inputs. A user requests a run by a new token in an annotation: `isRequested` makes helm try inputs again that
   * were refused before, unless the request is one to roll back.
   */
  constructor(ports: Ports, { record, activity, cause }: ModuleRunOptions, context: RunContext) {
    this.name = record.module.name;
    this.ports = ports;
    this.context = context;
    this.#lastRecord = record;
    this.#requiredState = activity === "deleting" ? "off" : "on";
    this.#startedAt = ports.clock.now();
    this.#startedMonotonic = ports.clock.monotonic();
    // Shows at the end whether hooks have changed files, which would cause another run.
    this.#filesDigest = cause.kind === "files" ? ports.contentOf([record.module]) : undefined;
    const { requestedToken: token, run: before } = record;
    // A retry or a later run of the same request does only what the inputs require.
    const isNewToken = token !== undefined && token !== (before.attempted?.token ?? before.handled.token);
    this.isRequested = isNewToken && record.rollbackRequest === undefined;
    const attempts = context.failures + 1;
    this.#record("runStarted", { activity, cause, startedAt: this.#startedAt, attempts });
  }

  /** The record of the module at this moment; of a module whose directory was deleted, the last one. */
  get record(): ModuleRecord {
    this.#lastRecord = this.ports.state.module(this.name) ?? this.#lastRecord;
    return this.#lastRecord;
  }

  /** Records the next step, or the next hook in it. Throws if the module was switched off. */
  beginStep(step: string, hook?: string): void {
    if (this.#requiredState === "on" && !isEnabled(this.ports, this.name)) throw new Error(SWITCHED_OFF);
    this.#record("runStepReached", { step, hook });
  }

  /** Records what the run waits for, in words. */
  recordWait(what: string): void {
    this.#record("runStepReached", { waitsFor: what });
  }

  /** Records the hook of the chart that helm waits for. */
  readonly onWait: OnWait = (hook) =>
    this.#record("runStepReached", { hook: hook?.name, hookSince: hook?.since });

  /** Runs the module's hooks with this binding one after another, up to the first failure. */
  async runHooks(binding: LifecycleName): Promise<void> {
    const { queue, signal } = this.context;
    this.beginStep(binding);
    for (const { hook, trigger } of lifecycleHooks(this.record.hooks, binding)) {
      signal.throwIfAborted();
      this.beginStep(binding, hook.name);
      await executeHook(this.ports, { hook, triggers: [trigger], queue, signal });
    }
  }

  /** Records the current values as the inputs of the run: helm uses them, and later changes cause another run. */
  recordValues(): void {
    this.#record("runInputsRefreshed");
  }

  /** Records that all steps are done, so the inputs of the run are handled, and whether hooks changed files, which may cause another run. */
  recordStepsDone(): void {
    const { contentOf } = this.ports;
    this.hasWritten =
      this.#filesDigest !== undefined && this.#filesDigest !== contentOf([this.record.module]);
    this.#record("runStepsCompleted", this.hasWritten);
  }

  /** Duration so far in ms. */
  get ms(): number {
    return Math.round(this.ports.clock.monotonic() - this.#startedMonotonic);
  }

  /** Records the end of the run: with success, or with the reason why the release was rolled back. */
  recordEnd(rollbackReason?: string): void {
    // Start plus monotonic duration, so that a changed wall clock does not matter.
    const now = this.#startedAt + this.ms;
    const { suspended } = this.ports.state.values.settings(this.record.module);
    if (rollbackReason === undefined) this.#record("runSucceeded", now, suspended);
    else this.#record("runRolledBack", rollbackReason, now);
  }

  /** Records that the run has failed and is retried; returns the failure as text. `question` is what a user must confirm before the retry can succeed. */
  recordFailure(error: unknown, reason: RetryReason): string {
    const { clock, report } = this.ports;
    const message = describeHookError(error);
    const question = error instanceof ExistingObjectsError ? error.question : undefined;
    const failures = this.context.failures + 1;
    const failure = { reason, message, failures, line: lineWithCommand(error), question };
    this.#record("runFailed", failure, clock.now());
    report.failed(this.name, reason, message);
    return message;
  }

  /** Records that the run ended without success and is not retried by its queue. */
  endWithoutResult(message: string): void {
    this.#record("runEndedAsFailed", message, this.ports.clock.now());
  }

  /** Records that the run was cancelled, with the reason of the abort. */
  endInterrupted(): void {
    const { signal } = this.context;
    this.endWithoutResult(`interrupted: ${signal.aborted ? oneLine(signal.reason) : SWITCHED_OFF}`);
  }

  /** Records an event of the module in the state. */
  #record<E extends keyof ModuleEvents>(event: E, ...details: ModuleEvents[E]): void {
    this.ports.state.recordModule(this.name, event, ...details);
  }
}

/** Whether the module still exists and is enabled. In its own queue, it may run while discovery switches it off. */
export function isEnabled({ state }: Ports, module: string): boolean {
  return state.module(module)?.enabled === true;
}

/** Hooks with this lifecycle binding, by ORDER, then by name. */
export function lifecycleHooks(hooks: readonly Hook[], name: LifecycleName) {
  return hooks
    .flatMap((hook) => {
      const binding = hook.config.bindings.lifecycle.find((each) => each.name === name);
      return binding === undefined ? [] : [{ hook, trigger: { type: "lifecycle", binding } as const }];
    })
    .sort((a, b) => a.trigger.binding.order - b.trigger.binding.order);
}

/** Ends a run before helm: files of the module are missing or broken. */
export class FilesUnusable extends Error {
  readonly problem: Problem | undefined;

  constructor(message: string, problem?: Problem) {
    super(message);
    this.problem = problem;
  }
}

/**
 * Called in a run, after a hook. Reads changed files of the module again, except hooks and CRDs: templates, values, schemas, `addon.yaml`. The next converge
 * applies new CRDs. Without a change it only lists the directory. Throws FilesUnusable if the module cannot run with the new files.
 */
export async function applyWrittenFiles(ports: Ports, name: string): Promise<void> {
  const { state, logger } = ports;
  const read = await state.readOnCurrentTree((before) => ports.reader.rereadModule(before, name));
  if (read.tree === read.before) return;
  // A module awaits its CRDs until they are applied for this very object. The new tree has another one, although its CRDs were not
  // read again: it awaits them only if the former object did.
  const awaitsCrds = state.view.modules.get(name)?.awaitsCrds ?? false;
  reportTree(logger, read.tree, read.before);
  scheduleRecheck(ports, read.tree);
  state.recordTree(read.tree);
  state.recordModule(name, "crdsApplied", awaitsCrds ? undefined : state.module(name)?.module);
  logger.info("Files of the module have changed and are read again", { module: name });
  assertUsable(ports, name);
}

/** As `applyWrittenFiles`, but also configures changed hooks. Only a first run can do that, before it has run any hook. Throws FilesUnusable. */
export async function applyWrittenFilesAndHooks(
  ports: Ports,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  await applyWrittenFiles(ports, name);
  const record = ports.state.module(name);
  if (record === undefined || record.loadedModule === record.module) return; // Its current files are loaded.
  const { module } = record;
  deactivate(ports, recordLoadResult(ports, module, await configureModule(ports, module, signal)));
  assertUsable(ports, name);
}

/** Throws FilesUnusable if the module cannot run with its files: with a problem if a user must fix them, without one if files are missing for a moment. */
function assertUsable(ports: Ports, name: string): void {
  const record = ports.state.module(name);
  if (record === undefined) return;
  const { module, loadProblem } = record;
  const missingFiles = module.unconfirmedMissing?.what.join(", ");
  if (missingFiles !== undefined)
    throw new FilesUnusable(`files are missing: ${missingFiles}; they are checked again soon`);
  const problem = module.problem ?? loadProblem ?? findRunProblem(factsOf(ports, module));
  if (problem !== undefined) throw new FilesUnusable(describeProblem(problem), problem);
}
