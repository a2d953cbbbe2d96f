import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/lib/index.ts";
import type { JsonObject } from "../../src/model/index.ts";

function documents(file: string): JsonObject[] {
  const text = readFileSync(new URL(`../../deploy/flux/${file}`, import.meta.url), "utf8");
  return text.split(/^---$/m).map((part) => parseYaml(part, file).value as JsonObject);
}

const [kustomization, dependent] = documents("kustomization.yaml");
const [, helmRelease] = documents("helmrelease.yaml");

describe("Flux", () => {
  it("waits for the summary, and does not switch its own health checks off", () => {
    const spec = kustomization?.["spec"] as JsonObject & { healthChecks: JsonObject[] };
    expect(spec["wait"]).toBeUndefined();
    expect(spec.healthChecks).toContainEqual({
      apiVersion: "addon-operator.io/v1alpha1",
      kind: "AddonOperator",
      name: "addon-operator",
      namespace: "addon-operator",
    });
    expect(dependent?.["spec"]).toMatchObject({ dependsOn: [{ name: "addon-operator" }] });
  });

  it("upgrades the CRDs with the chart and leaves keys of hooks alone", () => {
    expect(helmRelease?.["spec"]).toMatchObject({
      install: { crds: "CreateReplace" },
      upgrade: { crds: "CreateReplace" },
      driftDetection: {
        ignore: [{ target: { kind: "ConfigMap", name: "addon-operator" }, paths: ["/data"] }],
      },
    });
  });
});
