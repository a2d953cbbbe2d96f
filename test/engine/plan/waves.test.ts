import { expect, it } from "vitest";

import { ModuleQueues, type QueueMode } from "../../../src/base/model/index.ts";
import { simulateStart } from "../../../src/engine/plan/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { moduleView, viewOf } from "../../report/views.ts";

// docs/reference/commands.md, "plan".

/** Modules before their first run, with number, what they require, and what they come after. */
function start(
  modules: Readonly<Record<string, [order: number, requires?: string | undefined, after?: string]>>,
  change: Partial<View> = {},
): View {
  const views = Object.entries(modules).map(([name, [order, requires, after]]): ModuleView => {
    const before = moduleView(name, { phase: "new", release: undefined });
    const file = {
      ...(requires !== undefined && {
        requires: { modules: Object.fromEntries(requires.split(" ").map((of) => [of, "*"])) },
      }),
      ...(after !== undefined && { after: after.split(" ") }),
    };
    return { ...before, module: { ...before.module, order, ...file } };
  });
  return viewOf(views, change);
}

it.each<[string, Parameters<typeof start>[0], own: string, main: string]>([
  ["equal numbers side by side, smaller ones first", { a: [1], b: [1], c: [5] }, "a b, c", "a, b, c"],
  [
    "what requires something after that, whatever its number",
    { a: [1, "c"], b: [2], c: [3], d: [4] },
    "b, c, a d",
    "b, c, a, d",
  ],
  [
    "what requires something beside others, but in main as its number says",
    { a: [1], b: [2], c: [3], d: [9, "a"] },
    "a, b d, c",
    "a, b, c, d",
  ],
  ["a chain", { a: [1, "b"], b: [1, "c"], c: [1] }, "c, b, a", "c, b, a"],
  ["what one run lets start, as numbers say", { a: [1, "c"], b: [2, "c"], c: [3] }, "c, a b", "c, a, b"],
  ["what comes after another one", { a: [1, undefined, "b"], b: [1] }, "b, a", "b, a"],
  ["what comes after one that cannot run", { a: [1, undefined, "b"], b: [1, "none"] }, "a", "a"],
  ["modules that come after each other", { a: [1, undefined, "b"], b: [1, undefined, "a"] }, "b, a", "b, a"],
])("orders %s", (_, modules, own, main) => {
  const wavesOf = (mode: QueueMode): string => {
    const { waves } = simulateStart(start(modules, { moduleQueues: new ModuleQueues(mode) }));
    return waves.map((wave) => wave.join(" ")).join(", ");
  };
  expect({ own: wavesOf("own"), main: wavesOf("main") }).toEqual({ own, main });
});

it("reports what cannot run, and why", () => {
  const view = start({ a: [1, "none"], b: [1, "a"], c: [1, "d"], d: [1], e: [1] });
  const views = [...view.modules.values()];
  const change = (name: string, of: Partial<ModuleView>): void =>
    void views.splice(
      views.findIndex((each) => each.name === name),
      1,
      {
        ...(view.modules.get(name) ?? moduleView(name)),
        ...of,
      },
    );
  change("d", { problem: { file: "f", message: "m" } });
  const { waves, blockedModules } = simulateStart(viewOf(views));
  expect(waves).toEqual([["e"]]);
  expect(Object.fromEntries(blockedModules)).toEqual({
    a: "none, which does not exist",
    b: "a, which is not Ready",
    c: "d, which requires action",
  });
  change("d", { enabled: false });
  expect(simulateStart(viewOf(views)).blockedModules.get("c")).toBe("d, which is disabled");
});

it("takes objects for there, and goes by the version of Kubernetes", () => {
  const module = moduleView("a", { phase: "new" });
  const objects = [{ apiVersion: "v1", kind: "Secret", name: "ca" }];
  const a = { ...module, module: { ...module.module, requires: { objects, kubernetes: ">=1.30" } } };
  expect(simulateStart(viewOf([a], { serverVersion: "v1.31.0" }))).toEqual({
    waves: [["a"]],
    blockedModules: new Map(),
  });
  expect(simulateStart(viewOf([a], { serverVersion: "v1.29.0" })).blockedModules.get("a")).toBe(
    "Kubernetes, which is 1.29.0, not >=1.30",
  );
});

it("sees the version that a run installs", () => {
  const { modules } = start({ a: [2], b: [1] });
  const views = [...modules.values()].map((each): ModuleView => {
    const release = { name: each.name, revision: 1, status: "deployed", chartVersion: "1.0.0" };
    const requires = each.name === "b" ? { modules: { a: ">=2" } } : undefined;
    const file = { ...each.module, chartVersion: "2.0.0", requires } as ModuleView["module"];
    return { ...each, release: release as ModuleView["release"], module: file };
  });
  expect(simulateStart(viewOf(views))).toEqual({ waves: [["a"], ["b"]], blockedModules: new Map() });
});
