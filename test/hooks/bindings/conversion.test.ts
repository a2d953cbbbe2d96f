import { expect, test } from "vitest";

import { parseHookConfig } from "../../../src/hooks/index.ts";

const KEY = "kubernetesCustomResourceConversion";
const crdName = "crontabs.stable.example.com";

function errors(...items: object[]): readonly string[] {
  const answer = parseHookConfig(JSON.stringify({ configVersion: "v1", [KEY]: items }), "global");
  return "errors" in answer ? answer.errors : [];
}

const item = (...conversions: object[]) => ({ name: "x", crdName, conversions });
const rule = (fromVersion: string, toVersion: string) => ({ fromVersion, toVersion });

test("versions with and without a group are fine", () => {
  expect(
    errors(item(rule("v1alpha1", "v1"), rule("stable.example.com/v1", "stable.example.com/v2"))),
  ).toEqual([]);
});

test.each([
  [item(), `${KEY}[0].conversions should have at least 1 items`],
  [item(rule("v1", "v1")), `${KEY}[0].conversions[0]: fromVersion and toVersion are the same`],
  [item(rule("a/b/c", "v1")), `${KEY}[0].conversions[0].fromVersion is invalid`],
  [{ ...item(rule("v1", "v2")), crdName: "crontabs" }, `${KEY}[0].crdName is invalid`],
  [{ ...item(rule("v1", "v2")), queue: "main" }, `${KEY}[0].queue is a forbidden property`],
])("%j is refused", (given, message) => {
  expect(errors(given)).toEqual([expect.stringContaining(message)]);
});

test("one conversion that is declared twice", () => {
  expect(errors(item(rule("v1", "v2")), item(rule("v1", "v2")))).toEqual([
    expect.stringContaining("is declared twice"),
  ]);
});
