import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

describe("a module that is switched on again", () => {
  it("gets onStartup and Synchronization although its delete was not finished", async () => {
    let broken = false;
    const hook = {
      name: "h",
      lifecycle: { onStartup: 1, beforeDeleteHelm: 1 },
      kubernetes: [{ name: "pods" }],
      act: (triggers: readonly { type: string }[]) =>
        broken && triggers[0]?.type === "lifecycle" ? { fail: "not yet" } : {},
    };
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
    await lab.start();
    broken = true;
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab.event("one/h", "meanwhile");
    broken = false;
    lab.log.length = 0;
    lab.edit({ oneEnabled: "true" });
    await lab.run();
    expect(lab.log).toEqual([
      "one on",
      "hook one/h: onStartup",
      "hook one/h: sync pods",
      "helm one",
      "converged",
    ]);
    expect(lab.unlocked).toEqual(["one/h/k0", "one/h/k0"]);
  });
});
