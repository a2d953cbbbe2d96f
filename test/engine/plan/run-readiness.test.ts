import { describe, expect, it } from "vitest";

import { explainRequirements, findRunBlocker } from "../../../src/engine/plan/index.ts";
import { requiredKey } from "../../../src/base/model/index.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { T0, basis, moduleView, release, viewOf } from "../../report/views.ts";

const retry = { reason: "HelmFailed", message: "no quota", failures: 1, since: T0, nextAt: T0 } as const;
const problem = { file: "values.yaml", message: "no YAML" };

const unhealthy = (status: "Unknown" | "False") => ({ status, reason: "Progressing", message: "m" });

/** A module that requires another one, which is as said. */
function requiring(range: string, change: Partial<ModuleView> | undefined) {
  const before = moduleView("a");
  const a = {
    ...before,
    blockedSince: T0,
    module: { ...before.module, requires: { modules: { b: range } } },
  };
  return { a, view: viewOf(change === undefined ? [a] : [a, moduleView("b", change)]) };
}

describe("what a module requires of another one", () => {
  it.each<[string, Partial<ModuleView> | undefined, string | undefined, string?]>([
    ["is Ready", {}, undefined],
    ["is of a version in the range", {}, undefined, ">=1 <2"],
    [
      "has another version in place",
      { release: release("b", { chartVersion: "2.1.0" }) },
      "Missing: is 2.1.0, not <2",
      "<2",
    ],
    [
      "ran with another version, which changed no object",
      { release: release("b", { chartVersion: "1.0.0" }), handled: basis({ version: "2.1.0" }) },
      undefined,
      ">=2",
    ],
    ["is no module", undefined, "Missing: does not exist"],
    ["is disabled", { enabled: false }, "Disabled: is disabled"],
    [
      "is off, and a person is needed",
      { enabled: false, problem },
      "Disabled: is disabled and requires action",
    ],
    ["requires action", { problem }, "NotReady: requires action"],
    ["never ran", { phase: "new" }, "NotReady: is not Ready"],
    ["is at work", { activity: "running" }, "NotReady: is not Ready"],
    ["failed", { retry }, "NotReady: is not Ready"],
    ["waits itself", { blockedSince: T0 }, "NotReady: is not Ready"],
    ["lacks objects", { missingObjects: ["n/Secret/s"] }, "NotReady: is not Ready"],
    ["has lost its release", { isReleaseChangedByHand: true }, "NotReady: is not Ready"],
    ["has a record that cannot be read", { releaseReadError: "it is cut" }, "NotReady: is not Ready"],
    ["is not healthy yet", { unhealthy: unhealthy("Unknown") }, "NotReady: is not healthy"],
    ["is not healthy", { unhealthy: unhealthy("False") }, "NotReady: is not healthy"],
    ["is suspended, and not healthy", { suspended: true, unhealthy: unhealthy("False") }, undefined],
    ["has an edit before it", { configDigest: "v1-c2" }, "NotReady: is not Ready"],
    ["has a request before it", { requestedToken: "t" }, "NotReady: is not Ready"],
    ["answered a request", { requestedToken: "t", handled: basis({ token: "t" }) }, undefined],
    [
      "was suspended before it was installed",
      { suspended: true, release: undefined },
      "NotReady: is suspended and not installed",
    ],
    ["is suspended without objects", { suspended: true, missingObjects: ["n/Secret/s"] }, undefined],
  ])("%s", (...[, change, expected, range = "*"]) => {
    const { a, view } = requiring(range, change);
    const wait = findRunBlocker(a, view);
    expect(wait && `${wait.reason.replace("Dependency", "")}: ${wait.message.replace("b, which ", "")}`).toBe(
      expected,
    );
    expect(explainRequirements(a, view).runBlocker?.message).toBe(
      wait && `waits for ${wait.message} (since 2026-01-01T00:00:00Z)`,
    );
  });

  it.each<[string, Partial<ModuleView>, string | undefined]>([
    ["no loss where it is at work", { activity: "running" }, undefined],
    ["no loss where an edit is before it", { configDigest: "v1-c2" }, undefined],
    ["a loss where it failed", { retry }, "it requires b, which is not Ready"],
    ["a loss where it is off", { enabled: false }, "it requires b, which is disabled"],
    ["a loss where it waits itself", { blockedSince: T0 }, "it requires b, which is not Ready"],
  ])("is %s", (_, change, expected) => {
    const { a, view } = requiring("*", change);
    expect(explainRequirements(a, view).lostRequirement?.message).toBe(expected);
    expect(explainRequirements({ ...a, phase: "new" }, view).lostRequirement).toBeUndefined();
    expect(explainRequirements({ ...a, enabled: false }, view).lostRequirement).toBeUndefined();
  });

  it.each<[string, { message?: string } | undefined, string | undefined]>([
    ["was not looked at", undefined, "ns/Secret/ca, which has not been checked yet"],
    ["is not as it should be", { message: "is not there" }, "ns/Secret/ca, which is not there"],
    ["is there", {}, undefined],
  ])("an object %s", (_, found, expected) => {
    const object = { apiVersion: "v1", kind: "Secret", namespace: "ns", name: "ca" };
    const before = moduleView("a");
    const a = { ...before, module: { ...before.module, requires: { objects: [object] } } };
    const objects = new Map(found && [[requiredKey(object), { message: found.message }]]);
    const view = viewOf([a], { objects });
    expect(findRunBlocker(a, view)?.message).toBe(expected);
    expect(findRunBlocker(a, view)?.reason).toBe(expected && "DependencyMissing");
    expect(explainRequirements(a, view).lostRequirement?.message).toBe(
      found?.message && `it requires ${expected ?? ""}`,
    );
  });

  it.each<[string, string | undefined, string, string | undefined]>([
    ["in the range", "v1.31.2", ">=1.30", undefined],
    ["of a vendor", "v1.31.2-gke.100", ">=1.31.2 <1.32", undefined],
    ["before a release", "v1.30.0-rc.1", ">=1.30", undefined],
    ["too old", "v1.29.9-eks-a1b2", ">=1.30", "is 1.29.9, not >=1.30"],
    ["unreadable", "none", ">=1.30", "is without a version, not >=1.30"],
    ["unknown as yet", undefined, ">=1.30", "has not been checked yet"],
  ])("a version of Kubernetes %s", (...[, serverVersion, kubernetes, expected]) => {
    const before = moduleView("a");
    const a = { ...before, module: { ...before.module, requires: { kubernetes } } };
    const view = viewOf([a], { serverVersion });
    const wait = expected && { reason: "DependencyMissing", message: `Kubernetes, which ${expected}` };
    expect(findRunBlocker(a, view)).toEqual(wait && { awaitedName: "Kubernetes", ...wait });
    expect(explainRequirements(a, view).lostRequirement?.message).toBe(
      wait && serverVersion && `it requires ${wait.message}`,
    );
  });

  it("is reported as one of several", () => {
    const before = moduleView("a");
    const modules = { b: "*", c: "*", d: "*" };
    const a = { ...before, module: { ...before.module, requires: { modules } } };
    expect(findRunBlocker(a, viewOf([a]))?.message).toBe("b, which does not exist and 2 more");
  });
});
