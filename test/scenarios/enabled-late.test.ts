import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const flag = (value: boolean) => ({ values: [{ op: "add", path: "/oneEnabled", value }] });

describe("a module that a global hook's flag switches on", () => {
  it("runs with its hooks, although nobody had asked for them when the directories were read", async () => {
    const lab = new EngineLab({
      globalHooks: [{ name: "g", lifecycle: { beforeAll: 1 }, act: () => flag(true) }],
      modules: [
        { name: "one", hooks: [{ name: "h", lifecycle: { onStartup: 1 }, kubernetes: [{ name: "pods" }] }] },
      ],
    });
    await lab.start();
    expect(lab.log).toEqual([
      "hook g: beforeAll",
      "hook one/h: onStartup",
      "hook one/h: sync pods",
      "helm one",
      "release one v1",
      "converged",
    ]);
    expect(lab.watches("one/h")).toBe(true);
  });
});
