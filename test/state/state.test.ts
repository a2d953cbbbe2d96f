import { describe, expect, it } from "vitest";

import { State } from "../../src/state/index.ts";
import type { ModuleRecord } from "../../src/state/index.ts";
import type { Module, Tree } from "../../src/model/index.ts";
import { parseConfigMap } from "../../src/values/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const FRONT = { kind: "config" } as const;

function moduleOf(name: string): Module {
  const none = { file: "values.yaml", section: undefined, enabled: undefined };
  return {
    name,
    valuesKey: name,
    common: none,
    own: none,
    schemas: {},
    crdFiles: [],
    problem: undefined,
  } as unknown as Module;
}

const treeOf = (...names: string[]): Tree =>
  ({
    modules: names.map(moduleOf),
    globalSchemas: {},
    globalHookFiles: [],
    purgeHolds: [],
  }) as unknown as Tree;

function lab(...names: string[]) {
  const clock = new ManualClock();
  let told = 0;
  const state = new State({ clock });
  state.onChange(() => void (told += 1));
  state.recordTree(treeOf(...names));
  const content = (data: Record<string, string>) =>
    parseConfigMap("ConfigMap addon-operator", data, state.values.modules());
  const seen = (data: Record<string, string>) => ({
    condition: "ok" as const,
    problems: [],
    resourceVersion: "1",
    content: content(data),
  });
  state.recordConfig(seen({}), FRONT);
  const changes = async (): Promise<number> => {
    await settle();
    const count = told;
    told = 0;
    return count;
  };
  return { clock, state, seen, changes };
}

it("the health of a revision says nothing of the next one", () => {
  const state = new State({ clock: new ManualClock(), ready: "healthy" });
  state.recordTree(treeOf("a"));
  const shown = () => {
    const { health, ailing } = state.view.modules.get("a") ?? {};
    return [health?.status, ailing?.status];
  };
  const release = (revision: number) =>
    ({ name: "a", revision, status: "deployed" }) as NonNullable<ModuleRecord["release"]>;
  const health = (status: "True" | "False") =>
    ({ revision: 1, status, reason: "r", message: "m" }) as NonNullable<ModuleRecord["health"]>;
  const set = (change: Partial<ModuleRecord>) =>
    state.update("a", (record) => void Object.assign(record, change));
  expect(shown()).toEqual([undefined, undefined]);
  set({ release: release(1) });
  expect(shown()).toEqual([undefined, "Unknown"]);
  set({ health: health("True") });
  expect(shown()).toEqual(["True", undefined]);
  set({ health: health("False") });
  expect(shown()).toEqual(["False", "False"]);
  set({ health: health("True"), release: release(2) });
  expect(shown()).toEqual(["Unknown", "Unknown"]);
});

/** Everything of the ConfigMap in force counts as worked on. */
function handled(state: State, name: string): void {
  state.update(name, (record) => {
    const basis = state.basisOf(record);
    record.run = { ...record.run, attempted: basis, handled: basis };
  });
}

describe("the record", () => {
  it("tells of changes once per turn", async () => {
    const { state, changes } = lab("web");
    await changes();
    state.addHold({ of: "purge", text: "a" });
    state.record({ boot: "running" });
    state.update("web", (record) => void (record.absent = ["x"]));
    expect(await changes()).toBe(1);
    expect(await changes()).toBe(0);
    state.update("nobody", () => {});
    expect(await changes()).toBe(0);
  });

  it("tells of values that hooks change", async () => {
    const { state, changes } = lab("web");
    const before = state.view;
    await changes();
    state.recordPatches("web", [{ op: "add", path: "/web/x", value: 1 }], "h");
    expect(await changes()).toBe(1);
    expect(state.view.modules.get("web")?.values()).toMatchObject({ web: { x: 1 } });
    expect(state.view).not.toBe(before);
    state.recordHookFlag("web", true);
    expect(await changes()).toBe(1);
    state.recordPatches("web", [], "h");
    expect(await changes()).toBe(0);
  });

  it("keeps what stands in the way of bindings with the module, or with global hooks", () => {
    const { state } = lab("web");
    state.recordTroubles(undefined, ["global"]);
    state.recordTroubles("web", ["own"]);
    expect([state.view.troubles, state.view.modules.get("web")?.troubles]).toEqual([["global"], ["own"]]);
    state.recordTroubles(undefined, []);
    expect([state.view.troubles, state.view.modules.get("web")?.troubles]).toEqual([[], ["own"]]);
  });

  it("keeps pictures of what did not change", () => {
    const { state } = lab("web", "db");
    const before = state.view;
    const [web, db] = ["web", "db"].map((name) => before.modules.get(name));
    expect(state.view).toBe(before);
    state.updateRun("web", (run) => ({ ...run, rounds: 1 }));
    expect(state.view.modules.get("db")).toBe(db);
    state.recordReload({ remaining: ["web"] });
    expect(state.view.modules.get("db")).toBe(db);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(web?.rounds).toBe(0);
  });

  it("a directory that goes takes its record along; one that stays keeps it", () => {
    const { state } = lab("web", "db");
    state.updateRun("web", (run) => ({ ...run, rounds: 1 }));
    state.recordTree(treeOf("web", "cache"));
    expect([...state.view.modules.keys()]).toEqual(["web", "cache"]);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(state.module("db")).toBeUndefined();
  });

  it("a hook's own write to the ConfigMap covers itself: run and reload do not become due", () => {
    const { state, seen } = lab("web");
    state.startReload({ kind: "start-up" });
    handled(state, "web");
    state.recordOwnConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }));
    const { coverage, reload, modules } = state.view;
    expect(reload.covered?.globalConfig).toBe(coverage.globalConfig);
    expect(modules.get("web")).toMatchObject({
      attempted: { section: modules.get("web")?.sectionDigest, config: modules.get("web")?.configDigest },
      handled: { section: modules.get("web")?.sectionDigest, config: modules.get("web")?.configDigest },
    });
  });

  it("what was owed before a hook's own write is owed after it", () => {
    const { state, seen } = lab("web");
    state.startReload({ kind: "start-up" });
    handled(state, "web");
    state.recordConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }), FRONT);
    state.recordOwnConfig(seen({ web: "{ x: 2 }", global: "{ z: 2 }" }));
    const { coverage, reload, modules } = state.view;
    expect(reload.covered?.globalConfig).not.toBe(coverage.globalConfig);
    const web = modules.get("web");
    expect(web?.handled.section).not.toBe(web?.sectionDigest);
    expect(web?.attempted?.section).not.toBe(web?.sectionDigest);
    expect(web?.handled.config).not.toBe(web?.configDigest);
  });

  it("a changed section of a module that is off is taken note of, where no reload follows", () => {
    const { state, seen } = lab("web");
    state.recordDecision("web", { enabled: false, by: "none" });
    state.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    const view = (): unknown => {
      const web = state.view.modules.get("web");
      return web?.handled.config === web?.configDigest;
    };
    expect(view()).toBe(true);
    state.recordConfig(seen({ web: "{ x: 2 }", global: "{ z: 1 }" }), FRONT);
    expect(view()).toBe(false);
  });

  it("content that is invalid or missing leaves the last good one in force", () => {
    const { state, seen } = lab("web");
    state.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    for (const condition of ["invalid", "missing"] as const) {
      state.recordConfig({ condition, problems: [], resourceVersion: "2" }, FRONT);
      expect(state.view.config.condition).toBe(condition);
      expect(state.values.configSection("web")).toEqual({ x: 1 });
    }
  });

  it("a ConfigMap that returns asks for another look at what was held back for want of it", () => {
    const { state, seen } = lab("web");
    const missing = { condition: "missing", problems: [], resourceVersion: undefined } as const;
    state.recordConfig(missing, FRONT);
    state.recordConfig(seen({}), FRONT);
    expect(state.view.secondLook).toBe(false);
    state.recordConfig(missing, FRONT);
    state.addHold({ of: "purge", text: "not purged: old" });
    state.recordConfig(missing, FRONT);
    expect(state.view.secondLook).toBe(false);
    state.recordConfig(seen({}), FRONT);
    expect(state.view.secondLook).toBe(true);
    state.startReload({ kind: "second-look" });
    expect(state.view.secondLook).toBe(false);
  });

  it("a reload answers the operator's token, a decision that of a module that is off", () => {
    const { state } = lab("web", "db");
    state.recordRequest(undefined, "t1");
    state.recordRequest("web", "t2");
    state.recordRequest("db", "t3");
    state.startReload({ kind: "requested" });
    state.recordDecision("web", { enabled: false, by: "none" });
    state.recordDecision("db", { enabled: true, by: "values" });
    expect(state.view.handledToken).toBe("t1");
    expect(state.view.modules.get("web")?.handled.token).toBe("t2");
    expect(state.view.modules.get("db")?.handled.token).toBeUndefined();
  });

  it("is a snapshot: a view does not change with what is recorded or patched later", () => {
    const { state } = lab("web", "db");
    const before = state.view;
    const web = before.modules.get("web");
    const seen = () => [web?.valuesDigest, web?.wholeDigest, web?.values(), before.enabledModules];
    const first = seen();
    for (const key of ["web", "global"])
      state.recordPatches(key, [{ op: "add", path: `/${key}/x`, value: 1 }], "h");
    state.recordDecision("web", { enabled: true, by: "values" });
    expect(state.view.modules.get("web")?.valuesDigest).not.toBe(first[0]);
    expect(state.view.enabledModules).toEqual(["web"]);
    expect(seen()).toEqual(first);
    expect(before.modules.get("web")).toBe(web);
    expect([...before.modules].map(([name, { enabled }]) => [name, enabled])).toEqual([
      ["web", false],
      ["db", false],
    ]);
  });

  it("merges what a view did not look at as it was then", () => {
    const { state } = lab("web");
    const before = state.view.modules.get("web");
    state.recordPatches("web", [{ op: "add", path: "/web/x", value: 1 }], "h");
    expect(before?.values()).toEqual({ global: {}, web: {} });
  });

  it("starts with nothing seen", () => {
    const state = new State({ clock: new ManualClock() });
    const { boot, config, reload, holds, secondLook, modules, tree } = state.view;
    expect([boot, config.condition, config.digest, secondLook, holds]).toEqual([
      "loading",
      "ok",
      "",
      false,
      [],
    ]);
    expect([reload.phase, reload.covered, reload.remaining]).toEqual(["idle", undefined, []]);
    expect([modules.size, tree.modules.length, tree.purgeHolds.length]).toEqual([0, 0, 0]);
    expect([state.view.enabledModules, state.globalHooks]).toEqual([[], []]);
  });

  it("shows a reload from its begin to its end", async () => {
    const { state, clock } = lab("web");
    const begin = clock.now();
    state.record({ boot: "converging" });
    state.startReload({ kind: "start-up" });
    const covered = { globalConfig: state.values.coverage().globalConfig, globals: undefined };
    const during = {
      phase: "beforeAll",
      cause: { kind: "start-up" },
      startedAt: begin,
      finishedAt: undefined,
      covered,
    };
    expect(state.view.reload).toMatchObject(during);
    expect(state.coversConfig()).toBe(true);
    state.cover("globals");
    expect(state.view.reload.covered?.globals).toBe(state.view.coverage.globals);
    state.recordReload({ phase: "modules" });
    state.recordReload({ remaining: ["web"] });
    await clock.advance(1000);
    state.finishReload(2);
    expect(state.view).toMatchObject({
      boot: "running",
      reload: {
        phase: "idle",
        cause: { kind: "start-up" },
        startedAt: begin,
        finishedAt: begin + 1000,
        remaining: [],
        rounds: 2,
      },
    });
  });

  it("does not begin to run with a reload's end before start-up came that far", () => {
    const { state } = lab();
    state.record({ boot: "synchronization" });
    state.finishReload(0);
    expect(state.view.boot).toBe("synchronization");
  });

  it("a reload under way can take content into account that came after its start", () => {
    const { state, seen } = lab("web");
    state.startReload({ kind: "start-up" });
    state.cover("globals");
    const globals = state.view.reload.covered?.globals;
    state.recordConfig(seen({ global: "{ z: 1 }" }), FRONT);
    expect(state.coversConfig()).toBe(false);
    state.cover("globals");
    expect(state.coversConfig()).toBe(false);
    expect(state.view.reload.covered?.globals).not.toBe(globals);
    state.cover("globalConfig");
    expect(state.coversConfig()).toBe(true);
  });

  it("remembers why globals and sections moved, and only those that did", () => {
    const { state, seen } = lab("web", "db");
    state.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    const causes = () => [
      state.view.globalCause,
      ...["web", "db"].map((name) => state.module(name)?.run.cause),
    ];
    expect(causes()).toEqual([undefined, FRONT, undefined]);
    state.recordConfig(seen({ web: "{ x: 1 }", dbEnabled: "true" }), FRONT);
    expect(causes()).toEqual([FRONT, FRONT, undefined]);
  });

  it("a section of a module that is on, or was not decided about, is still to be worked on", () => {
    const { state, seen } = lab("web", "db");
    state.recordDecision("web", { enabled: true, by: "values" });
    state.recordConfig(seen({ web: "{ x: 1 }", db: "{ x: 1 }" }), FRONT);
    for (const name of ["web", "db"]) expect(state.module(name)?.run.handled.section).toBeUndefined();
  });

  it("a module that needs a person has nothing to work on until its section moves", () => {
    const { state } = lab("web");
    state.recordRequest("web", "t1");
    state.updateRun("web", (run) => ({ ...run, activity: "running" }));
    state.recordProblem("web", { file: "f", message: "foreign" });
    const web = state.view.modules.get("web");
    expect(web).toMatchObject({
      activity: "none",
      problem: { message: "foreign" },
      handled: { token: "t1" },
    });
    expect(web?.handled.section).toBe(web?.sectionDigest);
    expect(web?.handled.config).toBe(web?.configDigest);
  });

  it("keeps what others tell it of releases, rights and removals", async () => {
    const { state, changes } = lab("web");
    const release = { name: "web", revision: 3, status: "deployed" } as never;
    state.update("web", (record) => void (record.release = release));
    state.record({ missingRights: ["list pods"] });
    state.addHold({ of: "delete", text: "a" });
    state.addHold({ of: "purge", text: "b" });
    state.record({ confirmation: "yes" });
    expect(state.view).toMatchObject({
      missingRights: ["list pods"],
      holds: [
        { of: "delete", text: "a" },
        { of: "purge", text: "b" },
      ],
      confirmation: "yes",
    });
    expect(state.view.modules.get("web")).toMatchObject({ release });
    state.record({ holds: [] });
    expect(state.view.holds).toEqual([]);
    await changes();
    state.record({ confirmation: "yes" });
    expect(await changes()).toBe(0);
  });

  it("shows modules that are on in the order of the tree", () => {
    const { state } = lab("a", "b", "c");
    for (const name of ["c", "a"]) state.recordDecision(name, { enabled: true, by: "values" });
    expect(state.view.enabledModules).toEqual(["a", "c"]);
  });

  it("shows the merged values of a module with globals, and what of them is secret", () => {
    const { state, seen } = lab("web");
    state.recordConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }", webProtected: "true" }), FRONT);
    const web = state.view.modules.get("web");
    expect(web?.values()).toEqual({ global: { z: 1 }, web: { x: 1 } });
    expect([web?.protected, web?.suspended, web?.secretPaths?.size]).toEqual([true, false, 0]);
    expect(web?.valuesDigest).toBe(state.values.merged("web").digest);
  });

  it("names keys that match no module", () => {
    const { state, seen } = lab("web");
    state.recordConfig(seen({ wen: "{ x: 1 }" }), FRONT);
    expect(state.view.config.unknownKeys).toEqual(["wen (did you mean web?)"]);
    const { digest } = state.view.config;
    state.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    expect(state.view.config.digest).not.toBe(digest);
  });
});
