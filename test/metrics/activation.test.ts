import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { activationOf } from "../../src/metrics/activation.ts";

const page = readFileSync(new URL("../../docs/METRICS.md", import.meta.url), "utf8");

it.each([
  ["start-up", "OperatorStartup", "OperatorStartup"],
  ["ConfigMap section changed", "KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  ["ConfigMap changed", "KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  ["schedule hook changed values", "Schedule-Change-ModuleValues", "Schedule-Change-GlobalValues"],
  ["kubernetes hook changed values", "Kubernetes-Change-ModuleValues", "Kubernetes-Change-GlobalValues"],
  ["afterHelm hooks changed values", "AfterHelm-Hooks-Change-Values", "AfterHelm-Hooks-Change-Values"],
  [
    "afterAll hooks changed values",
    "AfterAll-Hooks-Change-GlobalValues",
    "AfterAll-Hooks-Change-GlobalValues",
  ],
  ["absent ns/Service/x", "AbsentHelmResourcesDetected", "AbsentHelmResourcesDetected"],
  ["release is gone", "HelmReleaseUnexpectedStatus", "HelmReleaseUnexpectedStatus"],
  ["requested", "Requested", "Requested"],
  ["second look at the directories", "SecondLook", "SecondLook"],
  ["anything else", "Other", "Other"],
  [undefined, "Other", "Other"],
])("%s", (cause, ofModule, ofReload) => {
  expect(activationOf(cause, "module")).toBe(ofModule);
  expect(activationOf(cause, "reload")).toBe(ofReload);
  expect(page).toContain(`\`${ofModule}\``);
  expect(page).toContain(`\`${ofReload}\``);
});
