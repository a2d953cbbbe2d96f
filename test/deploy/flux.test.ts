import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { kstatus } from "../support/kstatus.ts";

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

type Conditions = Readonly<Record<string, string>>;

/** What an expression of the example says of an object with these conditions; the part of CEL that it uses. */
function holds(expression: string, conditions: Conditions): boolean {
  const script = expression.replaceAll(/\.exists\((\w+),/g, ".some(($1) =>");
  const list = Object.entries(conditions).map(([type, status]) => ({ type, status }));
  const names = { metadata: { generation: 2 }, status: { observedGeneration: 2, conditions: list } };
  return runInNewContext(script, names) as boolean;
}

describe("the expressions of deploy/flux/kustomization.yaml", () => {
  const spec = kustomization?.["spec"] as { healthCheckExprs: Record<string, string>[] } | undefined;
  const [checks = {}, ...others] = spec?.healthCheckExprs ?? [];

  it("are the same for each kind, which the kustomize-controller before 1.9 requires", () => {
    expect([checks, ...others]).toEqual(
      ["AddonOperator", "AddonModule"].map((kind) => ({ ...checks, kind })),
    );
  });

  const said = (conditions: Conditions) =>
    ["inProgress", "failed", "current"].filter((name) => holds(checks[name] ?? "", conditions));
  const plain = (conditions: Conditions) =>
    kstatus({
      metadata: { name: "x", generation: 2 },
      status: {
        observedGeneration: 2,
        conditions: Object.entries(conditions).map(([type, status]) => ({ type, status })),
      },
    });

  it.each<[string, Conditions, { said: string[]; alone: string }]>([
    ["a failing module", { Ready: "False", Reconciling: "True" }, { said: ["failed"], alone: "InProgress" }],
    [
      "a module that requires action",
      { Ready: "False", Stalled: "True" },
      { said: ["failed"], alone: "Failed" },
    ],
    ["a module that works", { Ready: "True" }, { said: ["current"], alone: "Current" }],
    [
      "a module that is worked on",
      { Ready: "Unknown", Reconciling: "True" },
      { said: [], alone: "InProgress" },
    ],
  ])("make %s fail at once or not, which kstatus alone may wait for", (_, conditions, wanted) => {
    expect({ said: said(conditions), alone: plain(conditions) }).toEqual(wanted);
  });
});

it("the release waits for all of the chart: nothing switches that off", () => {
  const spec = helmRelease?.["spec"] as Record<string, JsonObject>;
  expect(JSON.stringify(spec)).not.toContain("disableWait");
  expect(spec["chart"]).toMatchObject({ spec: { chart: "charts/addon-operator" } });
});
