import { describe, expect, it } from "vitest";

import type { Module } from "../../../src/base/model/index.ts";
import { newModuleRecord, problemOf } from "../../../src/engine/state/index.ts";
import type { Enablement, ModuleRecord, RunRecord } from "../../../src/engine/state/index.ts";
import { applyEvent } from "../../../src/engine/state/module-events.ts";
import { getReleaseVersion, isReleaseChangedByHand } from "../../../src/engine/state/module-records.ts";
import { NEVER_RAN } from "../../../src/engine/state/run-record.ts";
import { basis, release } from "../../report/views.ts";

const problem = (message: string) => ({ file: "f", message });

function record(change: Partial<ModuleRecord> = {}): ModuleRecord {
  const module = { name: "m", problem: undefined } as unknown as Module;
  return { ...newModuleRecord(module), ...change };
}

/** What is to be expected of its runs. */
const runs = (change: Partial<RunRecord>) => ({ run: { ...NEVER_RAN, ...change } });

describe("whether a release was moved by hand", () => {
  const settled = runs({ phase: "ready", leftRevision: 3 });
  it.each<readonly [string, Partial<ModuleRecord>, boolean]>([
    ["as we left it", { ...settled, release: release("m") }, false],
    ["deleted", { ...settled, release: undefined }, true],
    ["rolled back: a newer revision", { ...settled, release: release("m", { revision: 4 }) }, true],
    ["our revision failed", { ...settled, release: release("m", { status: "failed" }) }, true],
    [
      "our revision is being uninstalled",
      { ...settled, release: release("m", { status: "uninstalling" }) },
      true,
    ],
    [
      "our revision's record was deleted: the newest is superseded",
      { ...settled, release: release("m", { revision: 2, status: "superseded" }) },
      true,
    ],
    // A watch that lags behind our own run.
    ["an older revision, deployed", { ...settled, release: release("m", { revision: 2 }) }, false],
    ["no run of ours yet", { ...runs({ phase: "ready" }), release: release("m") }, false],
    [
      "no run of ours has ended yet",
      { ...runs({ phase: "onStartup", leftRevision: 3 }), release: undefined },
      false,
    ],
  ])("%s", (_what, change, moved) => {
    expect(isReleaseChangedByHand(record(change))).toBe(moved);
  });
});

describe("the version of the installed chart", () => {
  const attempted = basis({ version: "2.0.0" });
  const applied = (outcome: { revision?: number; rollbackReason?: string }) => {
    const { revision = 3, rollbackReason } = outcome;
    const before = record({ ...runs({ phase: "ready", attempted }), release: release("m") });
    const { run } = applyEvent(before, basis, [
      "releaseApplied",
      { release: release("m", { revision }), rollbackReason },
    ]);
    return run;
  };
  it.each<readonly [string, Partial<ModuleRecord>, string | undefined]>([
    ["helm has no release", {}, undefined],
    ["before the first run: of the release", { release: release("m") }, "1.2.0"],
    ["an update without new objects: of the update", { run: applied({}), release: release("m") }, "2.0.0"],
    [
      "kept back: of the release",
      { run: applied({ rollbackReason: "unhealthy" }), release: release("m") },
      "1.2.0",
    ],
    [
      "changed by hand: of the release",
      { run: applied({}), release: release("m", { revision: 4, chartVersion: "1.0.0" }) },
      "1.0.0",
    ],
    [
      "helm's record is not read yet: none, as its time",
      { run: applied({}), release: release("m", { chartVersion: undefined }) },
      undefined,
    ],
  ])("%s", (_what, change, version) => {
    const { run, release: current } = record(change);
    const isChanged = isReleaseChangedByHand(record(change));
    const view = { ...run, release: current, isReleaseChangedByHand: isChanged };
    expect(getReleaseVersion(view)).toBe(version);
  });
});

describe("what requires action", () => {
  it.each<readonly [string, Partial<ModuleRecord>, string | undefined]>([
    ["nothing", {}, undefined],
    ["a decision that cannot be carried out", { decisionProblem: problem("decision") }, "decision"],
    [
      "hooks before decisions",
      { decisionProblem: problem("decision"), loadProblem: problem("hooks") },
      "hooks",
    ],
    [
      "files before hooks",
      { loadProblem: problem("hooks"), module: { problem: problem("files") } as unknown as Module },
      "files",
    ],
  ])("%s", (_what, change, message) => {
    expect(problemOf(record(change))?.message).toBe(message);
  });
});

describe("what a decision of discovery does to the record", () => {
  const script = { reason: "ScriptFailed", message: "no", failures: 2, since: 0 } as const;
  const helm = { ...script, reason: "HelmFailed" } as const;
  const on: Enablement = { enabled: true, by: "configmap" };
  const off: Enablement = { enabled: false, by: "script", reason: "no GPU" };
  const ready = { phase: "ready", leftRevision: 3, handled: { section: "s" } } as const;
  const ran = { enabled: true, ...runs(ready) };
  /** Nothing is left to run: the configuration of now is handled. */
  const handledNow = runs({ ...ready, handled: { section: "v1-s1", config: "v1-c1" } });
  const retried = (retry: RunRecord["retry"]) => ({ ...ran, ...runs({ ...ready, retry }) });
  it.each<readonly [string, Partial<ModuleRecord>, Enablement, Partial<ModuleRecord>]>([
    ["on, stays on: its runs count", ran, on, { ...ran, enabledBy: "configmap", isDiscovered: true }],
    [
      "on, goes off: watches and release are still to go",
      ran,
      off,
      { enabled: false, enabledBy: "script", enabledReason: "no GPU", ...handledNow },
    ],
    [
      "off, comes on: a first run is owed",
      { ...ran, enabled: false },
      on,
      { enabled: true, ...runs({ handled: ready.handled }) },
    ],
    ["a failing script was mended", retried(script), on, ran],
    ["a failing run is not", retried(helm), on, retried(helm)],
    ["a failing run of a module that goes off is over", retried(helm), off, handledNow],
    [
      "a contradiction",
      ran,
      { ...off, problem: problem("protected") },
      { enabled: false, decisionProblem: problem("protected") },
    ],
    [
      "a contradiction solved",
      { ...ran, decisionProblem: problem("protected") },
      on,
      { decisionProblem: undefined },
    ],
  ])("%s", (...[_what, before, decision, after]) => {
    expect(applyEvent(record(before), basis, ["enablementDecided", decision])).toMatchObject(after);
  });

  it("a module that starts over forgets what its first run had done, and keeps what people asked", () => {
    const before = record({
      enabled: true,
      ...runs({ ...ready, retry: helm, rounds: 3 }),
      missingObjects: ["x"],
      synchronizedBindings: new Set(["h/k0"]),
      requestedToken: "t",
    });
    const run = { ...NEVER_RAN, handled: ready.handled };
    const after = applyEvent(before, basis, ["releaseDeleted"]);
    expect(after).toEqual({ ...record(), enabled: true, run, requestedToken: "t" });
  });
});
