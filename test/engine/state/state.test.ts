import { describe, expect, it } from "vitest";

import { State } from "../../../src/engine/state/index.ts";
import type { ModuleRecord } from "../../../src/engine/state/index.ts";
import type { Module, Tree } from "../../../src/base/model/index.ts";
import { parseConfigMap } from "../../../src/values/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { begin, handlesConfig } from "../../support/state.ts";

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
    purgeBlockers: [],
  }) as unknown as Tree;

function lab(...names: string[]) {
  const clock = new ManualClock();
  let reported = 0;
  const state = new State({ clock });
  state.onChange(() => void (reported += 1));
  state.recordTree(treeOf(...names));
  const content = (data: Record<string, string>) =>
    parseConfigMap("ConfigMap addon-operator", data, state.values.modules());
  const seen = (data: Record<string, string>) => ({
    condition: "ok" as const,
    problems: [],
    resourceVersion: "1",
    content: content(data),
  });
  state.inputs.recordConfig(seen({}), FRONT);
  const changes = async (): Promise<number> => {
    await settle();
    const count = reported;
    reported = 0;
    return count;
  };
  return { clock, state, seen, changes };
}

it("the flag of a module with an unreadable values.yaml is unknown, unless the ConfigMap sets it", () => {
  const { state, seen } = lab();
  const [a, b] = [moduleOf("a"), moduleOf("b")];
  state.recordTree({ ...treeOf(), modules: [{ ...a, own: { ...a.own, isUnreadable: true } }, b] });
  const unknown = () => [...state.view.modules.values()].map(({ isFlagUnknown }) => isFlagUnknown);
  expect(unknown()).toEqual([true, false]);
  state.inputs.recordConfig(seen({ aEnabled: "false" }), FRONT);
  expect(unknown()).toEqual([false, false]);
});

it("the health of a revision says nothing of the next one", () => {
  const state = new State({ clock: new ManualClock(), ready: "healthy" });
  state.recordTree(treeOf("a"));
  const displayed = () => {
    const { health, unhealthy } = state.view.modules.get("a") ?? {};
    return [health?.status, unhealthy?.status];
  };
  const release = (revision: number) =>
    ({ name: "a", revision, status: "deployed" }) as NonNullable<ModuleRecord["release"]>;
  const health = (status: "True" | "False") =>
    ({ revision: 1, status, reason: "r", message: "m" }) as NonNullable<ModuleRecord["health"]>;
  const assess = (status: "True" | "False") => state.recordModule("a", "healthAssessed", health(status));
  const deploy = (revision: number) => state.recordModule("a", "releaseObserved", release(revision));
  expect(displayed()).toEqual([undefined, undefined]);
  deploy(1);
  expect(displayed()).toEqual([undefined, "Unknown"]);
  assess("True");
  expect(displayed()).toEqual(["True", undefined]);
  assess("False");
  expect(displayed()).toEqual(["False", "False"]);
  assess("True");
  deploy(2);
  expect(displayed()).toEqual(["Unknown", "Unknown"]);
});

/** Everything of the ConfigMap in force counts as worked on. */
function handled(state: State, name: string): void {
  begin(state, name);
  state.recordModule(name, "runStepsCompleted", false);
}

describe("the record", () => {
  it("reports of changes once per turn", async () => {
    const { state, changes } = lab("web");
    await changes();
    state.record("removalBlocked", { action: "purge", text: "a" });
    state.record("bootPhaseReached", "running");
    state.recordModule("web", "objectsFoundMissing", ["x"]);
    expect(await changes()).toBe(1);
    expect(await changes()).toBe(0);
    state.recordModule("nobody", "removalDecided");
    expect(await changes()).toBe(0);
  });

  it("reports of values that hooks change", async () => {
    const { state, changes } = lab("web");
    const before = state.view;
    await changes();
    state.inputs.recordPatches("web", [{ op: "add", path: "/web/x", value: 1 }], "h");
    expect(await changes()).toBe(1);
    expect(state.view.modules.get("web")?.values()).toMatchObject({ web: { x: 1 } });
    expect(state.view).not.toBe(before);
    state.inputs.recordHookFlag("web", true);
    expect(await changes()).toBe(1);
    state.inputs.recordPatches("web", [], "h");
    expect(await changes()).toBe(0);
  });

  it("keeps what stands in the way of bindings with the module, or with global hooks", () => {
    const { state } = lab("web");
    state.record("hookIssuesChanged", ["global"]);
    state.recordModule("web", "hookIssuesChanged", ["own"]);
    expect([state.view.issues, state.view.modules.get("web")?.issues]).toEqual([["global"], ["own"]]);
    state.record("hookIssuesChanged", []);
    expect([state.view.issues, state.view.modules.get("web")?.issues]).toEqual([[], ["own"]]);
  });

  it("keeps pictures of what did not change", () => {
    const { state } = lab("web", "db");
    const before = state.view;
    const [web, db] = ["web", "db"].map((name) => before.modules.get(name));
    expect(state.view).toBe(before);
    state.recordModule("web", "runStepsCompleted", true);
    expect(state.view.modules.get("db")).toBe(db);
    state.record("awaitedRunsChanged", ["web"]);
    expect(state.view.modules.get("db")).toBe(db);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(web?.rounds).toBe(0);
  });

  it("a directory that goes takes its record along; one that stays keeps it", () => {
    const { state } = lab("web", "db");
    state.recordModule("web", "runStepsCompleted", true);
    state.recordTree(treeOf("web", "cache"));
    expect([...state.view.modules.keys()]).toEqual(["web", "cache"]);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(state.module("db")).toBeUndefined();
  });

  it("a hook's own write to the ConfigMap covers itself: run and reload do not become due", () => {
    const { state, seen } = lab("web");
    state.record("convergeStarted", { kind: "start-up" });
    handled(state, "web");
    state.inputs.recordOwnConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }));
    const { convergeDigests, converge, modules } = state.view;
    expect(converge.handled?.globalConfig).toBe(convergeDigests.globalConfig);
    expect(modules.get("web")).toMatchObject({
      attempted: { section: modules.get("web")?.sectionDigest, config: modules.get("web")?.configDigest },
      handled: { section: modules.get("web")?.sectionDigest, config: modules.get("web")?.configDigest },
    });
  });

  it("what was owed before a hook's own write is owed after it", () => {
    const { state, seen } = lab("web");
    state.record("convergeStarted", { kind: "start-up" });
    handled(state, "web");
    state.inputs.recordConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }), FRONT);
    state.inputs.recordOwnConfig(seen({ web: "{ x: 2 }", global: "{ z: 2 }" }));
    const { convergeDigests, converge, modules } = state.view;
    expect(converge.handled?.globalConfig).not.toBe(convergeDigests.globalConfig);
    const web = modules.get("web");
    expect(web?.handled.section).not.toBe(web?.sectionDigest);
    expect(web?.attempted?.section).not.toBe(web?.sectionDigest);
    expect(web?.handled.config).not.toBe(web?.configDigest);
  });

  it("a changed section of a module that is off is taken note of, where no converge follows", () => {
    const { state, seen } = lab("web");
    state.recordModule("web", "enablementDecided", { enabled: false, by: "none" });
    state.inputs.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    const view = (): unknown => {
      const web = state.view.modules.get("web");
      return web?.handled.config === web?.configDigest;
    };
    expect(view()).toBe(true);
    state.inputs.recordConfig(seen({ web: "{ x: 2 }", global: "{ z: 1 }" }), FRONT);
    expect(view()).toBe(false);
  });

  it("content that is invalid or missing leaves the last good one in force", () => {
    const { state, seen } = lab("web");
    state.inputs.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    for (const condition of ["invalid", "missing"] as const) {
      state.inputs.recordConfig({ condition, problems: [], resourceVersion: "2" }, FRONT);
      expect(state.view.config.condition).toBe(condition);
      expect(state.values.configSection("web")).toEqual({ x: 1 });
    }
  });

  it("a ConfigMap that returns asks for another look at what was delayed for want of it", () => {
    const { state, seen } = lab("web");
    const missing = { condition: "missing", problems: [], resourceVersion: undefined } as const;
    state.inputs.recordConfig(missing, FRONT);
    state.inputs.recordConfig(seen({}), FRONT);
    expect(state.view.secondCheck).toBe(false);
    state.inputs.recordConfig(missing, FRONT);
    state.record("removalBlocked", { action: "purge", text: "not purged: old" });
    state.inputs.recordConfig(missing, FRONT);
    expect(state.view.secondCheck).toBe(false);
    state.inputs.recordConfig(seen({}), FRONT);
    expect(state.view.secondCheck).toBe(true);
    state.record("convergeStarted", { kind: "second-check" });
    expect(state.view.secondCheck).toBe(false);
  });

  it("a converge answers the operator's token, a decision that of a module that is off", () => {
    const { state } = lab("web", "db");
    state.record("convergeRequested", "t1");
    state.recordModule("web", "runRequested", "t2");
    state.recordModule("db", "runRequested", "t3");
    state.record("convergeStarted", { kind: "requested" });
    state.recordModule("web", "enablementDecided", { enabled: false, by: "none" });
    state.recordModule("db", "enablementDecided", { enabled: true, by: "values" });
    expect(state.view.handledToken).toBe("t1");
    expect(state.view.modules.get("web")?.handled.token).toBe("t2");
    expect(state.view.modules.get("db")?.handled.token).toBeUndefined();
  });

  it("a request during a run is due after it, whatever values the run used last", () => {
    const { state } = lab("web");
    const tokens = () => {
      const { requestedToken, handled } = state.view.modules.get("web") ?? {};
      return [requestedToken, handled?.token];
    };
    state.recordModule("web", "runRequested", "t1");
    begin(state, "web");
    state.recordModule("web", "runRequested", "t2");
    state.recordModule("web", "runInputsRefreshed");
    state.recordModule("web", "runStepsCompleted", false);
    expect(tokens()).toEqual(["t2", "t1"]);
    begin(state, "web");
    state.recordModule("web", "runStepsCompleted", false);
    expect(tokens()).toEqual(["t2", "t2"]);
  });

  it("is a snapshot: a view does not change with what is recorded or patched later", () => {
    const { state } = lab("web", "db");
    const before = state.view;
    const web = before.modules.get("web");
    const seen = () => [web?.valuesDigest, web?.wholeDigest, web?.values(), before.enabledModules];
    const first = seen();
    for (const key of ["web", "global"])
      state.inputs.recordPatches(key, [{ op: "add", path: `/${key}/x`, value: 1 }], "h");
    state.recordModule("web", "enablementDecided", { enabled: true, by: "values" });
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
    state.inputs.recordPatches("web", [{ op: "add", path: "/web/x", value: 1 }], "h");
    expect(before?.values()).toEqual({ global: {}, web: {} });
  });

  it("starts with nothing seen", () => {
    const state = new State({ clock: new ManualClock() });
    const { boot, config, converge, removalBlockers, secondCheck, modules, tree } = state.view;
    expect([boot, config.condition, config.digest, secondCheck, removalBlockers]).toEqual([
      "loading",
      "ok",
      "",
      false,
      [],
    ]);
    expect([converge.phase, converge.handled, converge.remaining]).toEqual(["idle", undefined, []]);
    expect([modules.size, tree.modules.length, tree.purgeBlockers.length]).toEqual([0, 0, 0]);
    expect([state.view.enabledModules, state.globalHooks]).toEqual([[], []]);
  });

  it("shows a converge from its begin to its end", async () => {
    const { state, clock } = lab("web");
    const begin = clock.now();
    state.record("bootPhaseReached", "converging");
    state.record("convergeStarted", { kind: "start-up" });
    const handled = { globalConfig: state.values.digests.convergeDigests().globalConfig, globals: undefined };
    const during = {
      phase: "beforeAll",
      cause: { kind: "start-up" },
      startedAt: begin,
      finishedAt: undefined,
      handled,
    };
    expect(state.view.converge).toMatchObject(during);
    expect(handlesConfig(state)).toBe(true);
    state.record("configHandled", "globals");
    expect(state.view.converge.handled?.globals).toBe(state.view.convergeDigests.globals);
    state.record("convergePhaseReached", "modules");
    state.record("awaitedRunsChanged", ["web"]);
    await clock.advance(1000);
    state.record("convergeEnded", 2);
    expect(state.view).toMatchObject({
      boot: "running",
      converge: {
        phase: "idle",
        cause: { kind: "start-up" },
        startedAt: begin,
        finishedAt: begin + 1000,
        remaining: [],
        rounds: 2,
      },
    });
  });

  it("does not begin to run with a converge's end before start-up came that far", () => {
    const { state } = lab();
    state.record("bootPhaseReached", "synchronization");
    state.record("convergeEnded", 0);
    expect(state.view.boot).toBe("synchronization");
  });

  it("a converge under way can take content into account that came after its start", () => {
    const { state, seen } = lab("web");
    state.record("convergeStarted", { kind: "start-up" });
    state.record("configHandled", "globals");
    const globals = state.view.converge.handled?.globals;
    state.inputs.recordConfig(seen({ global: "{ z: 1 }" }), FRONT);
    expect(handlesConfig(state)).toBe(false);
    state.record("configHandled", "globals");
    expect(handlesConfig(state)).toBe(false);
    expect(state.view.converge.handled?.globals).not.toBe(globals);
    state.record("configHandled", "globalConfig");
    expect(handlesConfig(state)).toBe(true);
  });

  it("remembers why globals and sections moved, and only those that did", () => {
    const { state, seen } = lab("web", "db");
    state.inputs.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    const causes = () => [
      state.view.globalCause,
      ...["web", "db"].map((name) => state.module(name)?.run.cause),
    ];
    expect(causes()).toEqual([undefined, FRONT, undefined]);
    state.inputs.recordConfig(seen({ web: "{ x: 1 }", dbEnabled: "true" }), FRONT);
    expect(causes()).toEqual([FRONT, FRONT, undefined]);
  });

  it("a section of a module that is on, or was not decided about, is still to be worked on", () => {
    const { state, seen } = lab("web", "db");
    state.recordModule("web", "enablementDecided", { enabled: true, by: "values" });
    state.inputs.recordConfig(seen({ web: "{ x: 1 }", db: "{ x: 1 }" }), FRONT);
    for (const name of ["web", "db"]) expect(state.module(name)?.run.handled.section).toBeUndefined();
  });

  it("a module that requires action has nothing to work on until its section moves", () => {
    const { state } = lab("web");
    state.recordModule("web", "runRequested", "t1");
    begin(state, "web");
    state.recordModule("web", "problemFound", { file: "f", message: "foreign" });
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
    state.recordModule("web", "releaseObserved", release);
    state.record("permissionsChecked", ["list pods"]);
    state.record("removalBlocked", { action: "delete", text: "a" });
    state.record("removalBlocked", { action: "purge", text: "b" });
    state.record("confirmationObserved", "yes");
    expect(state.view).toMatchObject({
      missingRights: ["list pods"],
      removalBlockers: [
        { action: "delete", text: "a" },
        { action: "purge", text: "b" },
      ],
      confirmation: "yes",
    });
    expect(state.view.modules.get("web")).toMatchObject({ release });
    state.record("removalsDecided", {
      removalBlockers: [],
      deletionLimit: undefined,
      deletions: state.view.deletions,
      orphans: new Map(),
      pendingRemovals: [],
    });
    expect(state.view.removalBlockers).toEqual([]);
    await changes();
    state.record("confirmationObserved", "yes");
    expect(await changes()).toBe(0);
  });

  it("shows modules that are on in the order of the tree", () => {
    const { state } = lab("a", "b", "c");
    for (const name of ["c", "a"])
      state.recordModule(name, "enablementDecided", { enabled: true, by: "values" });
    expect(state.view.enabledModules).toEqual(["a", "c"]);
  });

  it("shows the merged values of a module with globals, and what of them is secret", () => {
    const { state, seen } = lab("web");
    state.inputs.recordConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }", webProtected: "true" }), FRONT);
    const web = state.view.modules.get("web");
    expect(web?.values()).toEqual({ global: { z: 1 }, web: { x: 1 } });
    expect([web?.protected, web?.suspended, web?.secretPaths?.size]).toEqual([true, false, 0]);
    expect(web?.valuesDigest).toBe(state.values.mergedSection("web").digest);
  });

  it("names keys that match no module", () => {
    const { state, seen } = lab("web");
    state.inputs.recordConfig(seen({ wen: "{ x: 1 }" }), FRONT);
    expect(state.view.config.unknownKeys).toEqual(["wen (did you mean web?)"]);
    const { digest } = state.view.config;
    state.inputs.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    expect(state.view.config.digest).not.toBe(digest);
  });
});

describe("listeners of a run", () => {
  const steps = ["helm", "afterHelm"] as const;
  const labOfOne = () => {
    const state = new State({ clock: new ManualClock() });
    state.recordTree(treeOf("one"));
    begin(state, "one");
    const seen: string[] = [];
    state.onChange((view) => void seen.push(String(view.modules.get("one")?.lastRun?.step)));
    return { state, seen };
  };
  const turnOfTheLoop = () => new Promise<void>((resolve) => setImmediate(resolve));

  it("are called once for the steps that one turn of the event loop reaches", async () => {
    const { state, seen } = labOfOne();
    await turnOfTheLoop();
    seen.length = 0;
    for (const step of steps) {
      state.recordModule("one", "runStepReached", { step });
      await Promise.resolve();
    }
    expect(seen).toEqual([]);
    await turnOfTheLoop();
    expect(seen).toEqual(["afterHelm"]);
  });

  it("are called at once for what may make something due, and not again for the steps before it", async () => {
    const { state, seen } = labOfOne();
    await turnOfTheLoop();
    seen.length = 0;
    state.recordModule("one", "runStepReached", { step: "helm" });
    state.recordModule("one", "runRequested", "token");
    await Promise.resolve();
    expect(seen).toEqual(["helm"]);
    await turnOfTheLoop();
    expect(seen).toEqual(["helm"]);
  });
});

describe("an event that was announced", () => {
  it("is the origin of the changes after it, also of those that listeners record, and of no later ones", async () => {
    const { state } = lab("one");
    const origins: (string | undefined)[] = [];
    await settle();
    state.onChange((_, origin) => {
      origins.push(origin?.name);
      if (origins.length === 1) state.recordModule("one", "runRequested");
    });
    state.beginEvent("edit", { configMap: "ops" });
    state.record("convergeRequested");
    await settle();
    state.record("convergeRequested");
    await settle();
    expect(origins).toEqual(["edit", "edit", undefined]);
  });

  it("ends with this turn of the event loop if nothing changes", async () => {
    const { state } = lab("one");
    const origins: (string | undefined)[] = [];
    await settle();
    state.onChange((_, origin) => void origins.push(origin?.name));
    state.beginEvent("edit", {});
    await new Promise((resolve) => setImmediate(resolve));
    state.record("convergeRequested");
    await settle();
    expect(origins).toEqual([undefined]);
  });
});
