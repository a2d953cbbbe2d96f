/** The run of one module (docs/LIFECYCLE.md, "Start-up and reload"). */

import { ForeignReleaseError, RestoreError } from "../../helm/index.ts";
import type { HelmHook, ReleaseOutcome } from "../../helm/index.ts";
import { oneLine } from "../../lib/index.ts";
import { GLOBAL } from "../../model/index.ts";
import type { Hook, RunModuleTask, Task } from "../../model/index.ts";
import { MAX_ROUNDS } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { invalidValues, problemOf } from "../../state/index.ts";
import type { LastRun, ModuleRecord, RetryReason } from "../../state/index.ts";
import { tellProblem } from "../reload/discover.ts";
import { helmInput } from "../hook/files.ts";
import type { Ports } from "../ports.ts";
import { HookFailure, failureText } from "../hook/execute-hook.ts";
import { activate } from "../hook/sources.ts";
import { runLifecycle } from "./lifecycle-hooks.ts";

/** Values are missing that a hook may still fill in. */
class IncompleteValues extends Error {}

/** afterHelm hooks change values every time. */
class UnstableValues extends Error {}

interface Run {
  readonly ports: Ports;
  readonly name: string;
  /** The module as it is now. */
  readonly record: Readonly<ModuleRecord>;
  readonly task: RunModuleTask;
  readonly context: RunContext;
  readonly startedAt: number;
}

/**
 * Module run: onStartup and Synchronization the first time, then beforeHelm, helm, afterHelm. After a failure, a
 * first run starts again from onStartup, a later one from beforeHelm.
 */
export async function runModule(
  ports: Ports,
  task: RunModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const record = ports.state.module(task.module);
  if (record?.enabled !== true || record.module.vanished !== undefined || problemOf(record) !== undefined)
    return { kind: "done" };
  const problem = invalidValues(ports.state.values, record.module);
  if (problem !== undefined) {
    // An edit removed a required value, or a file was changed: treated as if discovery had found it.
    tellProblem(ports, task.module, { enabled: true, problem });
    ports.state.recordProblem(task.module, problem);
    return { kind: "done" };
  }
  const run: Run = { ports, name: task.module, record, task, context, startedAt: ports.clock.now() };
  begin(run);
  try {
    await steps(run);
    succeed(run);
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return cancelled(run);
    return fail(run, error);
  }
}

async function steps(run: Run): Promise<void> {
  if (run.record.phase !== "ready") await firstRun(run);
  await activateHooks(run);
  await lifecycle(run, "beforeHelm");
  const settled = settle(run);
  const outcome = await helmStep(run);
  await lifecycle(run, "afterHelm");
  const { ports, name } = run;
  const changed = valuesDigest(run) !== settled.values;
  ports.state.update(name, (record) => {
    record.phase = "ready";
    record.appliedDigest = settled.values;
    record.handledSectionDigest = settled.section;
    record.handledConfigDigest = settled.config;
    record.handledToken = settled.token ?? record.handledToken;
    record.rounds = changed && record.cause?.binding === "afterHelm" ? record.rounds + 1 : 0;
  });
  ports.recorder.released(name, outcome);
  if (run.record.rounds >= MAX_ROUNDS) throw new UnstableValues("afterHelm hooks change values at every run");
}

/** The first run since the module became enabled. */
async function firstRun(run: Run): Promise<void> {
  const { ports, name } = run;
  ports.state.update(name, (record) => {
    record.phase = "onStartup";
    record.ranHere = true;
  });
  await lifecycle(run, "onStartup");
  ports.state.update(name, (record) => void (record.phase = "synchronization"));
}

/** Hooks that are new since the last run are activated. */
async function activateHooks(run: Run): Promise<void> {
  const { ports, record, context } = run;
  const idle = record.hooks.filter((hook) => !record.active.has(hook.id));
  if (idle.length === 0) return;
  step(run, "synchronization");
  const { queue, signal } = context;
  await activate(ports, idle, { queue, signal, onStart: (hook) => step(run, "synchronization", hook) });
}

async function lifecycle(run: Run, binding: "onStartup" | "beforeHelm" | "afterHelm"): Promise<void> {
  step(run, binding);
  await runLifecycle(run.ports, run.record.hooks, {
    binding,
    queue: run.context.queue,
    signal: run.context.signal,
    onStart: (hook) => step(run, binding, hook),
  });
}

/** Notes what this run takes into account: later changes cause another run. */
function settle(run: Run): { values: string; section: string; config: string; token: string | undefined } {
  const { state } = run.ports;
  const { module, requestedToken } = run.record;
  const section = state.values.moduleConfigDigest(module);
  state.update(run.name, (record) => {
    record.attemptedSectionDigest = section;
    record.cause = undefined;
  });
  return {
    values: valuesDigest(run),
    section,
    config: state.values.configDigest(module),
    token: requestedToken,
  };
}

function valuesDigest({ ports, record }: Run): string {
  return ports.state.values.merged(record.module.valuesKey).digest;
}

/** Undefined when there is nothing for helm to do. */
async function helmStep(run: Run): Promise<ReleaseOutcome | undefined> {
  const { ports, name, context } = run;
  step(run, "helm");
  const { module, absent } = run.record;
  checkComplete(run);
  const { values } = ports.state;
  if (module.chart === "none" || values.settings(module).suspended) return undefined;
  const request = {
    ...helmInput(values, module),
    absent,
    signal: context.signal,
    onWait: (hook?: HelmHook) => editLastRun(run, { hook: hook?.name, hookSince: hook?.since }),
  };
  const outcome = await ports.releases.reconcile(request).catch((error: unknown) => {
    // What was restored is not restored again at the next try.
    if (error instanceof RestoreError)
      ports.state.update(name, (record) => void (record.absent = error.left));
    throw error;
  });
  ports.state.update(name, (record) => {
    record.absent = [];
    record.release = outcome.release;
    record.settledRevision = outcome.release?.revision;
  });
  return outcome;
}

/** Validation before helm, with `x-required-for-helm`. */
function checkComplete(run: Run): void {
  const { values } = run.ports.state;
  const { valuesKey } = run.record.module;
  for (const key of [GLOBAL, valuesKey]) {
    const violations = values.schemas(key).validateHelm(values.merged(key).values);
    if (violations.length > 0) {
      throw new IncompleteValues(values.describe(key, violations));
    }
  }
}

function begin(run: Run): void {
  const { ports, name, task, context } = run;
  ports.state.update(name, (record) => {
    record.activity = record.absent.length > 0 ? "healing" : "running";
    record.attemptedSectionDigest = ports.state.values.moduleConfigDigest(record.module);
    record.retry = record.retry === undefined ? undefined : { ...record.retry, nextAt: undefined };
    record.lastRun = {
      trigger: task.cause,
      startedAt: run.startedAt,
      finishedAt: undefined,
      result: undefined,
      step: "",
      hook: undefined,
      message: undefined,
      attempts: context.failures + 1,
    };
  });
}

function step(run: Run, name: string, hook?: Hook): void {
  editLastRun(run, { step: name, hook: hook?.name, hookSince: undefined });
}

function editLastRun(run: Run, change: Partial<LastRun>): void {
  run.ports.state.update(run.name, (record) => {
    if (record.lastRun !== undefined) record.lastRun = { ...record.lastRun, ...change };
  });
}

function succeed(run: Run): void {
  const { ports, name } = run;
  const now = ports.clock.now();
  editLastRun(run, { finishedAt: now, result: "Succeeded", hook: undefined });
  ports.state.update(name, (record) => {
    record.activity = "none";
    record.retry = undefined;
  });
  ports.recorder.moduleRun(name, (now - run.startedAt) / 1000, false);
  ports.logger.info("Module run succeeded", {
    module: name,
    trigger: run.task.cause,
    ms: now - run.startedAt,
  });
}

/**
 * The run was interrupted. When its own section changed during a reload, the step starts again in its place; else
 * the reload is out of date or the operator stops, and what is owed is planned anew.
 */
function cancelled(run: Run): Outcome<Task> {
  editLastRun(run, { finishedAt: run.ports.clock.now(), result: "Failed", message: "interrupted" });
  run.ports.state.update(run.name, (record) => void (record.activity = "none"));
  const goesOn = run.task.group === "converge" && run.ports.state.view.converge.phase === "modules";
  return goesOn ? { kind: "expand", tasks: [] } : { kind: "cancelled" };
}

function fail(run: Run, error: unknown): Outcome<Task> {
  const { ports, name, context } = run;
  const message = failureText(error);
  const now = ports.clock.now();
  editLastRun(run, { finishedAt: now, result: "Failed", message: oneLine(error) });
  ports.recorder.moduleRun(name, (now - run.startedAt) / 1000, true);
  if (error instanceof ForeignReleaseError) return foreign(run, message);
  const reason = reasonOf(run, error);
  ports.state.update(name, (record) => {
    record.activity = "none";
    record.retry = { reason, message, failures: context.failures + 1, nextAt: undefined };
    if (error instanceof UnstableValues) record.rounds = 0;
  });
  ports.recorder.failed(name, reason, message);
  ports.logger.error("Module run failed", {
    module: name,
    step: run.record.lastRun?.step,
    error: message,
  });
  return { kind: "retry", message };
}

/** Another operator's release has this name: only a person can change that. */
function foreign(run: Run, message: string): Outcome<Task> {
  const file = run.record.module.dir;
  run.ports.state.recordProblem(run.name, {
    file,
    message,
    remedy: "rename the module or remove that release",
  });
  run.ports.recorder.failed(run.name, "ForeignRelease", message);
  return { kind: "done" };
}

function reasonOf(run: Run, error: unknown): RetryReason {
  if (error instanceof HookFailure) return "HookFailed";
  if (error instanceof IncompleteValues) return "ValuesIncomplete";
  if (error instanceof UnstableValues) return "Unstable";
  return run.record.lastRun?.step === "helm" ? "HelmFailed" : "ApiFailed";
}
