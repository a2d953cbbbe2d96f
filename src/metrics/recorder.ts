/** What happened to modules and hooks, as series, log lines and Events. */

import { describeObject, type DriftedObject } from "../drift/index.ts";
import type { Health } from "../health/index.ts";
import type { HelmRecorder, ReleaseOutcome } from "../helm/index.ts";
import type { Logger } from "../lib/index.ts";
import { enabledText } from "../plan/index.ts";
import type { State, View } from "../state/index.ts";
import type { EventReason, OperatorEvent } from "../status/index.ts";
import type { Recorder } from "../tasks/index.ts";
import type { Cause } from "../model/index.ts";
import { recordRun } from "./inventory.ts";
import { countWait } from "./measure.ts";
import type { Metrics } from "./metrics.ts";

type Announce = (event: OperatorEvent) => void;

/** A failed run counts under both names. */
const RUN_ERRORS = ["moduleRunErrors", "moduleRunErrorsShort"] as const;

/** Where it reports to, and what it reads. */
export interface RecorderParts {
  readonly metrics: Metrics;
  readonly announce: Announce;
  readonly logger: Logger;
  readonly state: Pick<State, "view">;
}

/** Tells metrics and Events what happened, and logs what has no log line of its own; tasks write the state themselves. */
export function makeRecorder({ metrics, announce, logger, state }: RecorderParts): Recorder {
  return {
    waited: (task, context) => countWait(metrics, task, context),
    hookRun({ hook, binding, queue, activation, seconds, usage, result }) {
      const labels = { module: hook.module, hook: hook.name, binding, queue, activation };
      recordRun(metrics, { ...labels, outcome: result, seconds, usage });
    },
    hookFailed: (module, note) => announce({ module, reason: "HookFailed", note }),
    moduleRun(module, seconds, failed) {
      const activation = activationOfModule(state, module);
      metrics.observe("moduleRun", { module, activation }, seconds);
      if (failed) for (const name of RUN_ERRORS) metrics.add(name, { module });
      if (activation === "HelmReleaseUnexpectedStatus") metrics.add("redeployed", { module });
    },
    moduleDeleteFailed: (module) => metrics.add("moduleDeleteErrors", { module }),
    discoveryFailed: () => metrics.add("discoverErrors", {}),
    released(module, outcome) {
      announceRelease(announce, module, outcome);
      if (outcome?.action === "rolledBack") metrics.add("rollbacks", { module });
      if (outcome?.recovered === true)
        metrics.add("helmFallback", { module, operation: "upgrade", error_type: "pending" });
    },
    crdRefused: (module, problem) => announce({ module, reason: "CrdRefused", note: problem }),
    removed: (module) => announce({ module, reason: "ReleaseRemoved", note: "the release was removed" }),
    failed(module, reason, message) {
      const isOfValues = reason === "ValuesIncomplete" || reason === "ValuesInvalid";
      announce({ module, reason: isOfValues ? "ValuesInvalid" : "RunFailed", note: `${reason}: ${message}` });
    },
    switched(module, { enabled, by, reason }) {
      const note = enabledText({ enabled, enabledBy: by, enabledReason: reason });
      announce({ module, reason: enabled ? "ModuleEnabled" : "ModuleDisabled", note });
      logger.info(enabled ? "Module enabled" : "Module disabled", { module, by: reason ?? by });
    },
    reloaded(seconds) {
      const activation = activationOf(state.view.reload.cause, "reload");
      metrics.add("convergenceSeconds", { activation }, seconds);
      metrics.add("convergenceTotal", { activation });
    },
  };
}

/** Tells metrics how long helm worked, and for what. */
export function makeHelmRecorder({
  metrics,
  state,
  announce,
}: Pick<RecorderParts, "metrics" | "state" | "announce">): HelmRecorder {
  return {
    adopted: (module) =>
      announce({
        module,
        reason: "ReleaseAdopted",
        note: "a release that somebody made with helm is taken over",
      }),
    tookOver: (module, objects) => announce({ module, reason: "ObjectsTakenOver", note: objects.join(", ") }),
    ran({ release: module, operation, seconds }) {
      const activation = activationOfModule(state, module);
      metrics.observe("helmOperation", { module, activation, operation }, seconds);
    },
    reconciled(module, seconds) {
      metrics.observe("moduleHelm", { module, activation: activationOfModule(state, module) }, seconds);
    },
  };
}

function activationOfModule(state: RecorderParts["state"], module: string): string {
  return activationOf(state.view.modules.get(module)?.lastRun?.trigger, "module");
}

const REASONS: Readonly<Partial<Record<ReleaseOutcome["action"], EventReason>>> = {
  installed: "ReleaseInstalled",
  upgraded: "ReleaseUpgraded",
  restored: "Healed",
  rolledBack: "RolledBack",
};

function announceRelease(announce: Announce, module: string, outcome: ReleaseOutcome | undefined): void {
  if (outcome === undefined) return;
  const { action, release, recovered, refused } = outcome;
  const note = `release ${release?.name ?? module}, revision ${release?.revision ?? 0}`;
  const reason = REASONS[action];
  if (recovered) announce({ module, reason: "PendingReleaseRecovered", note });
  if (reason !== undefined) announce({ module, reason, note: refused ?? note });
}

/** Tells why the ConfigMap cannot be used. */
export function configTeller({
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

/** Tells of objects that others have changed, and of those that were put back. */
export function driftTeller({
  metrics,
  announce,
  logger,
}: Omit<RecorderParts, "state">): (module: string, object: DriftedObject, repaired: boolean) => void {
  return (module, object, repaired) => {
    const note = describeObject(object);
    logger.warn(repaired ? "An object was changed, and is put back" : "An object was changed", {
      module,
      drift: note,
    });
    metrics.add(repaired ? "repairs" : "drifts", { module });
    announce({ module, reason: repaired ? "Repaired" : "Drifted", note });
  };
}

const HELD = { delete: "RemovalHeld", purge: "PurgeRefused" } as const;

/** Tells of holds: each reload finds them anew; only new ones are told. */
export function holdTeller({
  announce,
  logger,
}: Pick<RecorderParts, "announce" | "logger">): (view: View) => void {
  let told = new Set<string>();
  return ({ holds, reload }) => {
    for (const { of, text } of holds) {
      if (told.has(text)) continue;
      told.add(text);
      logger.warn("A removal is held", { hold: text });
      announce({ module: undefined, reason: HELD[of], note: text });
    }
    if (reload.phase === "idle") told = new Set(holds.map(({ text }) => text));
  };
}

/** Announces that a release is not healthy, and once it is again; what is under way meanwhile is not told. */
export function healthTeller({
  announce,
}: Pick<RecorderParts, "announce">): (module: string, health: Health | undefined) => void {
  const ailing = new Set<string>();
  return (module, health) => {
    if (health === undefined) ailing.delete(module);
    else if (health.status === "False" && !ailing.has(module)) {
      ailing.add(module);
      announce({ module, reason: "Unhealthy", note: health.message });
    } else if (health.status === "True" && ailing.delete(module))
      announce({ module, reason: "Recovered", note: health.message });
  };
}

type Labels = readonly [ofModule: string, ofReload: string];

const both = (label: string): Labels => [label, label];
const OTHER = both("Other");

/** Values of the label `activation` by cause: few, and the Go operator's where it has one. */
export const ACTIVATIONS: Readonly<Record<Exclude<Cause["kind"], "hook">, Labels>> = {
  "start-up": both("OperatorStartup"),
  config: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  section: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  absent: both("AbsentHelmResourcesDetected"),
  release: both("HelmReleaseUnexpectedStatus"),
  requested: both("Requested"),
  "second-look": both("SecondLook"),
  files: both("FilesChanged"),
  confirmed: OTHER,
  "own-config": OTHER,
  globals: OTHER,
  values: OTHER,
  "first-run": OTHER,
  required: OTHER,
  unhealthy: OTHER,
  disabled: OTHER,
};

type HookCause = Extract<Cause, { kind: "hook" }>["by"];

export const OF_HOOKS: Readonly<Record<HookCause, Labels>> = {
  onStartup: OTHER,
  beforeAll: OTHER,
  beforeHelm: OTHER,
  beforeDeleteHelm: OTHER,
  afterDeleteHelm: OTHER,
  schedule: ["Schedule-Change-ModuleValues", "Schedule-Change-GlobalValues"],
  kubernetes: ["Kubernetes-Change-ModuleValues", "Kubernetes-Change-GlobalValues"],
  afterHelm: both("AfterHelm-Hooks-Change-Values"),
  afterAll: both("AfterAll-Hooks-Change-GlobalValues"),
};

/** The label `activation` of a module's run or a reload; `Other` where the cause has no value of its own. */
export function activationOf(cause: Cause | undefined, what: "module" | "reload"): string {
  if (cause === undefined) return "Other";
  const labels = cause.kind === "hook" ? OF_HOOKS[cause.by] : ACTIVATIONS[cause.kind];
  return labels[what === "module" ? 0 : 1];
}
