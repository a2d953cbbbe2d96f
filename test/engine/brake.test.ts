import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const NAMES = ["a", "b", "c", "d", "e"];

function world(on: readonly string[] = NAMES, brake = "3,50%"): EngineLab {
  const config = Object.fromEntries(on.map((name) => [`${name}Enabled`, "true"]));
  return new EngineLab({ brake, config, modules: NAMES.map((name) => ({ name })) });
}

const off = (...names: readonly string[]): Record<string, undefined> =>
  Object.fromEntries(names.map((name) => [`${name}Enabled`, undefined]));

const heldOf = (lab: EngineLab): readonly string[] =>
  [...lab.state.view.modules.values()].filter(({ problem }) => problem !== undefined).map(({ name }) => name);

async function emptied(): Promise<EngineLab> {
  const lab = world();
  await lab.start();
  lab.edit(off(...NAMES));
  await lab.run();
  return lab;
}

describe("one change that would remove too many modules", () => {
  it("removes none, and says which and how to go on", async () => {
    const lab = await emptied();
    expect(lab.linesOf("uninstall")).toEqual([]);
    const text =
      "not deleted: a, b, c, d, e: 5 of 5 modules at once are more than --delete-brake allows;" +
      " switch them on again, or annotate the AddonOperator with addon-operator.io/confirm-delete=2";
    expect(lab.state.view.holds).toEqual([{ of: "delete", text }]);
    expect(heldOf(lab)).toEqual(NAMES);
    expect(lab.state.view.modules.get("a")?.problem?.message).toContain("its removal is held");
    expect(lab.quiet).toBe(true);
  });

  it("removes none in later reloads either, nor after a restart", async () => {
    const lab = await emptied();
    lab.edit({ global: "{x: 1}" });
    lab.state.recordRequest(undefined, "token");
    await lab.run();
    expect(lab.reloads).toBeGreaterThan(2);
    expect(lab.linesOf("uninstall")).toEqual([]);
    const next = world([]);
    for (const name of NAMES) next.addRelease(name);
    await next.start();
    expect(next.linesOf("uninstall")).toEqual([]);
    expect(heldOf(next)).toEqual(NAMES);
  });

  it("lets runs of other modules go on", async () => {
    const lab = world();
    await lab.start();
    lab.edit({ ...off("a", "b", "c", "d"), e: "{x: 1}" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.log.at(-2)).toBe("release e v2");
  });

  it("is taken back by putting the keys back", async () => {
    const lab = await emptied();
    lab.edit(Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])));
    await lab.run();
    expect(heldOf(lab)).toEqual([]);
    expect(lab.state.view.holds).toEqual([]);
    expect(lab.state.view.brake).toBeUndefined();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("goes through once a person names the version of the ConfigMap", async () => {
    const lab = await emptied();
    lab.state.record({ confirmation: "1" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    lab.state.record({ confirmation: String(lab.version) });
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
    expect(lab.releases.size).toBe(0);
    expect(lab.state.view.holds).toEqual([]);
    expect(heldOf(lab)).toEqual([]);
  });

  it("is asked about anew when more is to go", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c", "d"));
    await lab.run();
    const asked = lab.version;
    lab.edit(off("e"));
    await lab.run();
    lab.state.record({ confirmation: String(asked) });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("is asked about anew when as many others are to go", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c", "d"));
    await lab.run();
    const asked = lab.version;
    lab.edit({ ...off("e"), aEnabled: "true" });
    await lab.run();
    lab.state.record({ confirmation: String(asked) });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("stays answered when a hook writes the ConfigMap meanwhile", async () => {
    const write = { name: "h", schedules: [{}], act: () => ({ config: { "/global/x": 1 } }) };
    const lab = new EngineLab({
      brake: "3,50%",
      config: Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])),
      modules: NAMES.map((name) => ({ name })),
      globalHooks: [{ ...write, act: () => ({ config: [{ op: "add", path: "/global/x", value: 1 }] }) }],
    });
    await lab.start();
    lab.edit(off(...NAMES));
    await lab.run();
    const asked = String(lab.version);
    lab.tick("h");
    await lab.run();
    expect(lab.version).toBeGreaterThan(Number(asked));
    lab.state.record({ confirmation: asked });
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
  });

  it("counts releases whose directory is gone", async () => {
    const lab = world();
    await lab.start();
    lab.setModules([{ name: "e" }]);
    lab.state.record({ secondLook: true });
    await lab.run();
    await lab.run(10_000);
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.holds[0]?.text).toMatch(/^not deleted: a, b, c, d: 4 of 5 modules/);
    lab.state.record({ confirmation: String(lab.version) });
    await lab.run(10_000);
    expect(lab.linesOf("uninstall")).toHaveLength(4);
  });

  it("holds scripts that all say no", async () => {
    let answer = true;
    const modules = NAMES.map((name) => ({ name, enabled: true, script: () => answer }));
    const lab = new EngineLab({ brake: "3,50%", modules });
    await lab.start();
    expect(lab.releases.size).toBe(5);
    answer = false;
    lab.state.recordRequest(undefined, "token");
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(heldOf(lab)).toEqual(NAMES);
  });

  it("rests the hooks of modules whose removal it holds, and leaves their releases", async () => {
    const hook = { name: "h", lifecycle: { beforeHelm: 1 }, kubernetes: [{}], schedules: [{}] };
    const lab = new EngineLab({
      brake: "3,50%",
      config: Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])),
      modules: NAMES.map((name) => ({ name, hooks: [hook] })),
    });
    await lab.start();
    lab.edit(off(...NAMES));
    await lab.run();
    const before = [...lab.releases.values()];
    lab.log.length = 0;
    for (const name of NAMES) {
      lab.event(`${name}/h`);
      lab.tick(`${name}/h`);
    }
    lab.edit({ a: "{x: 1}" });
    await lab.run();
    expect(lab.log).toEqual([]);
    expect([...lab.releases.values()]).toEqual(before);
    expect(lab.state.view.enabledModules).toEqual([]);
  });

  it("does not stop what was begun", async () => {
    const lab = world([]);
    for (const name of NAMES) lab.addRelease(name);
    const begun = lab.releases.get("a");
    if (begun !== undefined) lab.releases.set("a", { ...begun, status: "uninstalled" });
    await lab.start();
    expect([...lab.releases.keys()]).toEqual(["b", "c", "d", "e"]);
    expect(lab.linesOf("uninstall")).toEqual([]);
  });
});

describe("changes within the limit", () => {
  it("are those that exceed it only with what was begun before", async () => {
    const lab = world(["e"]);
    for (const name of NAMES) lab.addRelease(name);
    const begun = lab.releases.get("a");
    if (begun !== undefined) lab.releases.set("a", { ...begun, status: "uninstalled" });
    await lab.start();
    expect([...lab.releases.keys()]).toEqual(["e"]);
  });

  it("follow each other", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c"));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(3);
    lab.edit(off("d", "e"));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
  });

  it("are all of them with the brake off", async () => {
    const lab = world(NAMES, "off");
    await lab.start();
    lab.edit(off(...NAMES));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
  });

  it("include modules that were never installed", async () => {
    const lab = world([]);
    await lab.start();
    expect(heldOf(lab)).toEqual([]);
  });
});
