import { describe, expect, test } from "vitest";

import { parseHookConfig } from "../../../src/hooks/index.ts";

// Webhook bindings in the configuration of hooks (docs/reference/hooks.md, "Webhooks").

const RULE = { apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: ["CREATE"] };

function parsed(config: object) {
  return parseHookConfig(JSON.stringify({ configVersion: "v1", ...config }), "module");
}

function errors(config: object): readonly string[] {
  const answer = parsed(config);
  return "errors" in answer ? answer.errors : [];
}

const KEYS = ["kubernetesValidating", "kubernetesMutating"] as const;

describe.each(KEYS)("%s", (key) => {
  const errorsOf = (...items: object[]) => errors({ [key]: items });

  test("only the name is required", () => {
    const answer = parsed({ [key]: [{ name: "a.b.io" }] });
    const kind = key === "kubernetesValidating" ? "validating" : "mutating";
    expect("config" in answer && answer.config.bindings[kind]).toMatchObject([
      { name: "a.b.io", rules: [], failurePolicy: undefined, sideEffects: "None", timeoutSeconds: 10 },
    ]);
    expect(errorsOf({})).toEqual([`${key}[0].name is required`]);
  });

  test.each(["a.b", "x", "A.b.io", "a..b", "-a.b.io", `${"a".repeat(250)}.b.io`])("the name %s", (name) => {
    expect(errorsOf({ name })).toEqual([expect.stringContaining(`${key}[0].name: Invalid value: "${name}"`)]);
  });

  test.each([
    [{ timeoutSeconds: 31 }, "timeoutSeconds: Invalid value: 31: must be between 1 and 30 seconds"],
    [{ timeoutSeconds: 0 }, "timeoutSeconds: Invalid value: 0: must be between 1 and 30 seconds"],
    [{ failurePolicy: "Maybe" }, "failurePolicy should be one of [Ignore Fail]"],
    [{ sideEffects: "Some" }, "sideEffects should be one of [None NoneOnDryRun]"],
    [{ queue: "main" }, "queue is a forbidden property"],
    [{ matchPolicy: "Exact" }, "matchPolicy is a forbidden property"],
    [{ rules: [{ ...RULE, operations: ["READ"] }] }, "operations[0] should be one of"],
    [{ rules: [{ apiGroups: [""] }] }, "apiVersions is required"],
    [{ rules: [{ ...RULE, apiGroups: ["*", "apps"] }] }, "apiGroups: if '*' is present"],
    [{ rules: [{ ...RULE, operations: ["*", "CREATE"] }] }, "operations: if '*' is present"],
    [{ rules: [{ ...RULE, resources: ["*/*", "pods"] }] }, "resources: if '*/*' is present"],
    [{ rules: [{ ...RULE, resources: ["*", "pods"] }] }, "resources: if '*' is present"],
    [{ rules: [{ ...RULE, resources: ["pods/*", "pods/log"] }] }, "'pods/log' must not be specified"],
    [{ rules: [{ ...RULE, resources: ["*/log", "pods/log"] }] }, "'pods/log' must not be specified"],
    [{ matchConditions: [{ name: "x" }] }, "expression is required"],
    [{ namespace: {} }, "namespace.labelSelector is required"],
    [{ labelSelector: { matchLabels: { "a b": "c" } } }, "is no label key"],
    [{ includeSnapshotsFrom: ["pods"] }, "includeSnapshotsFrom is invalid: 'pods' binding name not found"],
  ])("%j is refused", (more, message) => {
    const found = errorsOf({ name: "a.b.io", ...more });
    expect(found.some((each) => each.startsWith(`${key}[0]`) && each.includes(message))).toBe(true);
  });

  test.each([
    [["pods/exec", "pods", "pods/status", "*/scale"], {}, "pods/exec, */scale"],
    [["pods", "pods/*", "deployments/status"], {}, undefined],
    [["pods/exec"], undefined, undefined],
  ])("resources %j with the selector %j", (resources, labelSelector, named) => {
    const selector = labelSelector && { matchLabels: { a: "b" } };
    const answer = parsed({
      [key]: [{ name: "a.b.io", rules: [{ ...RULE, resources }], labelSelector: selector }],
    });
    const warning = `${key}[0].labelSelector: requests of ${named} have no labels that it could select`;
    expect("config" in answer && answer.warnings).toEqual(named === undefined ? [] : [warning]);
  });

  test("two of one name", () => {
    expect(errorsOf({ name: "a.b.io" }, { name: "a.b.io" })).toEqual([
      `${key}[1].name: Duplicate value: "a.b.io"`,
    ]);
  });

  test("resources beside a wildcard for other parts are fine", () => {
    const rules = [
      { ...RULE, resources: ["*", "pods/log"] },
      { ...RULE, resources: ["pods", "pods/*"] },
    ];
    expect(errorsOf({ name: "a.b.io", rules })).toEqual([]);
  });

  test("rules may be empty or missing", () => {
    expect([errorsOf({ name: "a.b.io", rules: [] }), errorsOf({ name: "a.b.io" })]).toEqual([[], []]);
  });

  test("there are none in version 0", () => {
    const answer = parseHookConfig(JSON.stringify({ [key]: [{ name: "a.b.io" }] }), "module");
    expect(answer).toEqual({ errors: [`${key} is a forbidden property without configVersion: v1`] });
  });
});

test("one name for a validating and a mutating webhook is fine", () => {
  expect(
    errors({ kubernetesValidating: [{ name: "a.b.io" }], kubernetesMutating: [{ name: "a.b.io" }] }),
  ).toEqual([]);
});
