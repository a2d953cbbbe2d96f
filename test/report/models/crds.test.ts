import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { modelOf, models } from "../../../scripts/generate-models.mjs";
import { summarizeDrift } from "../../../src/kube/drift/index.ts";
import { type JsonObject, isJsonObject } from "../../../src/base/model/index.ts";
import { withGeneration } from "../../../src/report/index.ts";
import { at, crd, schemaOf, schemaViolations } from "../../support/models.ts";
import {
  T0,
  basis,
  finished,
  moduleView,
  release,
  viewOf,
  projectOperatorView,
  projectView,
} from "../views.ts";

const propertiesOf = (plural: string, ...path: readonly string[]): string[] =>
  Object.keys(at(schemaOf(plural), ...path.flatMap((key) => ["properties", key]), "properties")).toSorted();

function* nodes(node: JsonObject, path = ""): Generator<{ path: string; node: JsonObject }> {
  yield { path, node };
  for (const [key, child] of Object.entries(node["properties"] ?? {})) {
    if (isJsonObject(child)) yield* nodes(child, `${path}.${key}`);
  }
  if (isJsonObject(node["items"])) yield* nodes(node["items"], `${path}[]`);
}

const operatorStatus = projectOperatorView(
  viewOf([moduleView("m")], {
    removalBlockers: [{ action: "purge", text: "h" }],
    missingRights: ["get x"],
    convergedToken: "t",
  }),
);

describe.each(["addonmodules", "addonoperators", "modulesources"])("crds/%s.yaml", (plural) => {
  it("describes every field", () => {
    const bare = [...nodes(schemaOf(plural))]
      .filter(({ node, path }) => node["description"] === undefined && !path.endsWith("[]"))
      .map(({ path }) => path)
      .filter((path) => path !== ".metadata");
    expect(bare).toEqual([]);
  });

  it("gives an object nobody has looked at an observedGeneration of -1, and Flux leaves its texts alone", () => {
    expect(at(schemaOf(plural), "properties", "status", "default")).toEqual({ observedGeneration: -1 });
    expect(at(crd(plural), "metadata", "annotations")).toMatchObject({
      "kustomize.toolkit.fluxcd.io/substitute": "disabled",
    });
  });
});

it.each(models)("$file is what its CRD makes", async (model) => {
  expect(readFileSync(model.file, "utf8")).toBe(await modelOf(model));
});

describe("what is written", () => {
  it("has every field of the CRDs", () => {
    const { spec, status } = project();
    const keys = (value: object | undefined): string[] => Object.keys(value ?? {}).toSorted();
    expect(propertiesOf("addonmodules", "spec")).toEqual(keys(spec));
    expect(propertiesOf("addonmodules", "status")).toEqual(keys(withGeneration(status, 1)));
    expect(propertiesOf("addonmodules", "status", "lastRun")).toEqual(keys(status.lastRun));
    expect(propertiesOf("addonmodules", "status", "release")).toEqual(keys(status.release));
    expect(propertiesOf("addonmodules", "status", "objects")).toEqual(keys(status.objects));
    expect(propertiesOf("addonmodules", "status", "identity")).toEqual(keys(status.identity));
    expect(propertiesOf("addonmodules", "status", "source")).toEqual(keys(status.source));
    const next = at(
      schemaOf("addonmodules"),
      ...["status", "source", "next"].flatMap((each) => ["properties", each]),
    );
    expect(keys(at(next, "properties"))).toEqual(keys(status.source?.next));
    const item = (list: string): string[] =>
      keys(at(schemaOf("addonmodules"), "properties", "status", "properties", list, "items", "properties"));
    expect(item("requires")).toEqual(keys(status.requires?.[0]));
    expect(item("drift")).toEqual(keys(status.drift?.[0]));
    expect(item("health")).toEqual(keys(status.health?.[0]));
    expect(propertiesOf("addonoperators", "status")).toEqual(keys(withGeneration(operatorStatus, 1)));
    expect(propertiesOf("addonoperators", "status", "modules")).toEqual(keys(operatorStatus.modules));
  });

  it("is valid, and a field that the server would drop is found", () => {
    const base = { apiVersion: "addon-operator.io/v1alpha1", metadata: { name: "m" } } as const;
    const { spec, status } = project();
    const module = { ...base, kind: "AddonModule", spec, status: withGeneration(status, 1) } as const;
    const operator = { ...base, kind: "AddonOperator", status: withGeneration(operatorStatus, 1) } as const;
    expect([...schemaViolations(module), ...schemaViolations(operator)]).toEqual([]);
    const strange = { ...module, status: { ...module.status, mood: "good" } };
    expect(schemaViolations(strange as never)).toEqual([expect.stringContaining("additional properties")]);
    const wrong = { ...operator, status: { ...operator.status, state: "Happy" } };
    expect(schemaViolations(wrong as never)).toEqual([expect.stringContaining("/status/state")]);
  });
});

function project() {
  const view = moduleView("m", {
    enabledReason: "because",
    lastRun: finished({ hook: "hooks/a.sh", message: "m", result: "Failed" }),
    runSeconds: [1.5],
    release: release("m"),
    missingObjects: ["n/Service/s"],
    health: {
      revision: 1,
      status: "Unknown",
      reason: "Progressing",
      message: "m",
      counts: { total: 1, current: 0, inProgress: 1, failed: 0, terminating: 0, unknown: 0 },
      ailments: [{ object: "n/Service/s", status: "InProgress", reason: "NotFound", message: "m" }],
    },
    drift: summarizeDrift([
      {
        object: "n/Service/s",
        title: "Service n/s",
        fields: [{ field: "spec.type", manager: "m", at: 0, removed: false }],
        isRepairDelayed: false,
      },
    ]),
    retry: { reason: "HelmFailed", message: "m", failures: 1, since: 0 },
    handled: basis({ token: "t" }),
    requestedToken: "t",
    suspended: true,
    issues: ["Pods: forbidden"],
    update: {
      source: "s",
      waitsFor: "window",
      version: "1.1.0",
      digest: "sha256:2",
      since: 0,
      until: 1,
      message: "m",
    },
    module: {
      ...moduleView("m").module,
      origin: {
        source: "s",
        version: "1.0.0",
        digest: "sha256:1",
        verifiedBy: "k.pub",
        removed: false,
        problem: undefined,
      },
    },
  });
  const { spec, status } = projectView(view, {
    now: T0,
    nextRetryAt: T0,
    runBlocker: { awaitedName: "b", reason: "DependencyMissing", message: "waits for b" },
    identity: { serviceAccount: "team-a/deployer", hooksIsolated: false, message: "m" },
    requirements: [
      {
        of: "module",
        name: "b",
        range: ">=2",
        unmet: {
          name: "b",
          reason: "DependencyMissing",
          message: "is 1.2.0, not >=2",
          needsIntervention: true,
        },
      },
    ],
  });
  return { spec, status: { ...status, chartVersion: "1.0.0", values: { a: 1 }, valuesTruncated: true } };
}

it.each([
  ["addonmodules", "amod"],
  ["addonoperators", "aop"],
])("the short names: %s are %s and among addons", (plural, short) => {
  expect(at(crd(plural), "spec", "names")).toMatchObject({ shortNames: [short], categories: ["addons"] });
});
