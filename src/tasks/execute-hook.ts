/**
 * The life of one run of a hook: its inputs, the process, what it left, the judgement of that, the effects in order,
 * the record (docs/HOOKS.md, "What takes effect when").
 */

import { allowsFailure, collapseGroups, hookActivation } from "../bindings/index.ts";
import type { HookOutput, HookRunInput } from "../hooks/index.ts";
import { oneLine } from "../lib/index.ts";
import { GLOBAL, camelCase } from "../model/index.ts";
import type { Binding, Cause, Hook, HookTask, HookTrigger, KubernetesBinding, Task } from "../model/index.ts";
import { span, type OpenSpan } from "../trace/index.ts";
import type { Usage } from "../process/index.ts";
import type { View } from "../state/index.ts";
import { valuesFiles, type JudgedPatches } from "../values/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import type { Ports } from "./run-task.ts";

/** One run of one hook, for whatever reason. */
export interface HookRunRequest {
  readonly hook: Hook;
  readonly triggers: readonly [HookTrigger, ...HookTrigger[]];
  readonly queue: string;
  readonly signal: AbortSignal;
}

/** A hook run failed; nothing that it left took effect, except what the message names. */
export class HookFailure extends Error {
  readonly hook: string;

  constructor(hook: Hook, message: string) {
    super(message);
    this.name = "HookFailure";
    this.hook = hook.name;
  }
}

/** What failed in a run of several steps, in one line, with the name of the hook if it was a hook. */
export function failureText(error: unknown): string {
  return error instanceof HookFailure ? `hook ${error.hook}: ${oneLine(error)}` : oneLine(error);
}

/**
 * Runs a hook and applies what it leaves. Throws HookFailure when any step fails; then the whole run is repeated.
 */
export function executeHook(ports: Ports, request: HookRunRequest): Promise<void> {
  const { hook, triggers } = request;
  const attributes = { hook: hook.id, binding: triggers[0].binding.name, contexts: triggers.length };
  return span({ kind: "hook", name: hook.id, attributes }, (open) => execute(ports, request, open));
}

async function execute(ports: Ports, request: HookRunRequest, open: OpenSpan): Promise<void> {
  const { hook } = request;
  const startedAt = ports.clock.monotonic();
  const { runs: settings, logger } = ports;
  const run = { ...request, ...inputsOf(ports, hook), settings, logger };
  const { result, failure, output } = await ports.runHook(run);
  open.set({ exitCode: result?.exitCode });
  const took: Took = { seconds: (ports.clock.monotonic() - startedAt) / 1000, usage: result?.usage };
  try {
    if (output === undefined) throw new HookFailure(hook, failure ?? "it left nothing");
    const patches = judge(ports, hook, output);
    await takeEffect(ports, request, { output, patches });
  } catch (error) {
    record(ports, request, { ...took, result: allowsFailure(request.triggers) ? "allowed" : "failed" });
    throw error instanceof HookFailure ? error : new HookFailure(hook, oneLine(error));
  }
  record(ports, request, { ...took, result: "success" });
}

/** The snapshots and values as they are at this moment. */
function inputsOf(ports: Ports, hook: Hook): Pick<HookRunInput, "snapshots" | "values" | "configValues"> {
  const { values, view } = ports.state;
  const snapshots = ports.watches.snapshots(hook);
  const module = hook.module === undefined ? undefined : view.modules.get(hook.module)?.module;
  const enabled = isDiscovered(view) ? view.enabledModules : undefined;
  return { snapshots, ...valuesFiles(values, module, enabled) };
}

/** Global hooks run before the first discovery, too, when it is not known which modules are enabled. */
function isDiscovered({ modules }: View): boolean {
  return modules.size === 0 || [...modules.values()].some(({ decided }) => decided);
}

/** Objects and metrics were checked when they were read; patches of values are checked against the schemas here. */
function judge({ state, logger }: Ports, hook: Hook, output: HookOutput): JudgedPatches {
  const { configPatchText: config, valuesPatchText: values } = output;
  const patches = state.values.judgePatches(sectionKey(hook), { config, values });
  for (const warning of patches.warnings) logger.warn(warning, { hook: hook.name, module: hook.module });
  return patches;
}

function sectionKey({ module }: Hook): string {
  return module === undefined ? GLOBAL : camelCase(module);
}

/** The effects in order: objects, metrics, the ConfigMap, memory. What fails stops those after it. */
async function takeEffect(
  ports: Ports,
  { hook, triggers }: HookRunRequest,
  { output, patches }: { output: HookOutput; patches: JudgedPatches },
): Promise<void> {
  const { state, config, logger } = ports;
  const { name, module } = hook;
  await ports.applyObjects(ports.patcher, output.objects);
  ports.hookMetrics.apply(output.metrics, { hook: name, module });
  const key = sectionKey(hook);
  const before = state.values.patchable(key);
  // Before memory: what counts as saved must be on the server.
  if (patches.config.length > 0) await config.write(key, patches.config);
  const operations = state.recordHookRun(hook, patches, { key, before, cause: causeOf(triggers[0].binding) });
  if (operations === undefined) return;
  const message = "Very many operations of values patches are stored; each run of a hook replays them";
  logger.warn(message, { hook: name, module, operations });
}

function causeOf(binding: Binding): Cause {
  return { kind: "hook", by: binding.type === "lifecycle" ? binding.name : binding.type };
}

interface Took {
  readonly seconds: number;
  readonly usage: Usage | undefined;
}

function record(
  ports: Ports,
  { hook, triggers, queue }: HookRunRequest,
  run: Took & { result: "success" | "allowed" | "failed" },
): void {
  const { binding } = triggers[0];
  ports.recorder.hookRun({ hook, binding: binding.name, queue, activation: hookActivation(binding), ...run });
}

/**
 * Runs the hook of a batch of tasks once, with the contexts of all of them in order; of neighbours of one group
 * only the last context stays.
 */
export async function runHookTask(
  ports: Ports,
  batch: readonly HookTask[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const first = batch[0];
  if (first === undefined || !isOwed(ports, first)) return { kind: "done" };
  const { hook } = first;
  const [trigger = first.trigger, ...others] = collapseGroups(batch.map((task) => task.trigger));
  const triggers = [trigger, ...others] as const;
  const generation = ports.watches.generation(hook);
  // What a run saw of watches that were closed meanwhile says nothing of those that are open now.
  const isStale = (): boolean => generation !== undefined && ports.watches.generation(hook) !== generation;
  const isOver = (): boolean => context.signal.aborted || isStale() || !isOwed(ports, first);
  const { queue, signal } = context;
  const failure = await executeHook(ports, { hook, triggers, queue, signal }).then(
    () => undefined,
    (error: unknown) => oneLine(error),
  );
  if (failure !== undefined && isOver()) return { kind: "cancelled" };
  if (hook.item === "ready") return recordProbe(ports, hook, failure);
  if (failure !== undefined) {
    ports.logger.error("Hook failed", { hook: hook.name, module: hook.module, queue, error: failure });
    if (!allowsFailure(triggers)) {
      const { name } = trigger.binding;
      ports.recorder.hookFailed(hook.module, `hook ${hook.name}, ${name}, in queue ${queue}: ${failure}`);
      return { kind: "retry", message: failure };
    }
  }
  if (!isStale()) unlockSynchronized(ports, batch);
  return { kind: "done" };
}

/** Records what a readiness probe came to; only a change is logged. */
function recordProbe(
  { state, logger }: Ports,
  { name, module = "" }: Hook,
  failure: string | undefined,
): Outcome<Task> {
  const before = state.module(module)?.probe;
  if (state.module(module)?.enabled !== true) return { kind: "done" };
  if (before !== undefined && before.failure === failure) return { kind: "done" };
  const fields = { hook: name, module };
  if (failure !== undefined) logger.warn("Readiness probe failed", { ...fields, error: failure });
  else if (before !== undefined) logger.info("Readiness probe succeeds again", fields);
  state.update(module, (record) => void (record.probe = { failure }));
  return { kind: "done" };
}

/** Nothing runs for a module that was disabled meanwhile, or for a hook that is gone or was changed. */
function isOwed(ports: Ports, { hook }: HookTask): boolean {
  const enabled = hook.module === undefined || ports.state.module(hook.module)?.enabled === true;
  return enabled && isCurrent(ports, hook);
}

/** Whether a hook is still the one on disk: neither gone nor changed since the last reload. */
export function isCurrent({ state }: Ports, { id, module, signature }: Hook): boolean {
  return state.hooksOf(module).some((each) => each.id === id && each.signature === signature);
}

function unlockSynchronized(ports: Ports, batch: readonly HookTask[]): void {
  for (const { hook, trigger } of batch) {
    if (trigger.type !== "synchronization") continue;
    noteSynchronized(ports, hook, [trigger.binding]);
    const run = hook.module === undefined ? undefined : ports.state.module(hook.module)?.run;
    // Its run failed since it waits for this.
    if (run?.retry !== undefined && run.lastRun?.step === "synchronization")
      ports.queues.retryNow((task) => task.kind === "run-module" && task.module === hook.module);
  }
}

export const syncId = (hook: Hook, binding: KubernetesBinding): string => `${hook.id}/${binding.id}`;

/** Ids of bindings that were synchronized: of all global hooks, or of a module's since it became enabled. */
function synchronizedWith(ports: Ports, { module }: Hook): Set<string> | undefined {
  return module === undefined ? ports.state.globalSynchronized : ports.state.module(module)?.synchronized;
}

/** A retried first run, or a reload, does not repeat what succeeded before. */
export function isSynchronized(ports: Ports, hook: Hook, binding: KubernetesBinding): boolean {
  return synchronizedWith(ports, hook)?.has(syncId(hook, binding)) === true;
}

/** Notes Synchronizations that succeeded: the hook has seen the objects, later events may follow. */
export function noteSynchronized(ports: Ports, hook: Hook, bindings: readonly KubernetesBinding[]): void {
  const done = synchronizedWith(ports, hook);
  for (const binding of bindings) done?.add(syncId(hook, binding));
  ports.watches.unlock(
    hook,
    bindings.map(({ id }) => id),
  );
}

/** The hook's watches were closed: it needs a new Synchronization. */
export function forgetSynchronized(ports: Ports, hook: Hook): void {
  const done = synchronizedWith(ports, hook);
  for (const binding of hook.config.bindings.kubernetes) done?.delete(syncId(hook, binding));
}
