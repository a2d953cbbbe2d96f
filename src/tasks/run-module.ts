/** The run of one module, step by step, and what is recorded of it (docs/LIFECYCLE.md, "Start-up and reload"). */

import { provesBroken } from "../health/index.ts";
import {
  ExistingObjectsError,
  ForeignReleaseError,
  RestoreError,
  UnusableChartError,
} from "../helm/index.ts";
import type { OnWait, ReconcileRequest, ReleaseOutcome } from "../helm/index.ts";
import { oneLine } from "../lib/index.ts";
import { describeCause } from "../model/index.ts";
import type { Cause, Hook, LifecycleBinding, LifecycleName, RunModuleTask, Task } from "../model/index.ts";
import { mayBegin, waitOf } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { MAX_ROUNDS, type ModuleActivity, type ModuleRecord } from "../state/index.ts";
import type { ModuleView, RetryReason, RunEvents } from "../state/index.ts";
import { helmInput, incompleteValues, invalidValues, withoutHelm } from "../values/index.ts";
import { span } from "../trace/index.ts";
import type { Ports } from "./run-task.ts";
import { endRestore } from "./restore-module.ts";
import { HookFailure, executeHook, failureText } from "./execute-hook.ts";
import { activate } from "./sources.ts";
import { tellProblem } from "./load.ts";
import { FilesUnusable, takeWritten, takeWrittenWithHooks } from "./written-files.ts";

/** Why a run ends before its end. */
export const SWITCHED_OFF = "the module was switched off";

/** Values are missing that a hook may still fill in. */
class IncompleteValues extends Error {}

/** Hooks of the module cause another run every time. */
class Unstable extends Error {}

/**
 * Module run: onStartup and Synchronization the first time, then beforeHelm, helm, afterHelm. After a failure, a
 * first run starts again from onStartup, a later one from beforeHelm.
 */
export async function runModule(
  ports: Ports,
  task: RunModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  await endRestore(ports, task.module);
  const record = ports.state.module(task.module);
  const view = ports.state.view.modules.get(task.module);
  if (record === undefined || view === undefined || !mayBegin(view)) return { kind: "done" };
  const problem = invalidValues(ports.state.values, record.module);
  if (problem !== undefined) {
    // An edit removed a required value, or a file was changed: treated as if discovery had found it.
    tellProblem(ports, record.module, { enabled: true, problem });
    ports.state.recordProblem(task.module, problem);
    return { kind: "done" };
  }
  if (isPassedOver(ports, view)) return { kind: "done" };
  const activity = task.cause.kind === "absent" ? "healing" : "running";
  const run = new ModuleRun(ports, { record, activity, trigger: task.cause }, context);
  try {
    end(run, task, await steps(run));
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted || !isOn(ports, run.name)) return cancelled(run, task);
    return fail(run, error);
  }
}

/**
 * Whether something that the module requires is not there. Its turn passes then, so that what it waits for, which may
 * stand behind it in the queue, is not held up: the plan offers the run again when all is there.
 */
function isPassedOver({ state, clock, logger }: Ports, module: ModuleView): boolean {
  const { name, heldSince } = module;
  const wait = waitOf(module, state.view);
  if (wait === undefined) return false;
  if (heldSince === undefined)
    logger.info("Module waits", { module: name, for: wait.message, reason: wait.reason });
  state.noteRun(name, "passedOver", clock.now());
  return true;
}

/** Returns why the release is not what was asked for, where it went back to what was good. */
async function steps(run: ModuleRun): Promise<string | undefined> {
  const { ports, name, record } = run;
  await goBack(run);
  if (record.run.phase !== "ready") await firstRun(run);
  await activateHooks(run);
  await run.hooks("beforeHelm");
  await takeWritten(ports, name);
  run.takeValues();
  const outcome = await helmStep(run);
  const refused = outcome?.refused;
  if (refused === undefined) await run.hooks("afterHelm");
  run.complete();
  ports.recorder.released(name, outcome);
  if (refused !== undefined) return refused;
  if (record.run.rounds >= MAX_ROUNDS) {
    const what = run.hasWritten ? "hooks change files of the module" : "afterHelm hooks change values";
    throw new Unstable(`${what} at every run`);
  }
  return undefined;
}

/** What a person asked for comes before everything that could fail, and once. */
async function goBack(run: ModuleRun): Promise<void> {
  const { ports, name, context, onWait } = run;
  const { wayBack, module } = run.record;
  if (wayBack === undefined) return;
  run.step("rollback");
  const { signal } = context;
  const request = { ...helmInput(ports.state.values, module), signal, onWait };
  try {
    const release = await ports.releases.rollBack(request, wayBack.revision);
    ports.state.update(name, (record) => void (record.release = release));
  } finally {
    // An interrupted run begins anew; what failed is carried on by the labels of the release.
    if (!signal.aborted) ports.state.update(name, (record) => void (record.wayBack = undefined));
  }
}

/** The first run since the module became enabled. */
async function firstRun(run: ModuleRun): Promise<void> {
  const { state } = run.ports;
  await takeWrittenWithHooks(run.ports, run.name);
  state.update(run.name, (record) => void (record.ranHere = true));
  state.updateRun(run.name, (before) => ({ ...before, phase: "onStartup" }));
  await run.hooks("onStartup");
  state.updateRun(run.name, (before) => ({ ...before, phase: "synchronization" }));
}

/** Hooks that are new since the last run are activated. */
async function activateHooks(run: ModuleRun): Promise<void> {
  const { ports, record } = run;
  const { context } = run;
  const idle = record.hooks.filter((hook) => !record.active.has(hook.id));
  if (idle.length === 0) return;
  run.step("synchronization");
  await activate(ports, idle, {
    ...context,
    onStart: ({ name }) => run.step("synchronization", name),
    onWait: (what) => run.waitFor(what),
    waitUntil: "tried",
    // It is tried again in its own queue, and then so is the run (`runHookTask`).
    onFailure(failure) {
      throw failure;
    },
  });
}

/** Undefined when there is nothing for helm to do. */
async function helmStep(run: ModuleRun): Promise<ReleaseOutcome | undefined> {
  const { ports, name, isAsked, onWait, context } = run;
  run.step("helm");
  const { module, absent, confirmedTakeover } = run.record;
  const { values } = ports.state;
  const missing = incompleteValues(values, module);
  if (missing !== undefined) throw new IncompleteValues(missing);
  if (withoutHelm(values, module) !== undefined) return undefined;
  const ailing = ports.state.view.modules.get(name)?.ailing;
  if (provesBroken(ailing))
    ports.state.updateRun(name, (before) => ({ ...before, foundUnhealthy: run.record.release?.revision }));
  const why = { absent, isAsked, ailing, confirmedTakeover };
  const request = { ...helmInput(values, module), ...why, signal: context.signal, onWait };
  const outcome = await reconcile(ports, request).catch((error: unknown) => {
    // What was restored is not restored again at the next try.
    if (error instanceof RestoreError)
      ports.state.update(name, (record) => void (record.absent = error.left));
    throw error;
  });
  ports.state.update(name, (record) => {
    record.absent = [];
    record.release = outcome.release;
    const revision = outcome.release?.revision;
    const withoutWayBack = outcome.hasNoWayBack === true ? revision : undefined;
    record.run = { ...record.run, leftRevision: revision, withoutWayBack };
  });
  return outcome;
}

function reconcile({ releases }: Ports, request: ReconcileRequest): Promise<ReleaseOutcome> {
  const attributes = { release: request.module.name };
  return span({ kind: "helm", name: "reconcile", attributes }, async (open) => {
    const outcome = await releases.reconcile(request);
    open.set({ action: outcome.action, revision: outcome.release?.revision });
    return outcome;
  });
}

/**
 * All steps are done. A release that was refused is as it was before; that is not tried again by itself: what it was
 * made from has to change, or somebody has to ask.
 */
function end(run: ModuleRun, { cause }: RunModuleTask, refused: string | undefined): void {
  const { ports, name, ms } = run;
  run.end(refused);
  ports.recorder.moduleRun(name, ms / 1000, refused !== undefined);
  if (refused !== undefined) ports.logger.warn("Module stays rolled back", { module: name, why: refused });
  else ports.logger.info("Module run succeeded", { module: name, trigger: describeCause(cause), ms });
}

/**
 * The run was interrupted. When its own section changed during a reload, the step starts again in its place; else
 * the reload is out of date or the operator stops, and what is owed is planned anew.
 */
function cancelled(run: ModuleRun, task: RunModuleTask): Outcome<Task> {
  run.interrupt();
  const goesOn = task.group === "reload" && run.ports.state.view.reload.phase === "modules";
  return goesOn ? { kind: "expand", tasks: [] } : { kind: "cancelled" };
}

function fail(run: ModuleRun, error: unknown): Outcome<Task> {
  if (error instanceof FilesUnusable) return unusable(run, error);
  if (error instanceof UnusableChartError)
    return unusable(run, new FilesUnusable(oneLine(error), error.problems[0]));
  const { ports, name, record } = run;
  ports.recorder.moduleRun(name, run.ms / 1000, true);
  if (error instanceof ForeignReleaseError) return foreign(run, error);
  const message = run.fail(error, reasonOf(run, error));
  ports.logger.error("Module run failed", { module: name, step: record.run.lastRun?.step, error: message });
  return { kind: "retry", message };
}

/** Another operator's release has this name: only a person can change that. */
function foreign(run: ModuleRun, error: ForeignReleaseError): Outcome<Task> {
  const { ports, name, record } = run;
  const message = failureText(error);
  run.break(oneLine(error));
  const remedy = "rename the module or remove that release";
  ports.state.recordProblem(name, { file: record.module.dir, message, remedy });
  ports.recorder.failed(name, "ForeignRelease", message);
  return { kind: "done" };
}

/** What it found on disk is Invalid until files or configuration change, or the next converge checks what is missing. */
function unusable(run: ModuleRun, { message, problem }: FilesUnusable): Outcome<Task> {
  const { ports, name, record } = run;
  run.break(message);
  if (problem === undefined) {
    ports.logger.warn("Module run ended before helm", { module: name, reason: message });
    return { kind: "done" };
  }
  // Broken files were reported when they were read.
  if (problem !== record.module.problem && problem !== record.loadProblem)
    tellProblem(ports, record.module, { enabled: true, problem });
  ports.state.recordProblem(name, problem);
  return { kind: "done" };
}

function reasonOf({ record }: ModuleRun, error: unknown): RetryReason {
  if (error instanceof HookFailure) return "HookFailed";
  if (error instanceof IncompleteValues) return "ValuesIncomplete";
  if (error instanceof Unstable) return "Unstable";
  if (error instanceof ExistingObjectsError) return "ObjectsExist";
  return record.run.lastRun?.step === "helm" ? "HelmFailed" : "ApiFailed";
}

/** What is to be done to a module, and why. */
interface Work {
  readonly record: Readonly<ModuleRecord>;
  readonly activity: ModuleActivity;
  readonly trigger: Cause;
}

/** A run of a module that is under way. */
export class ModuleRun {
  readonly name: string;
  readonly ports: Ports;
  readonly context: RunContext;
  /** The module as it is now. */
  readonly record: Readonly<ModuleRecord>;
  /** A person asked for it, not for the way back, and no run was begun for that before. */
  readonly isAsked: boolean;
  /** The only run of a module that is off is its removal. */
  readonly #isFor: "on" | "off";
  /** In ms since the epoch, and by the monotonic clock. */
  readonly #startedAt: number;
  readonly #from: number;
  /** Of the module's files, where changed files are why it runs. */
  readonly #content: string | undefined;
  /** Hooks have changed files of the module: where files are watched, that causes another run. */
  hasWritten = false;

  /** Begins: the state notes what the run takes into account. */
  constructor(ports: Ports, { record, activity, trigger }: Work, context: RunContext) {
    this.name = record.module.name;
    this.ports = ports;
    this.context = context;
    this.record = record;
    this.#isFor = activity === "deleting" ? "off" : "on";
    this.#startedAt = ports.clock.now();
    this.#from = ports.clock.monotonic();
    this.#content = trigger.kind === "files" ? ports.contentOf([record.module]) : undefined;
    const basis = ports.state.basisOf(record);
    const { requestedToken: token, run: before } = record;
    const isNew = token !== undefined && token !== (before.attempted?.token ?? before.handled.token);
    this.isAsked = isNew && record.wayBack === undefined;
    const attempts = context.failures + 1;
    this.#note("begun", { activity, trigger, startedAt: this.#startedAt, attempts, basis });
  }

  /** The next step, or the next hook of the module within it. Throws when the module was switched off meanwhile. */
  step(step: string, hook?: string): void {
    if (this.#isFor === "on" && !isOn(this.ports, this.name)) throw new Error(SWITCHED_OFF);
    this.#note("atStep", { step, hook });
  }

  /** The step under way waits for something. */
  waitFor(what: string): void {
    this.#note("atStep", { waitsFor: what });
  }

  /** Called with the hook of the chart that helm waits for. */
  readonly onWait: OnWait = (hook) => this.#note("atStep", { hook: hook?.name, hookSince: hook?.since });

  /** The step that runs the module's hooks with this binding, one after the other, up to the first that fails. */
  async hooks(binding: LifecycleName): Promise<void> {
    const { queue, signal } = this.context;
    this.step(binding);
    for (const { hook, trigger } of lifecycleHooks(this.record.hooks, binding)) {
      signal.throwIfAborted();
      this.step(binding, hook.name);
      await executeHook(this.ports, { hook, triggers: [trigger], queue, signal });
    }
  }

  /** Notes what helm is going to use: later changes cause another run. */
  takeValues(): void {
    this.#note("withValuesOfNow", this.ports.state.basisOf(this.record));
  }

  /** All steps are done: what the run took into account is handled. */
  complete(): void {
    const { ports, record } = this;
    this.hasWritten = this.#content !== undefined && this.#content !== ports.contentOf([record.module]);
    this.#note("completed", ports.state.basisOf(record).values, this.hasWritten);
  }

  /** Milliseconds since the begin. */
  get ms(): number {
    return Math.round(this.ports.clock.monotonic() - this.#from);
  }

  /** Ends well; or, where the release is as it was before what failed, with why. */
  end(refused?: string): void {
    // However the wall clock was set meanwhile: the difference is how long the run took.
    const now = this.#startedAt + this.ms;
    if (refused === undefined) this.#note("succeeded", now);
    else this.#note("rolledBack", refused, now);
  }

  /** Ends with a failure that is tried again; returns it in words. */
  fail(error: unknown, reason: RetryReason): string {
    const { clock, recorder } = this.ports;
    const message = failureText(error);
    const failure = { reason, message, failures: this.context.failures + 1, line: oneLine(error) };
    this.#note("failed", failure, clock.now());
    recorder.failed(this.name, reason, message);
    return message;
  }

  /** Ends without a result that counts. */
  break(message: string): void {
    this.#note("broken", message, this.ports.clock.now());
  }

  /** Ends because somebody is done with it, who has said why. */
  interrupt(): void {
    const { signal } = this.context;
    this.break(`interrupted: ${signal.aborted ? oneLine(signal.reason) : SWITCHED_OFF}`);
  }

  #note<E extends keyof RunEvents>(event: E, ...details: RunEvents[E]): void {
    this.ports.state.noteRun(this.name, event, ...details);
  }
}

/** Whether a module is still on: one with a queue of its own may be switched off, or be gone, while it runs. */
function isOn({ state }: Ports, module: string): boolean {
  return state.module(module)?.enabled === true;
}

interface LifecycleHook {
  readonly hook: Hook;
  readonly trigger: { readonly type: "lifecycle"; readonly binding: LifecycleBinding };
}

/** Hooks with this binding, by ORDER; of one ORDER as they came, which is by name. */
export function lifecycleHooks(hooks: readonly Hook[], name: LifecycleName): LifecycleHook[] {
  return hooks
    .flatMap((hook) => {
      const binding = hook.config.bindings.lifecycle.find((each) => each.name === name);
      return binding === undefined ? [] : [{ hook, trigger: { type: "lifecycle", binding } as const }];
    })
    .sort((a, b) => a.trigger.binding.order - b.trigger.binding.order);
}
