import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import type { Cause } from "../../../src/base/model/index.ts";
import { getActivationLabel } from "../../../src/report/metrics/activation.ts";

const page = readFileSync(new URL("../../../docs/reference/metrics.md", import.meta.url), "utf8");

it.each<readonly [Cause | undefined, string, string]>([
  [{ kind: "start-up" }, "OperatorStartup", "OperatorStartup"],
  [{ kind: "section" }, "KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  [{ kind: "config" }, "KubeConfig-Changed-Modules", "ReloadAll-After-KubeConfigChange"],
  [{ kind: "hook", by: "schedule" }, "Schedule-Change-ModuleValues", "Schedule-Change-GlobalValues"],
  [{ kind: "hook", by: "kubernetes" }, "Kubernetes-Change-ModuleValues", "Kubernetes-Change-GlobalValues"],
  [{ kind: "hook", by: "afterHelm" }, "AfterHelm-Hooks-Change-Values", "AfterHelm-Hooks-Change-Values"],
  [
    { kind: "hook", by: "afterAll" },
    "AfterAll-Hooks-Change-GlobalValues",
    "AfterAll-Hooks-Change-GlobalValues",
  ],
  [{ kind: "missing", object: "ns/Service/x" }, "AbsentHelmResourcesDetected", "AbsentHelmResourcesDetected"],
  [{ kind: "release", status: "gone" }, "HelmReleaseUnexpectedStatus", "HelmReleaseUnexpectedStatus"],
  [{ kind: "requested" }, "Requested", "Requested"],
  [{ kind: "second-check" }, "SecondLook", "SecondLook"],
  [{ kind: "hook", by: "onStartup" }, "Other", "Other"],
  [undefined, "Other", "Other"],
])("%j", (cause, ofModule, ofConverge) => {
  expect(getActivationLabel(cause, "module")).toBe(ofModule);
  expect(getActivationLabel(cause, "converge")).toBe(ofConverge);
  expect(page).toContain(`\`${ofModule}\``);
  expect(page).toContain(`\`${ofConverge}\``);
});
