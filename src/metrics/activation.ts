/** Why a module ran, as the label `activation`. */

/** Values of the label `activation` by cause: few, and the Go operator's where it has one. */
export const ACTIVATIONS: readonly (readonly [prefix: string, ofModule: string, ofReload: string])[] = [
  ["start-up", "OperatorStartup", "OperatorStartup"],
  ["ConfigMap", "KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  ["schedule hook", "Schedule-Change-ModuleValues", "Schedule-Change-GlobalValues"],
  ["kubernetes hook", "Kubernetes-Change-ModuleValues", "Kubernetes-Change-GlobalValues"],
  ["afterHelm hooks", "AfterHelm-Hooks-Change-Values", "AfterHelm-Hooks-Change-Values"],
  ["afterAll hooks", "AfterAll-Hooks-Change-GlobalValues", "AfterAll-Hooks-Change-GlobalValues"],
  ["absent ", "AbsentHelmResourcesDetected", "AbsentHelmResourcesDetected"],
  ["release is ", "HelmReleaseUnexpectedStatus", "HelmReleaseUnexpectedStatus"],
  ["requested", "Requested", "Requested"],
  ["second look", "SecondLook", "SecondLook"],
];

/** The label `activation` of a module's run or a reload; `Other` where the cause has no value of its own. */
export function activationOf(cause: string | undefined, what: "module" | "reload"): string {
  const known = ACTIVATIONS.find(([prefix]) => cause?.startsWith(prefix) === true);
  return known === undefined ? "Other" : known[what === "module" ? 1 : 2];
}
