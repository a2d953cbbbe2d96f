/**
 * The life of one run of a hook: its inputs, the process, what it left, the judgement of that, the effects in order,
 * the record (docs/HOOKS.md, "What takes effect when").
 */

import { allowsFailure, hookActivation } from "../../bindings/index.ts";
import type { HookOutput, HookRunInput } from "../../hooks/index.ts";
import { oneLine } from "../../lib/index.ts";
import { GLOBAL } from "../../model/index.ts";
import type {
  Binding,
  Cause,
  Hook,
  HookTrigger,
  LifecycleBinding,
  LifecycleName,
} from "../../model/index.ts";
import { valuesFiles } from "../../state/index.ts";
import type { Usage } from "../../process/index.ts";
import { MANY_OPERATIONS } from "../../values/index.ts";
import type { Ports } from "../ports.ts";
import { judgePatches } from "./patches.ts";
import type { JudgedPatches } from "./patches.ts";

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
export async function executeHook(ports: Ports, request: HookRunRequest): Promise<void> {
  const { hook } = request;
  const startedAt = ports.clock.monotonic();
  const { result, failure, output } = await ports.runHook({ ...request, ...inputsOf(ports, hook) });
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
  const { values } = ports.state;
  const snapshots = ports.watches.snapshots(hook);
  const module = hook.module === undefined ? undefined : ports.state.module(hook.module)?.module;
  return { snapshots, ...valuesFiles(values, module, ports.state.view.enabledModules) };
}

/** Objects and metrics were checked when they were read; patches of values are checked against the schemas here. */
function judge(ports: Ports, hook: Hook, output: HookOutput): JudgedPatches {
  const key = sectionKey(ports, hook);
  const patches = judgePatches(ports.state.values, { hook, key, output });
  for (const warning of patches.warnings)
    ports.logger.warn(warning, { hook: hook.name, module: hook.module });
  return patches;
}

function sectionKey(ports: Ports, hook: Hook): string {
  if (hook.module === undefined) return GLOBAL;
  return ports.state.module(hook.module)?.module.valuesKey ?? hook.module;
}

/** The effects in order: objects, metrics, the ConfigMap, memory. What fails stops those after it. */
async function takeEffect(
  ports: Ports,
  request: HookRunRequest,
  { output, patches }: { output: HookOutput; patches: JudgedPatches },
): Promise<void> {
  const { name, module } = request.hook;
  await ports.applyObjects(output.objects);
  ports.hookMetrics.apply(output.metrics, { hook: name, module });
  await remember(ports, request, patches);
}

/** The ConfigMap first, memory after it: what counts as saved must be on the server. */
async function remember(ports: Ports, request: HookRunRequest, patches: JudgedPatches): Promise<void> {
  const { state } = ports;
  const key = sectionKey(ports, request.hook);
  const before = {
    globals: state.values.digests.globals(),
    section: digestOf(ports, key),
  };
  if (patches.config.length > 0) await ports.config.write(key, patches.config);
  const stored = state.values.patches(key).length;
  state.recordPatches(key, patches.values, request.hook.name);
  warnOfMany(ports, request.hook, { before: stored, after: state.values.patches(key).length });
  for (const [valuesKey, enabled] of patches.flags) state.recordHookFlag(valuesKey, enabled);
  const cause = causeOf(request.triggers[0].binding);
  if (request.hook.module === undefined) {
    if (state.values.digests.globals() !== before.globals) state.recordCause(undefined, cause);
  } else if (digestOf(ports, key) !== before.section) {
    state.recordCause(request.hook.module, cause);
  }
}

/** Logged when the limit is passed, not in each run beyond it. */
function warnOfMany({ logger }: Ports, hook: Hook, stored: { before: number; after: number }): void {
  if (stored.before > MANY_OPERATIONS || stored.after <= MANY_OPERATIONS) return;
  logger.warn("Very many operations of values patches are stored; each run of a hook replays them", {
    hook: hook.name,
    module: hook.module,
    operations: stored.after,
  });
}

function digestOf(ports: Ports, key: string): string {
  return ports.state.values.merged(key).digest;
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
