import { expect, test } from "vitest";

import { conversionPath } from "../../../../src/engine/tasks/reviews/answer-review.ts";
import { hookOf } from "../../../hooks/build.ts";

/** Steps from texts such as `v1>v2`. */
const steps = (...rules: string[]) =>
  rules.map((text) => {
    const [fromVersion = "", toVersion = ""] = text.split(">");
    return { hook: hookOf("h", []), binding: undefined as never, rule: { fromVersion, toVersion } };
  });

const path = (rules: string[], from: string, to: string) =>
  conversionPath(steps(...rules), from, to)?.map(({ rule }) => `${rule.fromVersion}>${rule.toVersion}`);

test.each<[string[], string, string, string[] | undefined]>([
  [["v1>v2"], "g/v1", "g/v2", ["v1>v2"]],
  [["g/v1>g/v2"], "g/v1", "g/v2", ["g/v1>g/v2"]],
  [["h/v1>h/v2"], "g/v1", "g/v2", undefined],
  [["v1>v2", "v2>v3"], "g/v1", "g/v3", ["v1>v2", "v2>v3"]],
  [["v1>v2", "v2>v3", "v1>v3"], "g/v1", "g/v3", ["v1>v3"]],
  [["v1>v2", "g/v1>g/v2"], "g/v1", "g/v2", ["g/v1>g/v2"]],
  // A part of a version is another version.
  [["v1alpha1>v1", "v1beta1>v2"], "g/v1alpha1", "g/v2", undefined],
  // Neighbours are joined by the version alone.
  [["v1>g/v2", "h/v2>v3"], "g/v1", "g/v3", ["v1>g/v2", "h/v2>v3"]],
  // Forks after several steps, and circles.
  [["v1>v2", "v2>v1", "v2>v3", "v3>v4", "v3>v5", "v5>v6"], "v1", "v6", ["v1>v2", "v2>v3", "v3>v5", "v5>v6"]],
  [["v1>v2", "v2>v1"], "v1", "v3", undefined],
  [[], "v1", "v2", undefined],
])("%j from %s to %s", (...[rules, from, to, expected]) => {
  expect(path(rules, from, to)).toEqual(expected);
});

test("many versions that all lead to each other take no long time", () => {
  const names = Array.from({ length: 60 }, (_, index) => `v${index}`);
  const all = names.flatMap((from) => names.filter((to) => to !== from).map((to) => `${from}>${to}`));
  expect(path(all, "v0", "v99")).toBeUndefined();
});
