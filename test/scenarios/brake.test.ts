import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const NAMES = ["a", "b", "c", "d", "e"];

function world(on: readonly string[] = NAMES, deletionLimit = "3,50%"): EngineLab {
  const config = Object.fromEntries(on.map((name) => [`${name}Enabled`, "true"]));
  return new EngineLab({ deletionLimit, config, modules: NAMES.map((name) => ({ name })) });
}

const off = (...names: readonly string[]): Record<string, undefined> =>
  Object.fromEntries(names.map((name) => [`${name}Enabled`, undefined]));

/** What a person has to name to confirm what is held. */
const tokenOf = (lab: EngineLab): string => lab.state.view.deletionLimit?.token ?? "nothing is held";

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
      ` enable them again, or confirm: kubectl annotate --overwrite -n default addonoperator/addon-operator addon-operator.io/confirm-delete=${tokenOf(lab)}`;
    expect(tokenOf(lab)).toMatch(/^[0-9a-f]{12}$/);
    expect(lab.state.view.removalBlockers).toEqual([{ action: "delete", text }]);
    expect(heldOf(lab)).toEqual(NAMES);
    expect(lab.state.view.modules.get("a")?.problem).toMatchObject({
      message: expect.stringContaining("its removal is blocked"),
      remedy: expect.stringMatching(
        /^enable it again, or confirm: kubectl annotate .*confirm-delete=\w{12}$/,
      ),
    });
    expect(lab.quiet).toBe(true);
  });

  it("removes none in later reloads either, nor after a restart", async () => {
    const lab = await emptied();
    lab.edit({ global: "{x: 1}" });
    lab.state.record("convergeRequested", "token");
    await lab.run();
    expect(lab.converges).toBeGreaterThan(2);
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
    expect(lab.state.view.removalBlockers).toEqual([]);
    expect(lab.state.view.deletionLimit).toBeUndefined();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("goes through once a person names its token, not the version of the ConfigMap", async () => {
    const lab = await emptied();
    lab.state.record("confirmationObserved", String(lab.version));
    lab.state.record("convergeRequested", "look again");
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.removalBlockers[0]?.text).toMatch(
      new RegExp(`confirm-delete=${tokenOf(lab)}; its present value 2 does not confirm this removal$`),
    );
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
    expect(lab.releases.size).toBe(0);
    expect(lab.state.view.removalBlockers).toEqual([]);
    expect(heldOf(lab)).toEqual([]);
  });

  it("needs a new token after a confirmed removal was taken back", async () => {
    const lab = await emptied();
    const used = tokenOf(lab);
    lab.state.record("confirmationObserved", used);
    lab.edit(Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])));
    await lab.run();
    lab.edit(off(...NAMES));
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(tokenOf(lab)).not.toBe(used);
    expect(lab.state.view.removalBlockers[0]?.text).toContain("does not confirm this removal");
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
  });

  it("is asked about anew when more is to go", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c", "d"));
    await lab.run();
    const requested = tokenOf(lab);
    lab.edit(off("e"));
    await lab.run();
    lab.state.record("confirmationObserved", requested);
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("is asked about anew when as many others are to go", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c", "d"));
    await lab.run();
    const requested = tokenOf(lab);
    lab.edit({ ...off("e"), aEnabled: "true" });
    await lab.run();
    lab.state.record("confirmationObserved", requested);
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("stays answered when a hook writes the ConfigMap meanwhile", async () => {
    const write = { name: "h", schedules: [{}], act: () => ({ config: { "/global/x": 1 } }) };
    const lab = new EngineLab({
      deletionLimit: "3,50%",
      config: Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])),
      modules: NAMES.map((name) => ({ name })),
      globalHooks: [{ ...write, act: () => ({ config: [{ op: "add", path: "/global/x", value: 1 }] }) }],
    });
    await lab.start();
    lab.edit(off(...NAMES));
    await lab.run();
    const requested = tokenOf(lab);
    const version = lab.version;
    lab.tick("h");
    await lab.run();
    expect(lab.version).toBeGreaterThan(version);
    lab.state.record("confirmationObserved", requested);
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
  });

  it("counts releases whose directory is gone", async () => {
    const lab = world();
    await lab.start();
    lab.setModules([{ name: "e" }]);
    lab.state.record("secondCheckRequired");
    await lab.run();
    await lab.run(10_000);
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.removalBlockers[0]?.text).toMatch(/^not deleted: a, b, c, d: 4 of 5 modules/);
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run(10_000);
    expect(lab.linesOf("uninstall")).toHaveLength(4);
  });

  it("holds scripts that all say no", async () => {
    let answer = true;
    const modules = NAMES.map((name) => ({ name, enabled: true, script: () => answer }));
    const lab = new EngineLab({ deletionLimit: "3,50%", modules });
    await lab.start();
    expect(lab.releases.size).toBe(5);
    answer = false;
    lab.state.record("convergeRequested", "token");
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(heldOf(lab)).toEqual(NAMES);
  });

  it("rests the hooks of modules whose removal it holds, and leaves their releases", async () => {
    const hook = { name: "h", lifecycle: { beforeHelm: 1 }, kubernetes: [{}], schedules: [{}] };
    const lab = new EngineLab({
      deletionLimit: "3,50%",
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

  it("follow each other after ten minutes", async () => {
    const lab = world();
    await lab.start();
    lab.edit(off("a", "b", "c"));
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(3);
    await lab.run(600_000);
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

describe("a confirmation", () => {
  const on = (...names: readonly string[]): Record<string, string> =>
    Object.fromEntries(names.map((name) => [`${name}Enabled`, "true"]));

  it("is used up: the same modules, installed again, are asked about again", async () => {
    const lab = await emptied();
    const confirmation = tokenOf(lab);
    lab.state.record("confirmationObserved", confirmation);
    await lab.run();
    expect(lab.linesOf("uninstall")).toHaveLength(5);
    lab.edit(on(...NAMES));
    await lab.run();
    lab.log.length = 0;
    lab.edit(off(...NAMES));
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(tokenOf(lab)).not.toBe(confirmation);
    expect(lab.state.view.removalBlockers[0]?.text).toContain(
      `its present value ${confirmation} does not confirm`,
    );
  });

  it("is used up where modules have no release", async () => {
    const hooks = [{ name: "h", lifecycle: { beforeHelm: 1, afterDeleteHelm: 1 } }];
    const modules = NAMES.map((name) => ({ name, hooks, chart: "none" as const }));
    const lab = new EngineLab({ deletionLimit: "3,50%", config: on(...NAMES), modules });
    const ends = (): string[] => lab.log.filter((line) => line.endsWith(": afterDeleteHelm"));
    await lab.start();
    lab.edit(off(...NAMES));
    await lab.run();
    expect(ends()).toEqual([]);
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run();
    expect(ends()).toHaveLength(5);
    await lab.run(1000);
    lab.edit(on(...NAMES));
    await lab.run();
    lab.edit(off(...NAMES));
    await lab.run();
    expect(ends()).toHaveLength(5);
  });

  it("covers the rest of the removal that it began", async () => {
    const lab = await emptied();
    lab.uninstallFails = (name) => name === "c";
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run();
    expect([...lab.releases.keys()]).toEqual(["a", "b", "c"]);
    lab.edit({ global: "{x: 1}" });
    await lab.run();
    lab.uninstallFails = undefined;
    await lab.run(60_000);
    expect([...lab.releases.keys()]).toEqual([]);
  });

  it("does not count towards the limit of what follows", async () => {
    const lab = await emptied();
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run();
    expect(lab.state.view.deletions.removed.size).toBe(0);
  });
});

describe("removals one after the other", () => {
  const TWELVE = Array.from({ length: 12 }, (_, index) => `m${index}`);

  /** Directories vanish one every two seconds, each noticed. */
  async function vanishing(lab: EngineLab, names: readonly string[]): Promise<void> {
    for (const [index] of names.entries()) {
      lab.setModules(
        TWELVE.filter((name) => !names.slice(0, index + 1).includes(name)).map((name) => ({ name })),
      );
      lab.state.record("filesChanged", "all");
      await lab.run(2000);
    }
    await lab.run(20_000);
  }

  const full = (): EngineLab =>
    new EngineLab({
      deletionLimit: "3,50%",
      config: Object.fromEntries(TWELVE.map((name) => [`${name}Enabled`, "true"])),
      modules: TWELVE.map((name) => ({ name })),
    });

  it("are held like as many at once", async () => {
    const lab = full();
    await lab.start();
    await vanishing(lab, TWELVE.slice(0, 11));
    // The sixth and the seventh come to the same discovery.
    expect(lab.linesOf("uninstall")).toHaveLength(5);
    expect(lab.state.view.removalBlockers[0]?.text).toMatch(
      /^not deleted: m\d.*: 11 of 12 modules within 10 minutes \(5 removed already\) are more than --delete-brake allows/,
    );
    // What is held does not go by itself when the window has passed.
    await lab.run(1_200_000);
    lab.state.record("convergeRequested", "look again");
    await lab.run(20_000);
    expect(lab.linesOf("uninstall")).toHaveLength(5);
    lab.state.record("confirmationObserved", tokenOf(lab));
    await lab.run(20_000);
    expect(lab.linesOf("uninstall")).toHaveLength(11);
  });

  it("are measured by what was installed before the first of them", async () => {
    const lab = full();
    await lab.start();
    await vanishing(lab, TWELVE.slice(0, 6));
    const more = Array.from({ length: 20 }, (_, index) => ({ name: `n${index}`, enabled: true }));
    lab.setModules([...TWELVE.slice(7).map((name) => ({ name })), ...more]);
    lab.state.record("filesChanged", "all");
    await lab.run(20_000);
    expect(lab.linesOf("uninstall")).toHaveLength(6);
    expect(lab.state.view.deletionLimit).toMatchObject({ modules: ["m6"], removed: 6, installed: 12 });
  });

  it("leave the record within bounds", async () => {
    const lab = full();
    await lab.start();
    await vanishing(lab, TWELVE.slice(0, 3));
    expect(lab.state.view.deletions.removed.size).toBe(3);
    await lab.run(600_000);
    lab.state.record("convergeRequested", "look again");
    await lab.run();
    expect(lab.state.view.deletions.removed.size).toBe(0);
    expect(lab.state.view.deletions.known.size).toBe(9);
  });
});
