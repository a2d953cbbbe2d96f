import { describe, expect, it } from "vitest";

import { overviewOf } from "../../src/status/index.ts";
import type { ModuleRow, Overview } from "../../src/status/index.ts";
import { EngineLab } from "../support/engine-lab.ts";

/** What the operator tells of itself and of all modules now. */
function told(lab: EngineLab): Overview {
  return overviewOf({ view: lab.state.view, queues: lab.queues.views() }, lab.clock.now());
}

function rowOf(lab: EngineLab, name: string): ModuleRow | undefined {
  return told(lab).modules.find((row) => row.name === name);
}

/** Longer than any test. */
const HANGS = 3_600_000;

describe("a module that is off and waits for its removal", () => {
  it.each(["main", "own"] as const)("is not Disabled from a start on (%s)", async (moduleQueues) => {
    const hooks = [{ name: "h", lifecycle: { afterDeleteHelm: 1 } }];
    const lab = new EngineLab({
      moduleQueues,
      modules: [
        { name: "a", order: 1 },
        { name: "b", order: 2, hooks },
        { name: "c", order: 3 },
        { name: "never-on", order: 4 },
      ],
    });
    for (const name of ["a", "b", "c"]) lab.addRelease(name);
    // Only its hooks are left to run.
    const halfway = lab.releases.get("b");
    if (halfway !== undefined) lab.releases.set("b", { ...halfway, status: "uninstalled" });
    lab.uninstallTakes = HANGS;
    const seen = new Set<string>();
    lab.state.onChange(() => {
      for (const { name, state, ready } of told(lab).modules) seen.add(`${name}: ${state}, ${ready}`);
    });
    await lab.start();
    expect([...seen].filter((each) => each.includes("Disabled"))).toEqual(["never-on: Disabled, True"]);
    expect(["a", "b", "c"].map((name) => rowOf(lab, name)?.state)).toEqual([
      "Pending",
      "Pending",
      "Deleting",
    ]);
    expect(rowOf(lab, "a")?.message).toBe("waits for the removal of c");
    lab.uninstallTakes = 0;
    await lab.run(HANGS);
    expect(["a", "b", "c"].map((name) => rowOf(lab, name)?.state)).toEqual(Array(3).fill("Disabled"));
  });
});
