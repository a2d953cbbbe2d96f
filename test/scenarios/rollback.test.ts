import { describe, expect, it } from "vitest";

import { ForeignReleaseError, HelmError, NoRollbackTargetError } from "../../src/helm/index.ts";
import { ApiError, ConnectionError } from "../../src/kube/index.ts";
import { digestUserValues } from "../../src/values/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";
import { whyOf } from "../report/views.ts";

// docs/reference/lifecycle.md, "Rollback".

const module = (section = { a: 1 }): ModuleSpec => ({
  name: "m",
  enabled: true,
  section,
  hooks: [{ name: "h", lifecycle: { beforeHelm: 1, afterHelm: 1 } }],
});

/** A module whose values of now are rejected, and what helm is asked from then on. */
async function rolledBack(world: ConstructorParameters<typeof EngineLab>[0] = {}): Promise<EngineLab> {
  const lab = new EngineLab({ modules: [module()], ...world });
  await lab.start();
  lab.refuses = (name) => (name === "m" ? "chart 2 failed" : undefined);
  lab.edit({ m: "a: 2" });
  await lab.run();
  lab.log.length = 0;
  lab.askedOfHelm.length = 0;
  return lab;
}

/** A user requests a rollback to revision 1, as the command does. */
function requestRollback({ state }: EngineLab): void {
  const userValuesDigest = digestUserValues(state.values, state.tree.modules[0]!);
  state.recordModule("m", "rollbackRequested", { revision: 1, userValuesDigest });
}

describe.each(["main", "own"] as const)("a module that fails, in queues %s", (moduleQueues) => {
  it.each<readonly [string, (lab: EngineLab) => void]>([
    ["a run", ({ state }) => state.recordModule("m", "runRequested", "t1")],
    ["a rollback", requestRollback],
  ])("is tried at once when a user requests %s, once for each request", async (_, request) => {
    const lab = new EngineLab({ modules: [module()], moduleQueues });
    await lab.start();
    lab.helmFails = () => "no";
    lab.edit({ m: "a: 2" });
    await lab.run(120_000);
    const tries = () => lab.linesOf("hook m/h: beforeHelm").length + lab.linesOf("rollback").length;
    const before = tries();
    request(lab);
    await lab.run(0);
    const after = tries();
    await lab.run(1000);
    expect([after > before, tries()]).toEqual([true, after]);
  });
});

const FAILED = { message: "no" } as HelmError["result"];
const FORBIDDEN = new ApiError({ status: 403, reason: "Forbidden", message: "secrets is forbidden" });

const view = (lab: EngineLab) => lab.state.view.modules.get("m");

describe("a module that was rolled back", () => {
  it("rests: it is not tried again, and afterHelm did not run", async () => {
    const lab = new EngineLab({ modules: [module()] });
    await lab.start();
    lab.refuses = () => "chart 2 failed";
    lab.log.length = 0;
    lab.askedOfHelm.length = 0;
    lab.edit({ m: "a: 2" });
    await lab.run(3_600_000);
    expect(lab.log).toEqual(["hook m/h: beforeHelm", "helm m"]);
    expect(view(lab)).toMatchObject({ rollbackReason: "chart 2 failed", phase: "ready", retry: undefined });
    expect(view(lab)?.lastRun).toMatchObject({ result: "Failed", message: "chart 2 failed" });
    expect(lab.quiet).toBe(true);
    const { view: all, values } = lab.state;
    expect(values.mergedSection("m").values).toEqual({ a: 2 });
    expect(whyOf({ view: all, queues: lab.queues.views() }, "m", lab.clock.now())).toContain(
      "chart 2 failed",
    );
  });

  it("rests after a restart as well, although its first run was refused", async () => {
    const lab = new EngineLab({ modules: [module()] });
    lab.refuses = () => "chart 2 failed";
    await lab.start();
    await lab.run(3_600_000);
    expect(lab.linesOf("helm m")).toHaveLength(1);
    expect(view(lab)).toMatchObject({ rollbackReason: "chart 2 failed", phase: "ready" });
  });

  it("is tried at once after an edit", async () => {
    const lab = await rolledBack();
    lab.refuses = undefined;
    lab.edit({ m: "a: 3" });
    await lab.run();
    expect(lab.log).toEqual(["hook m/h: beforeHelm", "helm m", "release m v2", "hook m/h: afterHelm"]);
    expect(view(lab)?.rollbackReason).toBeUndefined();
  });

  it("is tried when that is asked for, once for each request", async () => {
    const lab = await rolledBack();
    lab.state.recordModule("m", "runRequested", "t1");
    await lab.run();
    expect(lab.askedOfHelm).toEqual(["asked"]);
    expect(view(lab)?.handled.token).toBe("t1");
    lab.edit({ m: "a: 4" });
    await lab.run();
    expect(lab.askedOfHelm).toEqual(["asked", ""]);
  });

  it("is not tried for a request that an earlier process has answered", async () => {
    const lab = await rolledBack();
    lab.askedOfHelm.length = 0;
    lab.state.recordModule("m", "handledRequestRestored", "t1");
    lab.state.recordModule("m", "runRequested", "t1");
    await lab.run(3_600_000);
    expect(lab.askedOfHelm).toEqual([]);
    expect(view(lab)?.handled.token).toBe("t1");
    lab.state.recordModule("m", "handledRequestRestored", "t0");
    lab.state.recordModule("m", "runRequested", "t2");
    await lab.run();
    expect(lab.askedOfHelm).toEqual(["asked"]);
  });

  it("is not Ready for those that require it", async () => {
    const after: ModuleSpec = { name: "n", order: 2, enabled: true, requires: { modules: { m: "*" } } };
    const lab = new EngineLab({ modules: [module(), after] });
    lab.refuses = (name) => (name === "m" ? "chart 2 failed" : undefined);
    await lab.start();
    expect(lab.linesOf("helm n")).toEqual([]);
  });

  it("brings back missing objects of what is in force", async () => {
    const lab = await rolledBack();
    const restored: (readonly string[])[] = [];
    lab.restores = (absent) => void restored.push(absent);
    lab.state.recordModule("m", "objectsFoundMissing", ["ns/Service/m"]);
    await lab.run();
    expect(restored).toEqual([["ns/Service/m"]]);
    expect(view(lab)).toMatchObject({ rollbackReason: "chart 2 failed", missingObjects: [] });
  });

  it("is left alone by helm while it is suspended", async () => {
    const lab = await rolledBack();
    lab.edit({ mMaintenance: "NoResourceReconciliation" });
    await lab.run();
    expect(lab.linesOf("helm m")).toEqual([]);
  });

  it("rolls back on request, before its hooks and once", async () => {
    const lab = await rolledBack();
    requestRollback(lab);
    await lab.run();
    expect(lab.log).toEqual(["rollback m to 1", "hook m/h: beforeHelm", "helm m"]);
    await lab.run();
    expect(lab.linesOf("rollback")).toHaveLength(1);
    // That is no request to try again what was rejected.
    expect(lab.askedOfHelm).toEqual([""]);
  });

  it.each<[string, Error, number]>([
    [
      "again if the API server fails",
      new ApiError({ status: 500, reason: "InternalError", message: "no" }),
      2,
    ],
    ["again if the connection is cut", new ConnectionError("ECONNRESET", "cut"), 2],
    ["again if helm fails", new HelmError("history", FAILED), 2],
    ["not again if there is no such revision", new NoRollbackTargetError("there is no revision 1"), 1],
  ])("rolls back on request %s before the release records that", async (_, failure, runs) => {
    const lab = await rolledBack();
    lab.rollbackFailures.push(failure);
    requestRollback(lab);
    await lab.run();
    expect(view(lab)?.retry?.reason).toBe(failure instanceof HelmError ? "HelmFailed" : "ApiFailed");
    await lab.run(60_000);
    expect(lab.linesOf("rollback")).toHaveLength(runs);
    expect(lab.linesOf("helm m")).toHaveLength(1);
  });

  it("gives a requested rollback up if the release is somebody else's", async () => {
    const lab = await rolledBack();
    lab.rollbackFailures.push(new ForeignReleaseError("m", "somebody else"));
    requestRollback(lab);
    await lab.run(60_000);
    expect(lab.linesOf("rollback")).toHaveLength(1);
    expect(view(lab)?.rollbackRequest).toBeUndefined();
  });

  describe("while the API server refuses what a requested rollback needs", () => {
    async function refusedRollback(): Promise<EngineLab> {
      const lab = await rolledBack();
      lab.rollbackFailures.push(...Array.from({ length: 500 }, () => FORBIDDEN));
      requestRollback(lab);
      await lab.run(3_600_000);
      return lab;
    }

    it("fails with a back-off, and runs neither hooks nor helm", async () => {
      const lab = await refusedRollback();
      // The back-off is 32 s at most.
      expect(lab.linesOf("rollback").length).toBeLessThan(3600 / 32 + 20);
      expect(new Set(lab.log)).toEqual(new Set(["rollback m to 1"]));
      expect(view(lab)?.retry).toMatchObject({ reason: "ApiFailed", message: "secrets is forbidden" });
    });

    it.each<[string, (lab: EngineLab) => void, string]>([
      ["changes the values", (lab) => lab.edit({ m: "a: 3" }), ""],
      [
        "changes the chart",
        (lab) => {
          lab.setModules([{ ...module(), version: "3" }]);
          lab.state.record("filesChanged", "all");
        },
        "",
      ],
      ["changes global values", (lab) => lab.edit({ global: "a: 1" }), ""],
      ["requests a run", (lab) => lab.state.recordModule("m", "runRequested"), "asked"],
    ])("is not tried any more once the user %s", async (_, act, asked) => {
      const lab = await refusedRollback();
      lab.log.length = 0;
      act(lab);
      await lab.run(60_000);
      expect(lab.linesOf("rollback")).toEqual([]);
      expect(lab.linesOf("helm m")).toHaveLength(1);
      expect(lab.askedOfHelm).toEqual([asked]);
    });

    it("is not tried any more once the module was disabled", async () => {
      const lab = await refusedRollback();
      lab.edit({ mEnabled: "false" });
      await lab.run();
      lab.log.length = 0;
      lab.edit({ mEnabled: "true" });
      await lab.run();
      expect(lab.linesOf("rollback")).toEqual([]);
      expect(lab.linesOf("helm m")).toHaveLength(1);
    });

    it("is tried while hooks change values", async () => {
      const lab = await refusedRollback();
      lab.log.length = 0;
      lab.rollbackFailures.length = 0;
      lab.state.inputs.recordPatches("m", [{ op: "add", path: "/m/b", value: 1 }]);
      await lab.run(60_000);
      expect(lab.linesOf("rollback")).toHaveLength(1);
    });
  });

  it.each(["mMaintenance", "maintenance"])("rolls back on request only once %s is removed", async (key) => {
    const lab = await rolledBack();
    lab.edit({ [key]: "NoResourceReconciliation" });
    requestRollback(lab);
    await lab.run();
    expect(lab.linesOf("rollback")).toEqual([]);
    lab.edit({ [key]: undefined });
    await lab.run();
    expect(lab.linesOf("rollback")).toEqual(["rollback m to 1"]);
    expect(lab.askedOfHelm).toEqual([""]);
  });

  it("is removed when it is switched off, and begins anew when it is on again", async () => {
    const lab = await rolledBack();
    lab.edit({ mEnabled: "false" });
    await lab.run();
    expect(lab.log).toContain("uninstall m");
    expect(view(lab)?.rollbackReason).toBeUndefined();
  });
});

it("a release that is not healthy in time makes one run for each revision", async () => {
  const lab = new EngineLab({ modules: [{ ...module(), onFailure: "rollback" }], ready: "healthy" });
  await lab.start();
  lab.log.length = 0;
  lab.askedOfHelm.length = 0;
  const revision = view(lab)?.release?.revision;
  const counts = { total: 1, current: 0, inProgress: 0, failed: 1, terminating: 0, unknown: 0 };
  const health = {
    status: "False",
    reason: "Unhealthy",
    message: "m",
    counts,
    ailments: [],
    revision,
  } as const;
  // An outage of what was healthy may have other causes than the revision.
  lab.state.recordModule("m", "healthAssessed", { ...health, isOutage: true });
  await lab.run(3_600_000);
  expect(lab.askedOfHelm).toEqual([]);
  lab.state.recordModule("m", "healthAssessed", health);
  await lab.run(3_600_000);
  expect(lab.askedOfHelm).toEqual(["unhealthy"]);
  expect(view(lab)?.lastRun?.cause).toEqual({ kind: "unhealthy" });
  expect(view(lab)?.unhealthy?.message).toBe("m");

  // The same, where nothing was ever good: that is reported as long as that revision is not healthy.
  lab.noWayBack = true;
  lab.edit({ m: "a: 2" });
  await lab.run();
  lab.state.recordModule("m", "healthAssessed", { ...health, revision: 2 });
  await lab.run(3_600_000);
  expect(view(lab)?.unhealthy?.message).toBe("m; there is no good revision to go back to");
  lab.state.recordModule("m", "healthAssessed", { ...health, revision: 2, status: "Unknown" });
  expect(view(lab)?.unhealthy?.message).toBe("m");
});
