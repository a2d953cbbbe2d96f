import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import type { Json, JsonObject } from "../../src/base/model/index.ts";
import { kstatus } from "../support/kstatus.ts";
import { runLua } from "./lua.ts";

const ROOT = new URL("../../deploy/argo-cd/", import.meta.url).pathname;
const read = (path: string): string => readFileSync(`${ROOT}${path}`, "utf8");
const yaml = (path: string): unknown => parseYaml(read(path), path).value;

interface HealthTests {
  readonly tests: readonly {
    readonly healthStatus: { readonly status: string; readonly message: string };
    readonly inputPath: string;
  }[];
}
interface ActionTests {
  readonly discoveryTests: readonly { readonly inputPath: string; readonly result: readonly Action[] }[];
  readonly actionTests: readonly { action: string; inputPath: string; expectedOutputPath: string }[];
}
interface Action extends JsonObject {
  name: string;
  disabled: boolean;
}

const customizations = (yaml("argocd-cm.yaml") as { data: Record<string, string> }).data;

describe.each(["AddonModule", "AddonOperator", "ModuleSource"])("%s in Argo CD", (kind) => {
  const dir = `resource_customizations/addon-operator.io/${kind}`;
  const { tests } = yaml(`${dir}/health_test.yaml`) as HealthTests;
  const actions = yaml(`${dir}/actions/action_test.yaml`) as ActionTests;

  it.each(tests)("health of $inputPath", ({ inputPath, healthStatus }) => {
    const object = yaml(`${dir}/${inputPath}`) as JsonObject;
    expect(runLua(read(`${dir}/health.lua`), object)).toEqual(healthStatus);
    const isHealthy = ["Healthy", "Suspended"].includes(healthStatus.status);
    // A healing is progress for kstatus and healthy for Argo CD; in all else the two agree.
    const isCurrent = inputPath.includes("healing") || kstatus(object as never) === "Current";
    expect(isCurrent).toBe(isHealthy);
  });

  it.each(actions.discoveryTests)("actions of $inputPath", ({ inputPath, result }) => {
    const found = runLua(read(`${dir}/actions/discovery.lua`), yaml(`${dir}/actions/${inputPath}`) as Json);
    const wanted = result.map(({ name, disabled }) => [name, { disabled }]);
    expect(found).toEqual(Object.fromEntries(wanted));
  });

  it.each(actions.actionTests)("action $action", ({ action, inputPath, expectedOutputPath }) => {
    const changed = runLua(
      read(`${dir}/actions/${action}/action.lua`),
      yaml(`${dir}/actions/${inputPath}`) as Json,
    );
    expect(changed).toEqual(yaml(`${dir}/actions/${expectedOutputPath}`) as Json);
  });

  it("has the same scripts in argocd-cm.yaml", () => {
    expect(customizations[`resource.customizations.health.addon-operator.io_${kind}`]).toBe(
      read(`${dir}/health.lua`),
    );
    const text = customizations[`resource.customizations.actions.addon-operator.io_${kind}`] ?? "";
    expect(parseYaml(text, kind).value).toEqual({
      "discovery.lua": read(`${dir}/actions/discovery.lua`),
      definitions: [{ name: "run-now", "action.lua": read(`${dir}/actions/run-now/action.lua`) }],
    });
  });
});

it("the interpreter has no string library, as Argo CD's", () => {
  expect(() => runLua('return string.find("a", "a")', {})).toThrow(/string/);
});

const page = readFileSync(new URL("../../docs/guides/gitops.md", import.meta.url), "utf8");

/** An object for each thing that the table of docs/guides/gitops.md says of an AddonModule. */
const OBJECTS: Readonly<Record<string, (condition: typeof conditions) => JsonObject>> = {
  "Being deleted": (of) => ({ ...of("Ready=True"), metadata: { generation: 2, deletionTimestamp: "now" } }),
  "no status": () => ({ metadata: { generation: 2 } }),
  "a status of an older generation": (of) => ({ ...of("Ready=True"), metadata: { generation: 3 } }),
  Stalled: (of) => of("Ready=True", "Stalled=True"),
  "Ready=False": (of) => of("Ready=False", "Reconciling=True"),
  "Ready=Unknown": (of) => of("Ready=Unknown", "Reconciling=True"),
  "Ready=True and Suspended": (of) => of("Ready=True", "Suspended=True"),
  "Ready=True": (of) => of("Ready=True"),
};

function conditions(...all: readonly string[]): JsonObject {
  const list = all.map((each) => {
    const [type = "", status = ""] = each.split("=");
    return { type, status, message: each };
  });
  return { metadata: { generation: 2 }, status: { observedGeneration: 2, conditions: list } };
}

it("the table of health in docs/guides/gitops.md is what the script says", () => {
  const script = read("resource_customizations/addon-operator.io/AddonModule/health.lua");
  const from = page.indexOf("| AddonModule | Argo CD |");
  const rows = page.slice(from, page.indexOf("\n\n", from)).split("\n").slice(2);
  const reported = rows.flatMap((row) => {
    const [, cases = "", health = ""] = row.split("|").map((cell) => cell.trim());
    return cases.split(/, (?:or )?/).map((each) => [each, health]);
  });
  expect(reported.map(([each]) => each)).toEqual(Object.keys(OBJECTS));
  const said = Object.entries(OBJECTS).map(([each, make]) => {
    const health = runLua(script, make(conditions)) as { status: string };
    return [each, health.status];
  });
  expect(said).toEqual(reported);
});

it("what changes all the time refreshes no Application, what decides its health does", () => {
  for (const kind of ["AddonModule", "AddonOperator"]) {
    const text = customizations[`resource.customizations.ignoreResourceUpdates.addon-operator.io_${kind}`];
    const { jsonPointers } = parseYaml(text ?? "", kind).value as { jsonPointers: string[] };
    const fields = Object.keys(statusOf(kind));
    expect(jsonPointers.filter((each) => !fields.includes(each.replace("/status/", "")))).toEqual([]);
    expect(jsonPointers.filter((each) => /conditions|observedGeneration/.test(each))).toEqual([]);
  }
});

/** The fields of a kind's status. */
function statusOf(kind: string): JsonObject {
  const file = `../../crds/${kind.toLowerCase()}s.yaml`;
  const crd = parseYaml(readFileSync(new URL(file, import.meta.url), "utf8"), kind).value;
  const { spec } = crd as { spec: { versions: { schema: { openAPIV3Schema: JsonObject } }[] } };
  const properties = spec.versions[0]?.schema.openAPIV3Schema["properties"] ?? {};
  return ((properties as JsonObject)["status"] as JsonObject)["properties"] as JsonObject;
}

it("the Application is of the chart, with the parts of docs/guides/gitops.md", () => {
  expect(yaml("application.yaml")).toMatchObject({
    kind: "Application",
    spec: { source: { path: "charts/addon-operator" } },
  });
});
