/** Runs a hook and applies what it leaves (docs/HOOKS.md, "What takes effect when"). */

import { allowsFailure } from "../../hooks/index.ts";
import { oneLine } from "../../lib/index.ts";
import { GLOBAL, hookActivation, bindingName } from "../../model/index.ts";
import type { Hook, HookTrigger } from "../../model/index.ts";
import type { Cause } from "../../state/index.ts";
import { MANY_OPERATIONS } from "../../values/index.ts";
import { globalConfigFile, globalValuesFile, moduleConfigFile, moduleValuesFile } from "./files.ts";
import type { Pieces } from "./files.ts";
import type { Ports, HookLeftovers } from "../ports.ts";
import { judgePatches } from "./patches.ts";
import type { JudgedPatches } from "./patches.ts";

/** One run of one hook, for whatever reason. */
export interface HookRunRequest {
  readonly hook: Hook;
  readonly triggers: readonly HookTrigger[];
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
 * Runs a hook and applies what it leaves, in this order: everything is parsed and validated; object patches;
 * metrics; ConfigMap; memory. Throws HookFailure when any step fails; then the whole run is repeated.
 */
export async function executeHook(ports: Ports, request: HookRunRequest): Promise<void> {
  const { hook, triggers, queue } = request;
  const left = await ports.runHook({
    ...request,
    snapshots: ports.bindings.snapshots(hook),
    ...inputFiles(ports, hook),
  });
  const report = (result: "success" | "failed"): void => {
    const first = triggers[0];
    const binding = first === undefined ? "" : bindingName(first);
    const activation = first === undefined ? "" : hookActivation(first);
    const tolerated = result === "failed" && allowsFailure(triggers) ? "allowed" : result;
    ports.recorder.hookRun({
      hook,
      binding,
      queue,
      activation,
      seconds: left.durationMs / 1000,
      usage: left.usage,
      result: tolerated,
    });
  };
  try {
    await takeEffect(ports, request, left);
  } catch (error) {
    report("failed");
    throw error instanceof HookFailure ? error : new HookFailure(hook, oneLine(error));
  }
  report("success");
}

function inputFiles(ports: Ports, hook: Hook): { values: Pieces; configValues: Pieces } {
  const { values } = ports.state;
  const module = hook.module === undefined ? undefined : ports.state.module(hook.module)?.module;
  if (module === undefined)
    return { values: globalValuesFile(values), configValues: globalConfigFile(values) };
  return {
    values: moduleValuesFile(values, module, ports.state.enabledModules()),
    configValues: moduleConfigFile(values, module),
  };
}

async function takeEffect(ports: Ports, request: HookRunRequest, left: HookLeftovers): Promise<void> {
  const { hook } = request;
  if (left.failure !== undefined) throw new HookFailure(hook, left.failure);
  const key = sectionKey(ports, hook);
  const patches = judgePatches(ports.state.values, { hook, key, left });
  for (const warning of patches.warnings)
    ports.logger.warn(warning, { hook: hook.name, module: hook.module });
  await left.applyObjects();
  left.applyMetrics();
  await remember(ports, request, { key, patches });
}

function sectionKey(ports: Ports, hook: Hook): string {
  if (hook.module === undefined) return GLOBAL;
  return ports.state.module(hook.module)?.module.valuesKey ?? hook.module;
}

/** The ConfigMap first, memory after it: what counts as saved must be on the server. */
async function remember(
  ports: Ports,
  request: HookRunRequest,
  change: { key: string; patches: JudgedPatches },
): Promise<void> {
  const { state } = ports;
  const { key, patches } = change;
  const before = {
    globals: state.values.globalsDigest(),
    section: digestOf(ports, key),
  };
  if (patches.config.length > 0) await ports.config.write(key, patches.config);
  const stored = state.values.patches(key).length;
  state.values.addPatches(key, patches.values, request.hook.name);
  warnOfMany(ports, request.hook, { before: stored, after: state.values.patches(key).length });
  for (const [valuesKey, enabled] of patches.flags) state.values.setHookFlag(valuesKey, enabled);
  const cause = causeOf(request.triggers[0]);
  if (request.hook.module === undefined) {
    if (state.values.globalsDigest() !== before.globals) state.recordGlobalCause(cause);
  } else if (digestOf(ports, key) !== before.section) {
    state.update(request.hook.module, (record) => void (record.cause = cause));
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

/** The cause that people read. Changes of an afterHelm hook run its module again at once, all others queue up. */
function causeOf(trigger: HookTrigger | undefined): Cause {
  if (trigger?.type === "lifecycle") {
    return {
      text: `${trigger.binding} hooks changed values`,
      place: trigger.binding === "afterHelm" ? "front" : "back",
      binding: trigger.binding,
    };
  }
  return {
    text: `${trigger?.type === "schedule" ? "schedule" : "kubernetes"} hook changed values`,
    place: "back",
  };
}
