import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const add = (path: string, value: unknown) => ({ op: "add", path, value });

describe("a values patch", () => {
  const hook = {
    name: "h",
    lifecycle: { onStartup: 1 },
    act: () => ({ values: [add("/web/found", 3), add("/web/size", 2)] }),
  };
  const world = () => new EngineLab({ modules: [{ name: "web", enabled: true, hooks: [hook] }] });

  it("stays on top of what is edited below, over reloads, and is not written to the ConfigMap", async () => {
    const lab = world();
    await lab.start();
    lab.edit({ web: "{ size: 7, host: a }" });
    await lab.run();
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(lab.state.values.mergedSection("web").values).toEqual({ size: 2, host: "a", found: 3 });
    expect(lab.inputs("web/h")).toHaveLength(1);
    expect(lab.data).toEqual({ web: "{ size: 7, host: a }", global: "{ x: 1 }" });
  });

  it("is gone with the operator: the next one begins without", async () => {
    const lab = world();
    await lab.start();
    const next = world();
    await next.start();
    expect(next.inputs("web/h")[0]?.values).not.toHaveProperty(["web", "found"]);
  });
});

describe("a flag that a global hook patches", () => {
  it.each(["values", "config"] as const)("is kept in memory only, in a %s patch too", async (kind) => {
    const act = () => ({ [kind]: add("/webEnabled", true) });
    const lab = new EngineLab({
      globalHooks: [{ name: "g", lifecycle: { beforeAll: 1 }, act }],
      modules: [{ name: "web" }],
    });
    await lab.start();
    expect(lab.state.view.enabledModules).toEqual(["web"]);
    expect(lab.data).toEqual({});
  });
});
