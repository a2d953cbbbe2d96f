/** The label `activation` of series: what caused a run or a converge. */

import type { Cause } from "../../base/model/index.ts";

type ActivationLabels = readonly [ofModule: string, ofConverge: string];

/** The same label for runs of modules and for converges. */
const sameForBoth = (label: string): ActivationLabels => [label, label];
const OTHER_ACTIVATION = sameForBoth("Other");

/** Values of the label `activation` by cause: few, and the Go operator's where it has one. */
export const ACTIVATION_BY_CAUSE: Readonly<Record<Exclude<Cause["kind"], "hook">, ActivationLabels>> = {
  "start-up": sameForBoth("OperatorStartup"),
  config: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  section: ["KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  missing: sameForBoth("AbsentHelmResourcesDetected"),
  release: sameForBoth("HelmReleaseUnexpectedStatus"),
  requested: sameForBoth("Requested"),
  "second-check": sameForBoth("SecondLook"),
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
