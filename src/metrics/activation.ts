/** Why a module ran, as the label `activation`. */

import type { Cause } from "../model/index.ts";

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
