import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/lib/index.ts";
import type { Json, JsonObject } from "../../src/model/index.ts";
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

describe.each(["AddonModule", "AddonOperator"])("%s in Argo CD", (kind) => {
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
