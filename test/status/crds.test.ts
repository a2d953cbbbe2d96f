import { readFileSync } from "node:fs";

import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/lib/index.ts";
import { type JsonObject, isJsonObject } from "../../src/model/index.ts";
import { AddonModule, AddonOperator, projectModule, projectOperator, stamp } from "../../src/status/index.ts";
import type { LastRunStatus, ModuleStatus, OperatorStatus, ReleaseStatus } from "../../src/status/index.ts";
import { T0, basis, finished, moduleView, release, viewOf } from "./views.ts";

type Whole<T> = { [K in keyof Required<T>]: Required<T>[K] };

function crd(plural: string): JsonObject {
  const file = new URL(`../../crds/${plural}.yaml`, import.meta.url);
  const { value } = parseYaml(readFileSync(file, "utf8"), plural);
  if (!isJsonObject(value)) throw new Error("no object");
  return value;
}

/** The member at a path of keys; fails where there is none. */
function at(value: unknown, ...path: readonly (string | number)[]): JsonObject {
  let here: unknown = value;
  for (const key of path) here = (here as Record<string | number, unknown>)[key];
  if (!isJsonObject(here)) throw new Error(`nothing at ${path.join(".")}`);
  return here;
}

const schemaOf = (plural: string): JsonObject =>
  at(crd(plural), "spec", "versions", 0, "schema", "openAPIV3Schema");
const propertiesOf = (plural: string, ...path: readonly string[]): string[] =>
  Object.keys(at(schemaOf(plural), ...path.flatMap((key) => ["properties", key]), "properties")).toSorted();

/** The schema with every map closed, so that a field the CRD would drop is an error. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (!isJsonObject(node)) return node;
  const entries = Object.entries(node).filter(([key]) => !key.startsWith("x-kubernetes"));
  const copy: JsonObject = Object.fromEntries(
    entries.map(([key, value]) => [key, closed(value)]),
  ) as JsonObject;
  return isJsonObject(copy["properties"]) ? { ...copy, additionalProperties: false } : copy;
}

function* nodes(node: JsonObject, path = ""): Generator<{ path: string; node: JsonObject }> {
  yield { path, node };
  for (const [key, child] of Object.entries(node["properties"] ?? {})) {
    if (isJsonObject(child)) yield* nodes(child, `${path}.${key}`);
  }
  if (isJsonObject(node["items"])) yield* nodes(node["items"], `${path}[]`);
}

const run: Whole<LastRunStatus> = {
  trigger: "t",
  startedAt: "2026-01-01T00:00:00Z",
  finishedAt: "2026-01-01T00:00:01Z",
  durationSeconds: 1,
  result: "Failed",
  step: "helm",
  hook: "hooks/a.sh",
  message: "m",
  attempts: 2,
};
const whole: Whole<ReleaseStatus> = {
  name: "m",
  revision: 1,
  status: "deployed",
  chartVersion: "1",
  manifestChecksum: "c",
  lastDeployed: "2026-01-01T00:00:00Z",
};
const moduleStatus: Whole<ModuleStatus> = {
  state: "Ready",
  enabledBy: "script",
  enabledReason: "r",
  valuesDigest: "d",
  values: { a: null },
  valuesTruncated: true,
  lastRun: run,
  release: whole,
  absent: ["a"],
  failures: 1,
  nextRetryAt: "2026-01-01T00:00:00Z",
  lastHandledReconcileAt: "t",
  conditions: [],
};
const { status: operatorStatus } = projectOperator(
  viewOf([moduleView("m")], { holds: ["h"], missingRights: ["get x"], handledToken: "t" }),
  { now: T0, before: new Map() },
) satisfies { status: OperatorStatus };

describe.each(["addonmodules", "addonoperators"])("crds/%s.yaml", (plural) => {
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

describe("types and CRDs", () => {
  it("name the same fields", () => {
    const status = [...Object.keys(moduleStatus), "observedGeneration"].toSorted();
    expect(propertiesOf("addonmodules", "status")).toEqual(status);
    expect(propertiesOf("addonmodules", "status", "lastRun")).toEqual(Object.keys(run).toSorted());
    expect(propertiesOf("addonmodules", "status", "release")).toEqual(Object.keys(whole).toSorted());
    const { spec } = project();
    expect(propertiesOf("addonmodules", "spec")).toEqual(Object.keys(spec).toSorted());
    expect(propertiesOf("addonoperators", "status", "modules")).toEqual(
      Object.keys(operatorStatus.modules).toSorted(),
    );
    expect(propertiesOf("addonoperators", "status")).toEqual(
      [...Object.keys(operatorStatus), "observedGeneration"].toSorted(),
    );
  });

  it("agree on what is written", () => {
    const ajv = new Ajv({ strict: false, validateFormats: false });
    const { spec, status } = project();
    const module = new AddonModule({ metadata: { name: "m" }, spec, status: stamp(status, 1) as never });
    const operator = new AddonOperator({
      metadata: { name: "m" },
      status: stamp(operatorStatus, 1) as never,
    });
    const metadata = { type: "object" };
    for (const [plural, object] of [
      ["addonmodules", module.toJSON()],
      ["addonoperators", operator.toJSON()],
    ] as const) {
      const schema = closed(schemaOf(plural)) as JsonObject;
      const validate = ajv.compile({ ...schema, properties: { ...at(schema, "properties"), metadata } });
      expect([validate(object), validate.errors]).toEqual([true, null]);
    }
  });
});

function project() {
  const view = moduleView("m", {
    enabledReason: "because",
    lastRun: finished({ hook: "hooks/a.sh", message: "m", result: "Failed" }),
    release: release("m"),
    absent: ["n/Service/s"],
    retry: { reason: "HelmFailed", message: "m", failures: 1, nextAt: T0 },
    handled: basis({ token: "t" }),
    requestedToken: "t",
    suspended: true,
  });
  const shown = { values: { a: 1 }, valuesTruncated: true };
  return projectModule(view, {
    now: T0,
    boot: "running",
    before: new Map(),
    lastRunBefore: undefined,
    shown,
  });
}

it.each([
  ["addonmodules", "amod"],
  ["addonoperators", "aop"],
])("the short names: %s are %s and among addons", (plural, short) => {
  expect(at(crd(plural), "spec", "names")).toMatchObject({ shortNames: [short], categories: ["addons"] });
});
