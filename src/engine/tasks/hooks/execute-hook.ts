/**
 * One run of a hook: inputs, process, validation of its output, effects in order, and the record (docs/reference/hooks.md, "Order of
 * effects"). A run handles one or more triggers of the hook, such as events: each becomes a binding context.
 */

import {
  allowsFailure,
  collapseGroups,
  getHookActivation,
  isReviewBinding,
} from "../../../hooks/bindings/index.ts";
import { renderContext } from "../../../hooks/bindings/index.ts";
import type {
  HookAnswers,
  HookOutput,
  HookRunInput,
  ModuleActor,
  PatcherOptions,
} from "../../../hooks/index.ts";
import { findMissingRule } from "../../../kube/index.ts";
import { lineWithCommand, oneLine } from "../../../base/index.ts";
import { GLOBAL, camelCase } from "../../../base/model/index.ts";
import type {
  Binding,
  Cause,
  Hook,
  HookTask,
  HookTrigger,
  KubernetesBinding,
  ReviewTrigger,
  Task,
} from "../../../base/model/index.ts";
import { span, type OpenSpan } from "../../../base/trace/index.ts";
import type { View } from "../../state/index.ts";
import {
  createSourceRedactor,
  validatePatches,
  buildValuesFiles,
  type ValidatedPatches,
} from "../../../values/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";

export interface HookRunRequest {
  readonly hook: Hook;
  readonly triggers: readonly [HookTrigger, ...HookTrigger[]];
  readonly queue: string;
  readonly signal: AbortSignal;
}

/** A hook run failed. The steps of `applyEffects` before the failed one stay in effect: for example, objects and metrics if the ConfigMap cannot be written. */
export class HookFailure extends Error {
  readonly hook: string;

  constructor(hook: Hook, message: string) {
    super(message);
    this.name = "HookFailure";
    this.hook = hook.name;
  }
}

/** The failure in one line, with the name of the hook if a hook failed, and the RBAC rule that is missing if a request was forbidden. */
export function describeHookError(error: unknown): string {
  const text =
    error instanceof HookFailure ? `hook ${error.hook}: ${oneLine(error)}` : lineWithCommand(error);
  const missingRule = findMissingRule(text);
  return missingRule === undefined ? text : `${text} (missing rule: ${missingRule})`;
}

/** Runs a hook and applies its output. Returns its answers to reviews. Throws HookFailure if any step fails; then the caller repeats the whole run. */
export function executeHook(ports: Ports, request: HookRunRequest): Promise<HookAnswers> {
  const { hook, triggers } = request;
  const attributes = { hook: hook.id, binding: triggers[0].binding.name, contexts: triggers.length };
  return span({ kind: "hook", name: hook.id, attributes }, (open) => runAndApply(ports, request, open));
}

/** Starts the process, applies its output, and records the run as success, failure, or allowed failure. */
async function runAndApply(ports: Ports, request: HookRunRequest, openSpan: OpenSpan): Promise<HookAnswers> {
  const { hook, triggers, queue } = request;
  const { clock, logger, report, state } = ports;
  const startedAt = clock.monotonic();
  const settings = { ...ports.runs, actor: actorOf(ports, hook) };
  const hide = createSourceRedactor(state.values, sectionKey(hook)); // Replaces secrets in messages.
  const run = { ...request, ...readInputs(ports, request), settings, logger, hide };
  const { result, failure, output } = await ports.runHook(run);
  openSpan.set({ exitCode: result?.exitCode });
  const { binding } = triggers[0];
  const activation = getHookActivation(binding);
  const cost = { seconds: (clock.monotonic() - startedAt) / 1000, usage: result?.usage };
  const ended = { hook, binding: binding.name, queue, activation, ...cost };
  try {
    if (output === undefined) throw new HookFailure(hook, failure ?? "it produced no output");
    const patches = validateHookPatches(ports, hook, output);
    await applyEffects(ports, request, { output, patches });
    report.hookRun({ ...ended, result: "success" });
    return output.answers;
  } catch (error) {
    report.hookRun({ ...ended, result: allowsFailure(triggers) ? "allowed" : "failed" });
    throw new HookFailure(hook, hide(error instanceof HookFailure ? error.message : oneLine(error)));
  }
}

/** The account under which the hook runs; undefined = the operator's service account. */
function actorOf(ports: Ports, { module }: Hook): ModuleActor | undefined {
  return module === undefined ? undefined : ports.actorOf?.(module);
}

/** The options for applying the object patches of a run: requests impersonate the account of the hook's module, if it has one. */
function patcherOptionsFor(ports: Ports, { hook, signal }: HookRunRequest): PatcherOptions {
  const options = { ...ports.patcher, signal };
  const actor = actorOf(ports, hook);
  return actor === undefined ? options : { ...options, client: options.client.impersonate(actor.user) };
}

/** Reads the inputs of a hook run: the binding context with the current snapshots, and values. A hook gets the list of enabled modules only after discovery. */
function readInputs(
  ports: Ports,
  { hook, triggers }: HookRunRequest,
): Pick<HookRunInput, "context" | "values" | "configValues"> {
  const { values, view } = ports.state;
  const snapshots = ports.watches.snapshots(hook);
  const context = renderContext({ config: hook.config, triggers, snapshots });
  const module = hook.module === undefined ? undefined : view.modules.get(hook.module)?.module;
  const enabled = isDiscovered(view) ? view.enabledModules : undefined;
  return { context, ...buildValuesFiles(values, module, enabled) };
}

/** False before the first discovery, when global hooks run already but no module is decided. */
function isDiscovered({ modules }: View): boolean {
  return modules.size === 0 || [...modules.values()].some(({ isDiscovered }) => isDiscovered);
}

/** Validates patches of values against the schemas. Objects and metrics were validated when they were read. */
function validateHookPatches({ state, logger }: Ports, hook: Hook, output: HookOutput): ValidatedPatches {
  const { configPatchText: config, valuesPatchText: values } = output;
  const patches = validatePatches(state.values, sectionKey(hook), { config, values });
  for (const warning of patches.warnings) logger.warn(warning, { hook: hook.name, module: hook.module });
  return patches;
}

/** The section of the values that the hook patches. */
function sectionKey({ module }: Hook): string {
  return module === undefined ? GLOBAL : camelCase(module);
}

/**
 * Applies the effects in order: objects, metrics, ConfigMap, values in memory. A failure stops those after it. A hook that answers a review
 * has no patches of values.
 */
async function applyEffects(
  ports: Ports,
  request: HookRunRequest,
  { output, patches }: { output: HookOutput; patches: ValidatedPatches },
): Promise<void> {
  const { state, config, logger } = ports;
  const { hook, triggers } = request;
  const { name, module } = hook;
  const { binding } = triggers[0];
  const forbidden = describeForbiddenEffect(binding, patches, output.answers);
  if (forbidden !== undefined) throw new HookFailure(hook, forbidden);
  await ports.applyObjects(patcherOptionsFor(ports, request), output.objects);
  ports.hookMetrics.apply(output.metrics, { hook: name, module });
  if (isReviewBinding(binding)) return;
  const key = sectionKey(hook);
  const before = state.values.digests.patchableDigest(key); // Shows whether the patches have changed the values.
  // The server first: values in memory must not be newer than what was saved.
  if (patches.config.length > 0) await config.write(key, patches.config);
  const operations = state.inputs.recordHookRun(hook, patches, { key, before, cause: toCause(binding) });
  if (operations === undefined) return; // Not too many are stored.
  const message = "Very many operations of values patches are stored; each run of a hook replays them";
  logger.warn(message, { hook: name, module, operations });
}

/** Why nothing of a run for this binding takes effect although its files are valid; undefined = it takes effect. */
export function describeForbiddenEffect(
  binding: Binding,
  { config, values, flags }: ValidatedPatches,
  { admission }: HookAnswers,
): string | undefined {
  if (!isReviewBinding(binding)) return undefined;
  if (config.length + values.length + flags.size > 0)
    return "a hook that answers a review must not patch values: nothing of this run takes effect";
  if (binding.type === "validating" && admission?.patch !== undefined)
    return "a hook of kubernetesValidating must not answer with a patch, only one of kubernetesMutating may: nothing of this run takes effect";
  return undefined;
}

/** The cause that is recorded for values which a hook with this binding has changed. */
function toCause(binding: Exclude<Binding, ReviewTrigger["binding"]>): Cause {
  return { kind: "hook", by: binding.type === "lifecycle" ? binding.name : binding.type };
}

/** Runs the hook of a batch of tasks once, with the binding contexts of all tasks in order. Of adjacent contexts of one group only the last is kept. */
export async function runHookTask(
  ports: Ports,
  batch: readonly HookTask[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const first = batch[0];
  if (first === undefined || !mayStillRun(ports, first)) return { kind: "done" };
  const { hook } = first;
  const [trigger = first.trigger, ...others] = collapseGroups(batch.map((task) => task.trigger));
  const triggers = [trigger, ...others] as const;
  const generation = ports.watches.watchGeneration(hook);
  // The generation changes if watches are closed and opened again during the run: its result says nothing about the new ones.
  const isStale = (): boolean =>
    generation !== undefined && ports.watches.watchGeneration(hook) !== generation;
  const isObsolete = (): boolean => context.signal.aborted || isStale() || !mayStillRun(ports, first);
  const { queue, signal } = context;
  const failure = await executeHook(ports, { hook, triggers, queue, signal }).then(
    () => undefined,
    (error: unknown) => oneLine(error),
  );
  if (failure !== undefined && isObsolete()) return { kind: "cancelled" }; // It need not be retried.
  const isReadinessProbe = hook.item === "ready";
  if (isReadinessProbe) return recordProbe(ports, hook, failure);
  if (failure !== undefined) {
    ports.logger.error("Hook failed", { hook: hook.name, module: hook.module, queue, error: failure });
    if (!allowsFailure(triggers)) {
      const { name } = trigger.binding;
      ports.report.hookFailed(hook.module, `hook ${hook.name}, ${name}, in queue ${queue}: ${failure}`);
      return { kind: "retry", message: failure };
    }
  }
  if (!isStale()) finishSynchronizations(ports, batch);
  return { kind: "done" };
}

/** Records whether a readiness probe, a hook that checks whether its module is ready, has succeeded. Records and logs only a change. */
function recordProbe(
  { state, logger }: Ports,
  { name, module = "" }: Hook,
  failure: string | undefined,
): Outcome<Task> {
  const before = state.module(module)?.probe;
  const isDisabled = state.module(module)?.enabled !== true;
  const isUnchanged = before !== undefined && before.failure === failure;
  if (isDisabled || isUnchanged) return { kind: "done" };
  const fields = { hook: name, module };
  if (failure !== undefined) logger.warn("Readiness probe failed", { ...fields, error: failure });
  else if (before !== undefined) logger.info("Readiness probe succeeds again", fields);
  state.recordModule(module, "readinessProbed", failure);
  return { kind: "done" };
}

/** False if the module was disabled, or the hook deleted or changed, since the task was queued. */
function mayStillRun(ports: Ports, { hook }: HookTask): boolean {
  const isEnabled = hook.module === undefined || ports.state.module(hook.module)?.enabled === true;
  return isEnabled && isHookCurrent(ports, hook);
}

/** Whether the hook was neither deleted nor changed on disk, as of the last converge. */
export function isHookCurrent({ state }: Ports, { id, module, signature }: Hook): boolean {
  return state.hooksOf(module).some((each) => each.id === id && each.signature === signature);
}

/** Records the Synchronizations of a successful batch, and retries a module run that waits for them. */
function finishSynchronizations(ports: Ports, batch: readonly HookTask[]): void {
  for (const { hook, trigger } of batch) {
    if (trigger.type !== "synchronization") continue;
    recordSynchronized(ports, hook, [trigger.binding]);
    const run = hook.module === undefined ? undefined : ports.state.module(hook.module)?.run;
    // The module's run failed because it waits for this Synchronization.
    if (run?.retry !== undefined && run.lastRun?.step === "synchronization")
      ports.queues.retryNow((task) => task.kind === "run-module" && task.module === hook.module);
  }
}

/** Identifies the Synchronization of one binding of a hook. */
export const syncId = (hook: Hook, binding: KubernetesBinding): string => `${hook.id}/${binding.id}`;

/** Whether the Synchronization succeeded before: a retried first run or a converge does not repeat it. */
export function isSynchronized({ state }: Ports, hook: Hook, binding: KubernetesBinding): boolean {
  const synchronized =
    hook.module === undefined ? state.view.synchronized : state.module(hook.module)?.synchronizedBindings;
  return synchronized?.has(syncId(hook, binding)) === true;
}

/** Records Synchronizations as successful, and unlocks the watches, which hold later events back until then. */
export function recordSynchronized(ports: Ports, hook: Hook, bindings: readonly KubernetesBinding[]): void {
  const ids = bindings.map((binding) => syncId(hook, binding));
  if (hook.module === undefined) ports.state.record("bindingsSynchronized", ids);
  else ports.state.recordModule(hook.module, "bindingsSynchronized", ids);
  const bindingIds = bindings.map(({ id }) => id);
  ports.watches.unlock(hook, bindingIds);
}

/** Makes another Synchronization necessary, since the hook's watches were closed. */
export function forgetSynchronized({ state }: Ports, hook: Hook): void {
  const ids = hook.config.bindings.kubernetes.map((binding) => syncId(hook, binding));
  if (hook.module === undefined) state.record("synchronizationsReset", ids);
  else state.recordModule(hook.module, "synchronizationsReset", ids);
}
