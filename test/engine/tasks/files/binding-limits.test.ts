import { expect, it } from "vitest";

import { findTooManyBindings } from "../../../../src/engine/tasks/files/binding-limits.ts";
import { hookWith } from "../../../hooks/build.ts";

const names = (count: number): string => Array.from({ length: count }, (_, n) => `n${n}`).join(", ");
const watch = (count: number, more = ""): string =>
  `{name: b${count}, kind: Pod, nameSelector: {matchNames: [${names(count)}]}${more}}`;
const inNamespaces = (count: number): string =>
  `, namespace: {nameSelector: {matchNames: [${names(count)}]}}`;
const hook = (bindings: string) => hookWith(`configVersion: v1\n${bindings}`);
const kubernetes = (...bindings: string[]) => hook(`kubernetes: [${bindings.join(", ")}]`);
const schedules = (count: number) =>
  hook(
    `schedule: [${Array.from({ length: count }, (_, n) => `{name: s${n}, crontab: "* * * * *"}`).join(", ")}]`,
  );

it.each([
  [
    "as many as are allowed",
    [kubernetes(watch(100), watch(99)), kubernetes("{kind: Pod}"), schedules(200)],
    0,
  ],
  ["one name too many", [kubernetes(watch(101)), kubernetes(watch(100))], 1],
  ["each name in each namespace", [kubernetes(watch(20, inNamespaces(11)))], 1],
  ["many bindings", [kubernetes(...Array.from({ length: 201 }, (_, n) => `{name: b${n}, kind: Pod}`))], 1],
  ["schedules", [schedules(100), schedules(101)], 1],
])("the bindings of a module: %s", (_what, hooks, problems) => {
  expect(findTooManyBindings(hooks)).toHaveLength(problems);
});

it("names the hook that exceeds the limit, and the limit", () => {
  expect(
    findTooManyBindings([kubernetes("{kind: Pod}"), { ...schedules(201), path: "/hooks/many" }]),
  ).toEqual([
    {
      file: "/hooks/many",
      key: "--config",
      message:
        "the hooks of the module have too many bindings: a module with a ServiceAccount may have 200 watches and 200 schedules",
      remedy: "select objects by labels or namespaces instead of by names, or use fewer bindings",
    },
  ]);
});
