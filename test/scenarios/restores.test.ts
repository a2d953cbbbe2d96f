import { describe, expect, it } from "vitest";

import { RestoreError } from "../../src/helm/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../support/engine-lab.ts";

const MINUTE = 60_000;

/** What the failing hook of a test does next. */
const next: { act: HookAct } = { act: {} };

const ticking: HookSpec = { name: "t", schedules: [{}], act: () => next.act };
const after: HookSpec = { name: "a", lifecycle: { afterHelm: 1 } };
const web: ModuleSpec = { name: "web", enabled: true, hooks: [after] };
const other: ModuleSpec = { name: "other", enabled: true, hooks: [ticking] };

function lose(lab: EngineLab, name: string, ...absent: readonly string[]): void {
  lab.state.recordModule(name, "objectsFoundMissing", absent);
  lab.state.recordModule(name, "releaseObserved", lab.releases.get(name));
}

async function stalled(more: Partial<ConstructorParameters<typeof EngineLab>[0]> = {}): Promise<EngineLab> {
  next.act = { fail: "no" };
  const lab = new EngineLab({ modules: [web, other], ...more });
  await lab.start();
  lab.tick("other/t");
  await lab.run(100);
  return lab;
}

const missing = (lab: EngineLab, name: string) => lab.state.view.modules.get(name)?.missingObjects;

describe("objects that are gone while the head of main fails", () => {
  it("are put back at once, and the run of their module follows in its order", async () => {
    const lab = await stalled();
    lose(lab, "web", "ns/ConfigMap/x");
    await lab.run(100);
    expect(lab.linesOf("restore")).toEqual(["restore web: ns/ConfigMap/x"]);
    expect([missing(lab, "web"), lab.reported.filter((line) => line.includes("restored"))]).toEqual([
      [],
      ["released web: restored"],
    ]);
    expect(lab.linesOf("hook web/a")).toHaveLength(1);
    next.act = {};
    await lab.run(MINUTE);
    expect([lab.linesOf("hook web/a").length, lab.linesOf("restore").length]).toEqual([2, 1]);
    expect([lab.broken, lab.describe()]).toEqual([[], []]);
  });

  it("are put back behind a failing hook of a converge, and a failing module, too", async () => {
    const beforeAll: HookSpec = { name: "g", lifecycle: { beforeAll: 1 }, act: () => next.act };
    next.act = {};
    const lab = new EngineLab({
      modules: [web, { name: "z", enabled: true, order: 9 }],
      globalHooks: [beforeAll],
    });
    await lab.start();
    next.act = { fail: "no" };
    lab.state.record("convergeRequested", "look");
    await lab.run(100);
    lose(lab, "z", "Namespace/a");
    await lab.run(100);
    expect(missing(lab, "z")).toEqual([]);
    next.act = {};
    lab.helmFails = (name) => (name === "web" ? "no" : undefined);
    await lab.run(MINUTE);
    lose(lab, "z", "Namespace/b");
    await lab.run(100);
    expect(lab.linesOf("restore")).toEqual(["restore z: Namespace/a", "restore z: Namespace/b"]);
  });

  it("what is refused is tried again, less and less often, without holding up those of others", async () => {
    const lab = await stalled({ modules: [web, other, { name: "third", enabled: true }] });
    lab.restores = (absent) => {
      if (absent.includes("bad")) throw new RestoreError(["bad: refused"], ["bad"]);
    };
    lose(lab, "web", "good", "bad");
    await lab.run(100);
    lose(lab, "third", "good");
    await lab.run(100);
    expect([missing(lab, "web"), missing(lab, "third")]).toEqual([["bad"], []]);
    await lab.run(20_000);
    expect(lab.linesOf("restore web").length).toBe(4);
  });

  it("an edit or a removal of the module does not overlap with that", async () => {
    const lab = await stalled();
    lab.restoreTakes = 60 * MINUTE;
    lose(lab, "web", "x");
    await lab.run(100);
    lab.edit({ web: "{ a: 1 }" });
    await lab.run(3000);
    expect(lab.linesOf("helm web")).toHaveLength(2);
    lose(lab, "web", "x");
    await lab.run(100);
    lab.edit({ webEnabled: "false" });
    await lab.run(3000);
    expect([lab.linesOf("uninstall"), lab.linesOf("restore").length]).toEqual([["uninstall web"], 2]);
    expect(lab.broken).toEqual([]);
  });
});

it.each<readonly [string, (lab: EngineLab) => void]>([
  ["nothing fails", () => (next.act = {})],
  ["the module is suspended", (lab) => lab.edit({ webMaintenance: "NoResourceReconciliation" })],
  [
    "the last upgrade failed",
    (lab) => {
      const release = lab.releases.get("web");
      if (release !== undefined) lab.releases.set("web", { ...release, status: "failed" });
    },
  ],
])("nothing is put back without a run where %s", async (_what, change) => {
  const lab = await stalled();
  change(lab);
  await lab.run(30_000);
  lose(lab, "web", "x");
  await lab.run(100);
  expect(lab.linesOf("restore")).toEqual([]);
});

it.each(["main", "own"] as const)(
  "missing objects of a module are restored while it waits for a requirement that was rolled back (queues: %s)",
  async (moduleQueues) => {
    const db: ModuleSpec = { name: "db", order: 1, enabled: true };
    const lab = new EngineLab({
      moduleQueues,
      modules: [db, { ...web, order: 2, requires: { modules: { db: "*" } } }],
    });
    await lab.start();
    lab.refuses = (name) => (name === "db" ? "Rolled back" : undefined);
    lab.edit({ db: "a: 2" });
    await lab.run();
    lose(lab, "web", "ns/ConfigMap/x");
    await lab.run(100);
    expect([lab.linesOf("restore"), missing(lab, "web")]).toEqual([["restore web: ns/ConfigMap/x"], []]);
    expect(lab.linesOf("helm web")).toHaveLength(1);
    lab.refuses = undefined;
    lab.edit({ db: "a: 3" });
    await lab.run();
    expect([lab.linesOf("helm web").length, lab.linesOf("restore").length]).toEqual([2, 1]);
    expect(lab.broken).toEqual([]);
  },
);

it("with queues of their own, a failing hook of the module itself does not keep its objects away", async () => {
  const lab = await stalled({ moduleQueues: "own" });
  lose(lab, "other", "x");
  lose(lab, "web", "y");
  await lab.run(100);
  expect([lab.linesOf("restore"), lab.linesOf("helm web").length]).toEqual([["restore other: x"], 2]);
});
