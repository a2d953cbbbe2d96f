import { describe, expect, it } from "vitest";

import { EngineLab, type ModuleSpec } from "../support/engine-lab.ts";

// docs/guides/tenancy.md, "Move a release": a move deletes the old objects, so it counts as a removal.

const NAMES = ["a", "b", "c", "d", "e"];
const CLAIM = "PersistentVolumeClaim/data";

const modulesIn = (namespace: string | undefined, data: Record<string, readonly string[]> = {}) =>
  NAMES.map((name): ModuleSpec => {
    const target = namespace === undefined ? {} : { namespace: `${namespace}-${name}` };
    return { name, ...target, data: data[name] ?? [] };
  });

async function installed(
  names: readonly string[] = NAMES,
  more: { deletionLimit?: string; moduleQueues?: "own" } = {},
): Promise<EngineLab> {
  const config = Object.fromEntries(names.map((name) => [`${name}Enabled`, "true"]));
  const lab = new EngineLab({ deletionLimit: "3,50%", ...more, config, modules: modulesIn(undefined) });
  await lab.start();
  return lab;
}

/** Reads these modules in the next converge. */
async function change(lab: EngineLab, modules: readonly ModuleSpec[]): Promise<void> {
  lab.setModules(modules);
  lab.state.record("filesChanged", "all");
  await lab.run();
}

const tokenOf = (lab: EngineLab): string => lab.state.view.deletionLimit?.token ?? "nothing is held";
const placesOf = (lab: EngineLab): string =>
  [...lab.releases.values()].map(({ name, namespace }) => `${name} in ${namespace}`).join(", ");
const holdsOf = (lab: EngineLab): string[] => lab.state.view.removalBlockers.map(({ text }) => text);
const problemsOf = (lab: EngineLab): string[] =>
  [...lab.state.view.modules.values()].flatMap(({ name, problem }) =>
    problem === undefined ? [] : `${name}: ${problem.message}; ${problem.remedy}`,
  );

async function confirm(lab: EngineLab): Promise<void> {
  lab.state.record("confirmationObserved", tokenOf(lab));
  await lab.run();
}

const STAY = "a in default, b in default, c in default, d in default, e in default";
const MOVED = "a in x-a, b in x-b, c in x-c, d in x-d, e in x-e";
const command = (lab: EngineLab): string =>
  `kubectl annotate --overwrite -n default addonoperator/addon-operator addon-operator.io/confirm-delete=${tokenOf(lab)}`;

describe.each(["main", "own"] as const)("a new namespace of all modules, with queues %s", (moduleQueues) => {
  it("moves no release before a person confirms, as the deletion limit counts moves", async () => {
    const lab = await installed(NAMES, moduleQueues === "own" ? { moduleQueues } : {});
    await change(lab, modulesIn("x"));
    expect(placesOf(lab)).toBe(STAY);
    const moves = NAMES.map((name) => `${name} from namespace default to x-${name}`).join(", ");
    const text = `not moved: ${moves}: 5 of 5 modules at once are more than --delete-brake allows; restore their namespaces, or confirm: ${command(lab)}`;
    expect(holdsOf(lab)).toEqual([text]);
    expect(problemsOf(lab)[0]).toBe(
      "a: the release would move from namespace default to x-a; the deletion limit is exceeded;" +
        ` set the namespace default again (addon.yaml or --module-namespace-template), or confirm: ${command(lab)}`,
    );
    await confirm(lab);
    expect([placesOf(lab), holdsOf(lab), problemsOf(lab)]).toEqual([MOVED, [], []]);
    expect(lab.broken).toEqual([]);
  });
});

it("moves nothing back when the old namespaces are restored before a confirmation", async () => {
  const lab = await installed();
  await change(lab, modulesIn("x"));
  await change(lab, modulesIn(undefined));
  expect([placesOf(lab), holdsOf(lab), problemsOf(lab)]).toEqual([STAY, [], []]);
});

it("counts moves and removals together, also those of the last ten minutes", async () => {
  const lab = await installed();
  await change(lab, [...modulesIn("x").slice(0, 2), ...modulesIn(undefined).slice(2)]);
  expect(placesOf(lab)).toBe("a in x-a, b in x-b, c in default, d in default, e in default");
  lab.edit({ cEnabled: "false", dEnabled: "false" });
  await lab.run();
  expect(lab.linesOf("uninstall")).toEqual([]);
  expect(holdsOf(lab)[0]).toMatch(
    /^not deleted: c, d: 4 of 5 modules within 10 minutes \(2 removed already\)/,
  );
});

it("names removals and moves that exceed the limit together", async () => {
  const lab = await installed();
  lab.edit({ aEnabled: "false" });
  await change(lab, [...modulesIn(undefined).slice(0, 1), ...modulesIn("x").slice(1)]);
  expect(holdsOf(lab)[0]).toMatch(
    /^not deleted: a; not moved: b from namespace default to x-b, .*: 5 of 5 modules .*; enable them again, restore their namespaces, or confirm: kubectl/,
  );
  expect(lab.linesOf("uninstall")).toEqual([]);
  await confirm(lab);
  expect(placesOf(lab)).toBe("b in x-b, c in x-c, d in x-d, e in x-e");
});

describe("a move that deletes data", () => {
  const moveOne = (lab: EngineLab): Promise<void> =>
    change(lab, [
      ...modulesIn("x", { a: [CLAIM, "StatefulSet/db"] }).slice(0, 1),
      ...modulesIn(undefined).slice(1),
    ]);

  it("waits for a confirmation below the limit, and even without one", async () => {
    for (const deletionLimit of ["3,50%", "off"]) {
      const lab = await installed(NAMES, { deletionLimit });
      await moveOne(lab);
      expect(placesOf(lab)).toBe(STAY);
      expect(holdsOf(lab)).toEqual([
        `not moved: a from namespace default to x-a, which deletes the data in ${CLAIM}, StatefulSet/db;` +
          ` set the namespace default again (addon.yaml or --module-namespace-template), or confirm: ${command(lab)}`,
      ]);
      await confirm(lab);
      expect(placesOf(lab)).toBe("a in x-a, b in default, c in default, d in default, e in default");
    }
  });

  it("does not hold up removals, whose count still expires", async () => {
    const lab = await installed();
    await moveOne(lab);
    lab.edit({ bEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual(["uninstall b"]);
    await lab.run(700_000);
    lab.state.record("convergeRequested", "again");
    await lab.run();
    expect(lab.state.view.deletions.removed.size).toBe(0);
    expect(holdsOf(lab)).toHaveLength(1);
  });

  it("needs another token for another namespace", async () => {
    const lab = await installed();
    await moveOne(lab);
    const token = tokenOf(lab);
    await change(lab, [...modulesIn("y", { a: [CLAIM] }).slice(0, 1), ...modulesIn(undefined).slice(1)]);
    expect(tokenOf(lab)).not.toBe(token);
    lab.state.record("confirmationObserved", token);
    await lab.run();
    expect(placesOf(lab)).toBe(STAY);
  });
});

it("does not move a protected module, and moves it when the key is removed", async () => {
  const lab = await installed();
  lab.edit({ aProtected: "true" });
  await change(lab, [...modulesIn("x").slice(0, 1), ...modulesIn(undefined).slice(1)]);
  expect(placesOf(lab)).toBe(STAY);
  expect(problemsOf(lab)).toEqual([
    "a: the module is protected, but its release would move from namespace default to x-a; set the namespace default again (addon.yaml or --module-namespace-template), or remove aProtected from the ConfigMap",
  ]);
  lab.edit({ aProtected: undefined });
  await lab.run();
  expect([placesOf(lab), problemsOf(lab)]).toEqual([
    "a in x-a, b in default, c in default, d in default, e in default",
    [],
  ]);
});

it("decides about the move of a suspended module when it is resumed", async () => {
  const lab = await installed();
  lab.edit({ aMaintenance: "NoResourceReconciliation" });
  await change(lab, [...modulesIn("x", { a: [CLAIM] }).slice(0, 1), ...modulesIn(undefined).slice(1)]);
  expect([placesOf(lab), holdsOf(lab)]).toEqual([STAY, []]);
  lab.edit({ aMaintenance: undefined });
  await lab.run();
  expect(placesOf(lab)).toBe(STAY);
  expect(holdsOf(lab)[0]).toContain(`which deletes the data in ${CLAIM}`);
});

it("moves nothing while the ConfigMap is missing", async () => {
  const lab = await installed();
  lab.loseConfig();
  await change(lab, [...modulesIn("x").slice(0, 1), ...modulesIn(undefined).slice(1)]);
  expect([placesOf(lab), holdsOf(lab)]).toEqual([STAY, ["not moved: a: the ConfigMap is missing"]]);
  lab.edit({});
  await lab.run();
  expect(placesOf(lab)).toBe("a in x-a, b in default, c in default, d in default, e in default");
});

it("begins no move that a hook causes in the middle of a run", async () => {
  const before: ModuleSpec = { name: "one", enabled: true, data: [CLAIM] };
  const lab: EngineLab = new EngineLab({ modules: [before] });
  await lab.start();
  const hook = {
    name: "h",
    lifecycle: { beforeHelm: 1 },
    act: () => ({ objects: () => lab.setModules([{ ...after, namespace: "x" }]) }),
  };
  const after: ModuleSpec = { ...before, hooks: [hook] };
  await change(lab, [after]);
  expect([placesOf(lab), holdsOf(lab).length]).toEqual(["one in default", 1]);
  expect(lab.broken).toEqual([]);
});
