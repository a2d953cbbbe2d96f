/**
 * Reports what happened to modules and hooks as series (`metrics`), log lines and Kubernetes Events (`announce`). The series have
 * the label `activation`, which names the cause of a run.
 */

import { describeObject, type DriftedObject } from "../drift/index.ts";
import type { Health } from "../health/index.ts";
import type { HelmRecorder, ReleaseOutcome } from "../helm/index.ts";
import type { Logger } from "../lib/index.ts";
import type { State, View } from "../state/index.ts";
import type { EventReason, OperatorEvent } from "../status/index.ts";
import type { Recorder } from "../tasks/index.ts";
import type { Cause, Task } from "../model/index.ts";
import { recordHookRun } from "./inventory.ts";
import { recordTaskWait } from "./measure.ts";
import type { Metrics } from "./metrics.ts";
import { HOW_TO_END_HANGING_HOOK, describeEnablement, describeAwaitedTask } from "../status/index.ts";

/** Publishes a Kubernetes Event. */
type Announce = (event: OperatorEvent) => void;

/** A failed run counts under both names. */
const RUN_ERRORS = ["moduleRunErrors", "moduleRunErrorsShort"] as const;

/** What a recorder writes to, and the state that it reads. */
export interface RecorderParts {
  readonly metrics: Metrics;
  readonly announce: Announce;
  readonly logger: Logger;
  readonly state: Pick<State, "view">;
}

/** Makes a recorder that turns what happened into series, Events and log lines. It does not change the state. */
export function makeRecorder({ metrics, announce, logger, state }: RecorderParts): Recorder {
  return {
    taskBegan: (task, context) => recordTaskWait(metrics, task, context),
    hookRun({ hook, binding, queue, activation, seconds, usage, result }) {
      const labels = { module: hook.module, hook: hook.name, binding, queue, activation };
      recordHookRun(metrics, { ...labels, outcome: result, seconds, usage });
    },
    hookFailed: (module, note) => announce({ module, reason: "HookFailed", note }),
    moduleRun(module, seconds, failed) {
      const activation = getModuleActivationLabel(state, module);
      metrics.observe("moduleRun", { module, activation }, seconds);
      if (failed) for (const name of RUN_ERRORS) metrics.add(name, { module });
      if (activation === "HelmReleaseUnexpectedStatus") metrics.add("redeployed", { module });
    },
    moduleDeleteFailed: (module) => metrics.add("moduleDeleteErrors", { module }),
    discoveryFailed: () => metrics.add("discoverErrors", {}),
    moduleReleased(module, outcome) {
      announceRelease(announce, module, outcome);
      if (outcome?.action === "rolledBack") metrics.add("rollbacks", { module });
      if (outcome?.wasRecovered === true)
        metrics.add("helmFallback", { module, operation: "upgrade", error_type: "pending" });
    },
    rolledBackByHand: (module, release) =>
      announce({ module, reason: "RolledBack", note: `on request: ${describeRelease(module, release)}` }),
    crdRefused: (module, problem) => announce({ module, reason: "CrdRefused", note: problem }),
    moduleRemoved: (module) =>
      announce({ module, reason: "ReleaseRemoved", note: "the release was removed" }),
    // The Event is about the operator, because the AddonModule is deleted with its directory.
    releasePurged(release) {
      const note = `release ${release}, which has no module directory any more, was removed`;
      announce({ module: undefined, reason: "ReleaseRemoved", note });
    },
    failed(module, reason, message) {
      const isAboutValues = reason === "ValuesIncomplete" || reason === "ValuesInvalid";
      const eventReason = isAboutValues ? "ValuesInvalid" : "RunFailed";
      announce({ module, reason: eventReason, note: `${reason}: ${message}` });
    },
    moduleSwitched(module, { enabled, by, reason }) {
      const note = describeEnablement({ enabled, enabledBy: by, enabledReason: reason });
      announce({ module, reason: enabled ? "ModuleEnabled" : "ModuleDisabled", note });
      logger.info(enabled ? "Module enabled" : "Module disabled", { module, by: reason ?? by });
    },
    convergeEnded(seconds) {
      const activation = getActivationLabel(state.view.converge.cause, "converge");
      metrics.add("convergenceSeconds", { activation }, seconds);
      metrics.add("convergenceTotal", { activation });
    },
  };
}

/** Makes a recorder of helm's operations: durations, adoptions and take-overs. */
export function makeHelmRecorder({
  metrics,
  state,
  announce,
}: Pick<RecorderParts, "metrics" | "state" | "announce">): HelmRecorder {
  return {
    adopted(module) {
      const note = "a release that a user installed with helm is adopted";
      announce({ module, reason: "ReleaseAdopted", note });
    },
    tookOver: (module, objects) => announce({ module, reason: "ObjectsTakenOver", note: objects.join(", ") }),
    forgotKinds: (module, objects) => announce({ module, reason: "KindsGone", note: objects.join(", ") }),
    ran({ release: module, operation, seconds }) {
      const activation = getModuleActivationLabel(state, module);
      metrics.observe("helmOperation", { module, activation, operation }, seconds);
    },
    reconciled(module, seconds) {
      metrics.observe("moduleHelm", { module, activation: getModuleActivationLabel(state, module) }, seconds);
    },
  };
}

/** The label `activation` of the current or last run of a module. */
function getModuleActivationLabel(state: RecorderParts["state"], module: string): string {
  return getActivationLabel(state.view.modules.get(module)?.lastRun?.trigger, "module");
}

const EVENT_REASON_BY_ACTION: Readonly<Partial<Record<ReleaseOutcome["action"], EventReason>>> = {
  installed: "ReleaseInstalled",
  upgraded: "ReleaseUpgraded",
  restored: "Healed",
  rolledBack: "RolledBack",
};

/** Announces what helm did with a release; nothing if the release is unchanged, so that Events show changes only. */
function announceRelease(announce: Announce, module: string, outcome: ReleaseOutcome | undefined): void {
  if (outcome === undefined) return;
  const { action, release, wasRecovered, refusal } = outcome;
  const note = describeRelease(module, release);
  const reason = EVENT_REASON_BY_ACTION[action];
  if (wasRecovered) announce({ module, reason: "PendingReleaseRecovered", note });
  if (reason !== undefined) announce({ module, reason, note: refusal ?? note });
}

function describeRelease(module: string, release: ReleaseOutcome["release"]): string {
  return `release ${release?.name ?? module}, revision ${release?.revision ?? 0}`;
}

/** Makes a function that logs, counts and announces why the ConfigMap cannot be used. */
export function makeConfigReporter({
  metrics,
  announce,
  logger,
}: Omit<RecorderParts, "state">): (reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string) => void {
  return (reason, message) => {
    logger.error(message, { reason });
    if (reason === "ConfigMapInvalid") metrics.add("configErrors", {});
    announce({ module: undefined, reason, note: message });
  };
}

/** Makes a function that logs, counts and announces an object that others have changed, and whether it is repaired. */
export function makeDriftReporter({
  metrics,
  announce,
  logger,
}: Omit<RecorderParts, "state">): (module: string, object: DriftedObject, repaired: boolean) => void {
  return (module, object, repaired) => {
    const note = describeObject(object);
    const message = repaired ? "An object was changed, and is put back" : "An object was changed";
    logger.warn(message, { module, drift: note });
    metrics.add(repaired ? "repairs" : "drifts", { module });
    announce({ module, reason: repaired ? "Repaired" : "Drifted", note });
  };
}

/**
 * Makes a function that reports a hook whose run has taken `LONG_RUN_MS`: a hook that hangs blocks its queue, and nothing else
 * shows that. Other long runs are visible in the states of modules.
 */
export function makeHangReporter({
  announce,
  logger,
}: Pick<RecorderParts, "announce" | "logger">): (queue: string, task: Task) => void {
  return (queue, task) => {
    if (task.kind !== "hook") return;
    const { name: hook, module } = task.hook;
    logger.warn("A hook hangs: its run takes longer than five minutes", { hook, module, queue });
    const note = `${describeAwaitedTask(task)} runs for five minutes in queue ${queue}, and blocks what waits there; ${HOW_TO_END_HANGING_HOOK}`;
    announce({ module, reason: "HookHangs", note });
  };
}

const EVENT_REASON_BY_REMOVAL = {
  delete: "RemovalHeld",
  move: "RemovalHeld",
  purge: "PurgeRefused",
} as const;

/**
 * Makes a function that logs and announces each blocker of a removal once, although every converge finds it again. At the end
 * of a converge it forgets blockers that have disappeared.
 */
export function makeBlockerReporter({
  announce,
  logger,
}: Pick<RecorderParts, "announce" | "logger">): (view: View) => void {
  let reported = new Set<string>();
  return ({ removalBlockers, converge }) => {
    for (const { action, text } of removalBlockers) {
      if (reported.has(text)) continue;
      reported.add(text);
      logger.warn("A removal is blocked", { hold: text });
      announce({ module: undefined, reason: EVENT_REASON_BY_REMOVAL[action], note: text });
    }
    // While a converge runs, it has not found all blockers again yet.
    if (converge.phase === "idle") reported = new Set(removalBlockers.map(({ text }) => text));
  };
}

/**
 * Makes a function that announces when a release becomes unhealthy, and when it is healthy again. Progress in between is not
 * announced. Without a release, `health` is undefined.
 */
export function makeHealthReporter({
  announce,
}: Pick<RecorderParts, "announce">): (module: string, health: Health | undefined) => void {
  const unhealthy = new Set<string>();
  return (module, health) => {
    if (health === undefined) unhealthy.delete(module);
    else if (health.status === "False" && !unhealthy.has(module)) {
      unhealthy.add(module);
      announce({ module, reason: "Unhealthy", note: health.message });
    } else if (health.status === "True" && unhealthy.has(module)) {
      unhealthy.delete(module);
      announce({ module, reason: "Recovered", note: health.message });
    }
  };
}

type ActivationLabels = readonly [ofModule: string, ofConverge: string];

/** The same label for runs of modules and for converges. */
const sameForBoth = (label: string): ActivationLabels => [label, label];
const OTHER_ACTIVATION = sameForBoth("Other");

/** Values of the label `activation` by cause: few, and the Go operator's where it has one. */
export const ACTIVATION_BY_CAUSE: Readonly<Record<Exclude<Cause["kind"], "hook">, ActivationLabels>> = {
  "start-up": sameForBoth("OperatorStartup"),
  config: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  section: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  absent: sameForBoth("AbsentHelmResourcesDetected"),
  release: sameForBoth("HelmReleaseUnexpectedStatus"),
  requested: sameForBoth("Requested"),
  "second-look": sameForBoth("SecondLook"),
  files: sameForBoth("FilesChanged"),
  sources: OTHER_ACTIVATION,
  confirmed: OTHER_ACTIVATION,
  "own-config": OTHER_ACTIVATION,
  globals: OTHER_ACTIVATION,
  values: OTHER_ACTIVATION,
  "first-run": OTHER_ACTIVATION,
  required: OTHER_ACTIVATION,
  unhealthy: OTHER_ACTIVATION,
  disabled: OTHER_ACTIVATION,
};

type HookCause = Extract<Cause, { kind: "hook" }>["by"];

/** The same labels for values that hooks changed, by binding; `Other` for bindings without a row. */
export const ACTIVATION_BY_HOOK: Readonly<Partial<Record<HookCause, ActivationLabels>>> = {
  schedule: ["Schedule-Change-ModuleValues", "Schedule-Change-GlobalValues"],
  kubernetes: ["Kubernetes-Change-ModuleValues", "Kubernetes-Change-GlobalValues"],
  afterHelm: sameForBoth("AfterHelm-Hooks-Change-Values"),
  afterAll: sameForBoth("AfterAll-Hooks-Change-GlobalValues"),
};

/** The label `activation` of a module's run or of a converge by its cause; `Other` for causes without a label of their own. */
export function getActivationLabel(cause: Cause | undefined, what: "module" | "converge"): string {
  if (cause === undefined) return "Other";
  const [ofModule, ofConverge] =
    cause.kind === "hook"
      ? (ACTIVATION_BY_HOOK[cause.by] ?? OTHER_ACTIVATION)
      : ACTIVATION_BY_CAUSE[cause.kind];
  return what === "module" ? ofModule : ofConverge;
}
