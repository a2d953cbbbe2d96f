import { describe, expect, it } from "vitest";

import { State } from "../../src/state/index.ts";
import type { Module, Tree } from "../../src/model/index.ts";
import { parseConfigMap } from "../../src/values/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const FRONT = { text: "ConfigMap changed", place: "front" } as const;

function moduleOf(name: string): Module {
  const none = { file: "values.yaml", section: undefined, enabled: undefined };
  return {
    name,
    valuesKey: name,
    common: none,
    own: none,
    schemas: {},
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
  const state = new State({ clock, onChange: () => void (told += 1) });
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

/** Everything of the ConfigMap in force counts as worked on. */
function handled(state: State, name: string): void {
  const view = state.view.modules.get(name);
  state.update(name, (record) => {
    record.attemptedSectionDigest = view?.sectionDigest;
    record.handledSectionDigest = view?.sectionDigest;
    record.handledConfigDigest = view?.configDigest;
  });
}

describe("the record", () => {
  it("tells of changes once per turn", async () => {
    const { state, changes } = lab("web");
    await changes();
    state.addHold("a");
    state.recordBoot("running");
    state.update("web", (record) => void (record.absent = ["x"]));
    expect(await changes()).toBe(1);
    expect(await changes()).toBe(0);
    state.update("nobody", () => {});
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
    state.update("web", (record) => void (record.rounds = 1));
    expect(state.view.modules.get("db")).toBe(db);
    state.recordConverge({ remaining: 1 });
    expect(state.view.modules.get("db")).toBe(db);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(web?.rounds).toBe(0);
  });

  it("a directory that goes takes its record along; one that stays keeps it", () => {
    const { state } = lab("web", "db");
    state.update("web", (record) => void (record.rounds = 1));
    state.recordTree(treeOf("web", "cache"));
    expect([...state.view.modules.keys()]).toEqual(["web", "cache"]);
    expect(state.view.modules.get("web")?.rounds).toBe(1);
    expect(state.module("db")).toBeUndefined();
  });

  it("a hook's own write to the ConfigMap covers itself: run and reload do not become due", () => {
    const { state, seen } = lab("web");
    state.startConverge("start-up");
    handled(state, "web");
    state.recordOwnConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }));
    const { coverage, converge, modules } = state.view;
    expect(converge.covered?.config).toBe(coverage.config);
    expect(modules.get("web")).toMatchObject({
      handledSectionDigest: modules.get("web")?.sectionDigest,
      attemptedSectionDigest: modules.get("web")?.sectionDigest,
      handledConfigDigest: modules.get("web")?.configDigest,
    });
  });

  it("what was owed before a hook's own write is owed after it", () => {
    const { state, seen } = lab("web");
    state.startConverge("start-up");
    handled(state, "web");
    state.recordConfig(seen({ web: "{ x: 1 }", global: "{ z: 1 }" }), FRONT);
    state.recordOwnConfig(seen({ web: "{ x: 2 }", global: "{ z: 2 }" }));
    const { coverage, converge, modules } = state.view;
    expect(converge.covered?.config).not.toBe(coverage.config);
    const web = modules.get("web");
    expect(web?.handledSectionDigest).not.toBe(web?.sectionDigest);
    expect(web?.attemptedSectionDigest).not.toBe(web?.sectionDigest);
    expect(web?.handledConfigDigest).not.toBe(web?.configDigest);
  });

  it("a changed section of a module that is off is taken note of, where no reload follows", () => {
    const { state, seen } = lab("web");
    state.recordDecision("web", { enabled: false, by: "none" });
    state.recordConfig(seen({ web: "{ x: 1 }" }), FRONT);
    const view = (): unknown => {
      const web = state.view.modules.get("web");
      return web?.handledConfigDigest === web?.configDigest;
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
    state.addHold("not purged: old");
    state.recordConfig(missing, FRONT);
    expect(state.view.secondLook).toBe(false);
    state.recordConfig(seen({}), FRONT);
    expect(state.view.secondLook).toBe(true);
    state.startConverge("second look");
    expect(state.view.secondLook).toBe(false);
  });

  it("a reload answers the operator's token, a decision that of a module that is off", () => {
    const { state } = lab("web", "db");
    state.recordRequest(undefined, "t1");
    state.recordRequest("web", "t2");
    state.recordRequest("db", "t3");
    state.startConverge("requested");
    state.recordDecision("web", { enabled: false, by: "none" });
    state.recordDecision("db", { enabled: true, by: "values" });
    expect(state.view.handledToken).toBe("t1");
    expect(state.view.modules.get("web")?.handledToken).toBe("t2");
    expect(state.view.modules.get("db")?.handledToken).toBeUndefined();
  });

  it("a release counts as missed from the first look that missed it in a row", async () => {
    const { state, clock } = lab();
    const now = (): number => clock.now();
    expect(state.missing.before(["old"], now() - 3000)).toEqual([]);
    await clock.advance(3000);
    expect(state.missing.before([], now() - 3000)).toEqual([]);
    expect(state.missing.before(["old"], now() - 3000)).toEqual([]);
    await clock.advance(2999);
    expect(state.missing.before(["old"], now() - 3000)).toEqual([]);
    await clock.advance(1);
    expect(state.missing.before(["old", "new"], now() - 3000)).toEqual(["old"]);
  });
});
