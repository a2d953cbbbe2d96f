import { describe, expect, it } from "vitest";

import { EngineLab, type ModuleSpec } from "../support/engine-lab.ts";

// docs/reference/lifecycle.md, "Startup and converge": before each single removal, files, flags and ConfigMap are checked again.

const NAMES = ["a", "b", "c"];
const config = Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"]));
const modules = (...names: readonly string[]): ModuleSpec[] => names.map((name) => ({ name }));

/** All modules are off, or their directories are gone; the first removal is under way when `during` is called. */
async function removing(lab: EngineLab, begin: () => void, during: () => void): Promise<void> {
  await lab.start();
  lab.uninstallTakes = 1000;
  begin();
  await lab.run(500);
  while (lab.linesOf("uninstall").length === 0) await lab.run(500);
  during();
  lab.uninstallTakes = 0;
  await lab.run(30_000);
}

describe.each(["main", "own"] as const)("what changes while removals are ahead (%s)", (moduleQueues) => {
  it("directories that come back, noticed by nobody, are not purged", async () => {
    const lab = new EngineLab({ moduleQueues, config, modules: modules(...NAMES) });
    const vanish = (): void => {
      lab.setModules(modules());
      lab.setModules([{ name: "other" }]);
      lab.state.record("filesChanged", "all");
    };
    await removing(lab, vanish, () => lab.setModules(modules("other", ...NAMES)));
    expect(lab.linesOf("uninstall")).toHaveLength(1);
    expect([...lab.releases.keys()].toSorted()).toEqual(NAMES);
    expect(lab.broken).toEqual([]);
  });

  it("flags in files that come back, noticed by nobody, keep their modules", async () => {
    const on = NAMES.map((name) => ({ name, enabled: true }));
    const lab = new EngineLab({ moduleQueues, modules: on });
    const switchOff = (): void => {
      lab.setModules(modules(...NAMES));
      lab.state.record("filesChanged", "all");
    };
    await removing(lab, switchOff, () => lab.setModules(on));
    expect(lab.linesOf("uninstall")).toHaveLength(1);
    expect([...lab.releases.keys()].toSorted()).toEqual(NAMES);
    expect(lab.broken).toEqual([]);
  });

  it("the ConfigMap is read again, whatever its watch has told", async () => {
    const lab = new EngineLab({ moduleQueues, config, modules: modules(...NAMES) });
    const off = Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "false"]));
    await removing(
      lab,
      () => lab.edit(off),
      () => {
        lab.onRefresh = () => {
          lab.onRefresh = undefined;
          lab.edit(config);
        };
      },
    );
    expect(lab.linesOf("uninstall")).toHaveLength(1);
    expect([...lab.releases.keys()].toSorted()).toEqual(NAMES);
  });

  it("a script that says yes again keeps its module", async () => {
    let answer = true;
    const scripted = NAMES.map((name) => ({ name, enabled: true, script: () => answer }));
    const lab = new EngineLab({ moduleQueues, modules: scripted });
    const no = (): void => {
      answer = false;
      lab.state.record("convergeRequested", "look");
    };
    await removing(lab, no, () => (answer = true));
    expect(lab.linesOf("uninstall")).toHaveLength(1);
    expect([...lab.releases.keys()].toSorted()).toEqual(NAMES);
  });

  it("files that are noticed to have changed make the converge begin again before the next removal", async () => {
    const lab = new EngineLab({ moduleQueues, config, modules: modules(...NAMES) });
    const off = Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "false"]));
    let converges = 0;
    await removing(
      lab,
      () => lab.edit(off),
      () => {
        converges = lab.logged.filter(([, message]) => message === "Converge started").length;
        lab.state.record("filesChanged", new Set(["a"]));
      },
    );
    expect(lab.logged.filter(([, message]) => message === "Converge started")).toHaveLength(converges + 1);
    expect(lab.linesOf("uninstall")).toHaveLength(3);
    expect(lab.releases.size).toBe(0);
  });

  it("hooks that ran before the uninstall are followed by another check", async () => {
    const hooks = [
      {
        name: "h",
        lifecycle: { beforeDeleteHelm: 1 },
        act: () => {
          lab.setModules([{ name: "a", enabled: true, hooks }]);
          return {};
        },
      },
    ];
    const lab: EngineLab = new EngineLab({ moduleQueues, modules: [{ name: "a", enabled: true, hooks }] });
    await lab.start();
    lab.setModules([{ name: "a", hooks }]);
    lab.state.record("filesChanged", "all");
    await lab.run(30_000);
    expect(lab.linesOf("hook a/h: beforeDeleteHelm")).toHaveLength(1);
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect([...lab.releases.keys()]).toEqual(["a"]);
  });
});
