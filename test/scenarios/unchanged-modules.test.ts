import { expect, it } from "vitest";

import { Projector } from "../../src/report/index.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { EngineLab, type HookSpec } from "../support/engine-lab.ts";

/** A hook before helm that takes three seconds. */
const slow: HookSpec = { name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 3000 }) };

const modules = ["a", "b", "c"].map((name) => ({ name, enabled: true, hooks: [slow] }));

/** The conditions Ready of these modules at each half second of the time. */
async function readyDuring(lab: EngineLab, seconds: number, names: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const projector = new Projector("none", new KnownSecrets());
  for (let half = 0; half < 2 * seconds; half++) {
    await lab.run(500);
    const snapshot = { view: lab.state.view, queues: lab.queues.views() };
    const projection = projector.project(snapshot, lab.clock.now());
    for (const name of names) {
      const { conditions = [] } = projection.modules.get(name)?.status ?? {};
      found.add(conditions.find(({ type }) => type === "Ready")?.status ?? "");
    }
  }
  return found;
}

it.each(["main", "own"] as const)(
  "what a toggle of a module does not change stays Ready, with queues %s",
  async (moduleQueues) => {
    const lab = new EngineLab({ modules, moduleQueues });
    await lab.start();
    await lab.run(20_000);
    lab.edit({ bEnabled: "false" });
    expect(await readyDuring(lab, 20, ["a", "c"])).toEqual(new Set(["True"]));
    expect(lab.linesOf("hook c/h: beforeHelm")).toHaveLength(2);
    lab.edit({ bEnabled: "true" });
    expect(await readyDuring(lab, 20, ["a", "c"])).toEqual(new Set(["True"]));
    lab.edit({ bEnabled: "true", c: "{ x: 1 }" });
    expect(await readyDuring(lab, 20, ["a"])).toEqual(new Set(["True"]));
    lab.edit({ bEnabled: "true", c: "{ x: 2 }" });
    expect(await readyDuring(lab, 1, ["c"])).toEqual(new Set(["Unknown"]));
  },
);

it("a removal that fails leaves the others Ready", async () => {
  const failing: HookSpec = { name: "h", lifecycle: { beforeDeleteHelm: 1 }, act: () => ({ fail: "no" }) };
  const lab = new EngineLab({
    modules: [...modules.slice(0, 2), { name: "c", enabled: true, hooks: [failing] }],
  });
  await lab.start();
  await lab.run(20_000);
  lab.edit({ cEnabled: "false" });
  expect(await readyDuring(lab, 20, ["a", "b"])).toEqual(new Set(["True"]));
});
