import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const broken = (): boolean => {
  throw new Error("no such file");
};

describe("a discovery that is tried again", () => {
  it("reads the directories again, but does not repeat beforeAll", async () => {
    const lab = new EngineLab({
      globalHooks: [{ name: "g", lifecycle: { beforeAll: 1 } }],
      modules: [
        { name: "one", enabled: true },
        { name: "two", enabled: true, script: broken },
      ],
    });
    await lab.start();
    await lab.run(5000);
    expect(lab.log).toEqual(["hook g: beforeAll"]);
    lab.setModules([{ name: "one", enabled: true }]);
    await lab.run(5000);
    expect(lab.log).toEqual(["hook g: beforeAll", "helm one", "release one v1", "converged"]);
  });
});
