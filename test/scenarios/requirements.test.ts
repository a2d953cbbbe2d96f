import { describe, expect, it } from "vitest";

import { requiredKey } from "../../src/base/model/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";
import { blockerOf, whyOf } from "../report/views.ts";

// docs/reference/modules.md, "What a module requires".

const spec = (name: string, order: number, more: Partial<ModuleSpec> = {}): ModuleSpec => ({
  name,
  order,
  enabled: true,
  ...more,
});
const requires = (...names: readonly string[]): Partial<ModuleSpec> => ({
  requires: { modules: Object.fromEntries(names.map((name) => [name, "*"])) },
});

async function started(...modules: readonly ModuleSpec[]): Promise<EngineLab> {
  const lab = new EngineLab({ modules });
  await lab.start();
  return lab;
}

const runsOf = (lab: EngineLab): string[] =>
  lab.linesOf("release ").map((line) => line.replace("release ", "").replace(" v1", ""));

function hold(lab: EngineLab, name: string): string | undefined {
  return blockerOf({ view: lab.state.view, queues: lab.queues.views() }, name);
}

const why = (lab: EngineLab, name: string): string[] => {
  return whyOf({ view: lab.state.view, queues: lab.queues.views() }, name, lab.clock.now());
};

describe("a module that requires another one", () => {
  it("is passed over while that one is not Ready, and runs at once when it is", async () => {
    const lab = await started(spec("a", 1, requires("b")), spec("b", 2), spec("c", 3));
    expect(runsOf(lab)).toEqual(["b", "a", "c"]);
    expect(lab.quiet).toBe(true);
    expect(lab.state.view.boot).toBe("running");
    expect(lab.broken).toEqual([]);
  });

  it("of another version says so once, and nothing of that one, which is Ready", async () => {
    const newer = { requires: { modules: { b: ">=2" } } };
    const lab = await started(spec("a", 1, newer), spec("b", 2, { version: "1" }));
    const since = new Date(lab.clock.now()).toISOString().slice(0, 19);
    expect(why(lab, "a").slice(1)).toEqual([`waits for b, which is 1, not >=2 (since ${since}Z)`]);
  });

  it("names all that it waits for, not the first alone", async () => {
    const off = { enabled: false };
    const lab = await started(spec("a", 1, requires("b", "c", "d")), spec("b", 2, off), spec("c", 3, off));
    expect(hold(lab, "a")).toContain("waits for b, which is disabled and 2 more (since ");
    expect(why(lab, "a")).toEqual(
      expect.arrayContaining(["and for c, which is disabled", "and for d, which does not exist"]),
    );
  });

  it("waits while that one fails, lets the others go on, and says for whom and since when", async () => {
    const lab = new EngineLab({ modules: [spec("a", 1, requires("b")), spec("b", 2), spec("c", 3)] });
    lab.helmFails = (name) => (name === "b" ? "no quota" : undefined);
    await lab.start();
    await lab.run(5000);
    const since = new Date(lab.clock.now() - 5000).toISOString().slice(0, 19);
    expect(hold(lab, "a")).toBe(`waits for b, which is not Ready (since ${since}Z)`);
    expect(runsOf(lab)).toEqual([]);
    lab.helmFails = undefined;
    await lab.run(6000);
    expect(runsOf(lab)).toEqual(["b", "a", "c"]);
  });

  it.each<[string, ModuleSpec[], string]>([
    ["that is off", [spec("b", 2, { enabled: false })], "b, which is disabled"],
    ["that there is none of", [], "b, which does not exist"],
    ["of another version", [spec("b", 2, { version: "2.0.0" })], "b, which is 2.0.0, not <2"],
    [
      "that cannot be read",
      [spec("b", 2, { problem: "no YAML" })],
      "b, which is disabled and requires action",
    ],
    [
      "that requires action",
      [spec("b", 2, { requires: { modules: { b: "*" } } })],
      "b, which requires action",
    ],
  ])("%s waits, and nothing else does", async (_, others, message) => {
    const lab = await started(spec("a", 1, { requires: { modules: { b: "<2" } } }), ...others, spec("c", 3));
    expect(hold(lab, "a")).toContain(`waits for ${message} (since `);
    expect(runsOf(lab)).toContain("c");
    expect(runsOf(lab)).not.toContain("a");
    expect(lab.state.view.boot).toBe("running");
    expect(lab.quiet).toBe(true);
  });

  it("runs when that one is switched on later", async () => {
    const lab = await started(spec("a", 1, requires("b")), spec("b", 2, { enabled: false }));
    lab.edit({ bEnabled: "true" });
    await lab.run();
    expect(runsOf(lab)).toEqual(["b", "a"]);
    expect(hold(lab, "a")).toBeUndefined();
  });

  it("runs when that one has the version, after a change of its files", async () => {
    const a = spec("a", 1, { requires: { modules: { b: ">=2" } } });
    const lab = await started(a, spec("b", 2, { version: "1.9.0" }));
    expect(runsOf(lab)).toEqual(["b"]);
    lab.setModules([a, spec("b", 2, { version: "2.0.0", section: { x: 1 } })]);
    lab.state.record("convergeRequested", "t");
    await lab.run();
    // Not before the new version is in place.
    expect(lab.linesOf("release")).toEqual(["release b v1", "release b v2", "release a v1"]);
  });

  it("goes on when that one breaks later; its next run waits, and the end of that is no run by itself", async () => {
    const lab = await started(spec("a", 2, requires("b")), spec("b", 1));
    lab.helmFails = (name) => (name === "b" ? "no quota" : undefined);
    lab.edit({ b: "x: 1" });
    await lab.run();
    expect(why(lab, "a").join()).toContain("it requires b, which is not Ready");
    expect(lab.linesOf("uninstall")).toEqual([]);
    lab.edit({ a: "x: 1" });
    await lab.run();
    expect(hold(lab, "a")).toContain("waits for b, which is not Ready");
    lab.helmFails = undefined;
    await lab.run(6000);
    expect(lab.linesOf("release").slice(2)).toEqual(["release b v2", "release a v2"]);
    const runs = lab.linesOf("helm a").length;
    // A dependency that flaps each second.
    for (let turn = 0; turn < 20; turn++) {
      const objects = ["ns/Secret/x"];
      if (turn % 2 === 0) lab.state.recordModule("b", "objectsFoundMissing", objects);
      else lab.state.recordModule("b", "objectsRestored", { objects, stillMissing: [] });
      await lab.run(1000);
    }
    expect(lab.linesOf("helm a")).toHaveLength(runs);
  });

  it("takes part in a converge that its dependency's failure delayed", async () => {
    const lab = await started(spec("a", 2, requires("b")), spec("b", 1));
    lab.helmFails = (name) => (name === "b" ? "no quota" : undefined);
    lab.edit({ global: "x: 1" });
    await lab.run();
    lab.helmFails = undefined;
    await lab.run(5000);
    expect(lab.linesOf("release").slice(2)).toEqual(["release b v2", "release a v2"]);
    expect(lab.quiet).toBe(true);
  });

  it("waits for one that was suspended before it was installed, and not for one that was so later", async () => {
    const suspended = { bMaintenance: "NoResourceReconciliation" };
    const lab = new EngineLab({ modules: [spec("a", 2, requires("b")), spec("b", 1)], config: suspended });
    await lab.start();
    expect(runsOf(lab)).toEqual([]);
    expect(hold(lab, "a")).toContain("waits for b, which is suspended and not installed");
    lab.edit({ bMaintenance: undefined });
    await lab.run();
    expect(runsOf(lab)).toEqual(["b", "a"]);
    lab.edit({ ...suspended, a: "x: 1" });
    lab.state.recordModule("b", "objectsFoundMissing", ["ns/Secret/x"]);
    await lab.run();
    expect(lab.linesOf("release a v2")).toHaveLength(1);
  });

  it("keeps running when that one is switched off though it is protected, and goes on when that is undone", async () => {
    const lab = await started(spec("a", 2, requires("b")), spec("b", 1));
    lab.edit({ bProtected: "true", bEnabled: "false" });
    await lab.run();
    expect(why(lab, "a").join()).toContain("waits for b, which is disabled and requires action");
    expect(lab.linesOf("uninstall")).toEqual([]);
    lab.edit({ bEnabled: undefined });
    await lab.run();
    expect(hold(lab, "a")).toBeUndefined();
    expect(lab.linesOf("release")).toEqual(["release b v1", "release a v1"]);
    expect(lab.quiet).toBe(true);
  });

  it("is Invalid where they require each other, with the way through them, and the others run", async () => {
    const lab = await started(
      spec("a", 1, requires("b")),
      spec("b", 2, requires("c")),
      spec("c", 3, requires("a")),
      spec("d", 4, requires("d")),
      spec("e", 5, requires("a")),
      spec("f", 6),
    );
    const problems = [...lab.state.view.modules.values()].map(({ problem }) => problem?.message);
    expect(problems).toEqual([
      "requires itself: a → b → c → a",
      "requires itself: b → c → a → b",
      "requires itself: c → a → b → c",
      "requires itself: d → d",
      undefined,
      undefined,
    ]);
    expect(runsOf(lab)).toEqual(["f"]);
    expect(lab.quiet).toBe(true);
  });

  it("does not hold a first run back for ever when its own failing run meets a lost dependency", async () => {
    const lab = new EngineLab({ modules: [spec("b", 1), spec("a", 2, requires("b")), spec("c", 3)] });
    lab.helmFails = (name) => (name === "a" ? "no quota" : undefined);
    await lab.start();
    lab.edit({ bEnabled: "false" });
    await lab.run(30_000);
    expect(runsOf(lab)).toContain("c");
    expect(hold(lab, "a")).toContain("waits for b, which is disabled");
    expect(lab.state.view.modules.get("a")?.retry).toBeUndefined();
  });

  it("waits again after it was off, and for its run of that time no more", async () => {
    const lab = await started(spec("a", 1, requires("b")), spec("b", 2, { enabled: false }));
    lab.edit({ aEnabled: "false" });
    await lab.run();
    expect(lab.state.view.modules.get("a")?.blockedSince).toBeUndefined();
  });
});

describe("a module that requires an object", () => {
  it("runs when that is as it should be, and again only for its own sake", async () => {
    const object = { apiVersion: "v1", kind: "Secret", name: "ca" };
    const lab = await started(spec("a", 1, { requires: { objects: [object] } }), spec("b", 2));
    const found = (message?: string): void =>
      lab.state.record("requiredObjectChecked", requiredKey(object), message);
    expect(runsOf(lab)).toEqual(["b"]);
    found("is not there");
    await lab.run();
    expect(hold(lab, "a")).toContain("waits for Secret/ca, which is not there (since ");
    found();
    await lab.run();
    expect(runsOf(lab)).toEqual(["b", "a"]);
    for (let turn = 0; turn < 20; turn++) {
      found(turn % 2 === 0 ? "is not there" : undefined);
      await lab.run(1000);
    }
    expect(lab.linesOf("helm a")).toHaveLength(1);
    expect(lab.quiet).toBe(true);
  });
});

describe("a module that requires a version of Kubernetes", () => {
  const modules = [spec("a", 1, { requires: { kubernetes: ">=1.30" } }), spec("b", 2)];

  it("runs at the first reload that finds it, and reports both versions until then", async () => {
    const lab = new EngineLab({ modules });
    lab.serverVersion = "v1.29.8-gke.100";
    await lab.start();
    expect(runsOf(lab)).toEqual(["b"]);
    expect(hold(lab, "a")).toContain("waits for Kubernetes, which is 1.29.8, not >=1.30 (since ");
    lab.serverVersion = "v1.30.1-gke.7";
    lab.state.record("convergeRequested", "t");
    await lab.run();
    expect(runsOf(lab)).toEqual(["b", "a"]);
  });

  it("asks again while the server is away, and goes by what it said last later on", async () => {
    const lab = new EngineLab({ modules });
    lab.serverVersion = undefined;
    await lab.start();
    expect(runsOf(lab)).toEqual([]);
    lab.serverVersion = "v1.31.2";
    await lab.run(5000);
    expect(runsOf(lab)).toEqual(["a", "b"]);
    lab.serverVersion = undefined;
    lab.edit({ global: "x: 1" });
    await lab.run();
    expect(runsOf(lab)).toHaveLength(4);
  });
});

describe("a module that comes after another one", () => {
  const after = (...names: readonly string[]): Partial<ModuleSpec> => ({ after: names });

  it("runs after its first run, whatever becomes of that", async () => {
    const lab = new EngineLab({ modules: [spec("a", 1, after("b", "off", "none")), spec("b", 2)] });
    lab.setModules([
      spec("a", 1, after("b", "off", "none")),
      spec("b", 2),
      spec("off", 3, { enabled: false }),
    ]);
    lab.helmFails = (name) => (name === "b" ? "no quota" : undefined);
    await lab.start();
    expect(runsOf(lab)).toEqual(["a"]);
    lab.helmFails = undefined;
    await lab.run(5000);
    expect(runsOf(lab)).toEqual(["a", "b"]);
  });

  it("never waits for ever: not in a circle, nor for one that waits itself", async () => {
    const lab = await started(spec("a", 1, after("b")), spec("b", 2, after("a")));
    expect(runsOf(lab)).toEqual(["b", "a"]);
    const other = await started(spec("a", 1, after("b")), spec("b", 2, requires("none")));
    expect(runsOf(other)).toEqual(["a"]);
    const mixed = await started(spec("a", 1, after("b")), spec("b", 2, requires("a")));
    expect(runsOf(mixed)).toEqual(["a", "b"]);
  });
});

describe("a module that others require", () => {
  const two = [spec("a", 1), spec("b", 2, requires("a"))];

  it("is removed after all that require it, whatever their numbers", async () => {
    const lab = await started(
      spec("a", 3),
      spec("b", 1, requires("a")),
      spec("c", 2, requires("a", "b")),
      spec("d", 4, requires("c")),
    );
    lab.edit(Object.fromEntries(["a", "b", "c", "d"].map((name) => [`${name}Enabled`, "false"])));
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual(["uninstall d", "uninstall c", "uninstall b", "uninstall a"]);
  });

  it("stays while one of them is on, says for whom, and goes with the last", async () => {
    const lab = await started(...two, spec("c", 3, requires("a")), spec("other", 4));
    lab.edit({ aEnabled: "false", otherEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual(["uninstall other"]);
    expect(hold(lab, "a")).toBe("disabled, but stays while b, c require it");
    expect(lab.state.view.removalBlockers.map(({ text }) => text)).toEqual([
      "not deleted: a: b, c require it",
    ]);
    expect(why(lab, "b").join()).toContain("waits for a, which is disabled");
    expect(lab.quiet).toBe(true);
    lab.edit({ bEnabled: "false" });
    await lab.run();
    expect(hold(lab, "a")).toBe("disabled, but stays while c requires it");
    lab.edit({ cEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([
      "uninstall other",
      "uninstall b",
      "uninstall c",
      "uninstall a",
    ]);
    expect(lab.state.view.removalBlockers).toEqual([]);
  });

  it("waits for the removal of one of them that fails", async () => {
    const lab = await started(...two);
    let fails = true;
    lab.uninstallFails = () => fails;
    lab.edit({ aEnabled: "false", bEnabled: "false" });
    await lab.run(20_000);
    expect(lab.linesOf("uninstall a")).toEqual([]);
    fails = false;
    await lab.run(30_000);
    expect(lab.releases.size).toBe(0);
  });

  it.each(["main", "own"] as const)(
    "stays when one of them is on again right before its own removal, in %s",
    async (moduleQueues) => {
      let answer = true;
      const modules = [spec("a", 1), spec("b", 2, requires("a")), spec("c", 3, requires("b"))];
      const lab = new EngineLab({
        moduleQueues,
        modules: modules.map((each) => (each.name === "c" ? { ...each, script: () => answer } : each)),
      });
      await lab.start();
      answer = false;
      lab.onRefresh = () => (answer = true);
      lab.edit({ aEnabled: "false", bEnabled: "false" });
      await lab.run(30_000);
      expect(lab.linesOf("uninstall")).toEqual([]);
      expect([...lab.releases.keys()].toSorted()).toEqual(["a", "b", "c"]);
      expect(lab.state.view.enabledModules).toEqual(["c"]);
      expect(lab.state.view.removalBlockers.map(({ text }) => text)).toEqual([
        "not deleted: b: c requires it",
        "not deleted: a: b requires it",
      ]);
      expect([lab.describe(), lab.broken]).toEqual([[], []]);
    },
  );

  it("stays with one of them that is off and protected, or suspended, and goes with it", async () => {
    for (const [key, value] of [
      ["bProtected", "true"],
      ["bMaintenance", "NoResourceReconciliation"],
    ] as const) {
      const lab = await started(...two);
      lab.edit({ aEnabled: "false", bEnabled: "false", [key]: value });
      await lab.run();
      expect([...lab.releases.keys()]).toEqual(["a", "b"]);
      expect(hold(lab, "a")).toBe("disabled, but stays while b requires it");
      lab.edit({ [key]: undefined });
      await lab.run();
      expect(lab.linesOf("uninstall")).toEqual(["uninstall b", "uninstall a"]);
    }
  });

  it("is not counted by the brake while it stays; once it may go, it is", async () => {
    const lab = new EngineLab({ deletionLimit: "1", modules: two });
    await lab.start();
    lab.edit({ aEnabled: "false" });
    await lab.run();
    expect(lab.state.view.deletionLimit).toBeUndefined();
    lab.edit({ bEnabled: "false" });
    await lab.run();
    expect(lab.state.view.deletionLimit?.modules).toEqual(["a", "b"]);
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("whose directory is gone, or has another name now, is not purged while one of them is on", async () => {
    const b = spec("b", 2, requires("a"));
    const lab = await started(...two);
    lab.setModules([spec("new-a", 1), b]);
    for (let turn = 0; turn < 3; turn++) {
      lab.state.record("convergeRequested", `t${turn}`);
      await lab.run(5000);
    }
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.removalBlockers.map(({ text }) => text)).toEqual(["not purged: a: b requires it"]);
    expect(hold(lab, "b")).toContain("waits for a, which does not exist");
    lab.edit({ bEnabled: "false" });
    await lab.run(5000);
    await lab.run(5000);
    expect(lab.linesOf("uninstall")).toEqual(["uninstall b", "uninstall a"]);
  });

  it("goes where they require each other and all are off", async () => {
    const lab = new EngineLab({
      modules: [
        spec("a", 1, { ...requires("b"), enabled: false }),
        spec("b", 2, { ...requires("a"), enabled: false }),
      ],
    });
    lab.addRelease("a");
    lab.addRelease("b");
    await lab.start();
    expect(lab.linesOf("uninstall")).toHaveLength(2);
  });

  it("stays after a restart, too", async () => {
    const lab = new EngineLab({ modules: [spec("a", 1, { enabled: false }), spec("b", 2, requires("a"))] });
    lab.addRelease("a");
    lab.addRelease("b");
    await lab.start();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });
});

describe("module why", () => {
  it("reports the chain of waits to its root", async () => {
    const lab = new EngineLab({
      modules: [spec("a", 1, requires("b")), spec("b", 2, requires("c")), spec("c", 3)],
    });
    lab.helmFails = (name) => (name === "c" ? "no quota" : undefined);
    await lab.start();
    const [, own, b, c] = why(lab, "a");
    expect(own).toMatch(/^waits for b, which is not Ready \(since /);
    expect(b).toMatch(/^b: waits for c, which is not Ready \(since /);
    expect(c).toMatch(/^c: failed 1 time since \S+ \(HelmFailed\): no quota; next try \S+$/);
  });

  it("ends at a module that is off", async () => {
    const lab = await started(spec("a", 1, requires("b")), spec("b", 2, { enabled: false }));
    expect(why(lab, "a").at(-1)).toMatch(/^b: Disabled by /);
  });
});
