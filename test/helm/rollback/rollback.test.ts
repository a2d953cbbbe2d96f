import { describe, expect, test } from "vitest";

import { decide, RELEASE_LABELS } from "../../../src/helm/index.ts";
import type { Reconciliation } from "../../../src/helm/types.ts";
import { GoodRevisions } from "../../../src/helm/rollback/good-revisions.ts";
import {
  computeHistoryMax,
  countFailedTries,
  findLastGoodRevision,
  findRejectionByUser,
  findRejectionOfFailed,
  resetCopiedLabels,
} from "../../../src/helm/rollback/revision-labels.ts";
import {
  countFailure,
  findRollbackTarget,
  markInstalledRevisionGood,
} from "../../../src/helm/rollback/rollback.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { forgetGoneKinds } from "../../../src/helm/objects/gone-kinds.ts";
import { readLiveObject } from "../../../src/helm/objects/live-objects.ts";
import { requireAdoptableRelease } from "../../../src/helm/release/adoption.ts";
import type { ReleaseMeta } from "../../../src/helm/release/revisions.ts";
import { ConnectionError } from "../../../src/kube/index.ts";
import { ManualClock } from "../../support/clock.ts";

// docs/reference/lifecycle.md, "Rollback".

type Words = "good" | "failed" | "unhealthy" | `tries ${number}`;

/** Inputs without what follows `@`, which stands for the helm binary. */
const contentOf = (inputs: string): string => inputs.split("@")[0] ?? "";

/** A revision: status, inputs (capital letters are what people give), and what else its labels say. */
function rev(at: string, inputs: string, ...words: Words[]): ReleaseMeta {
  const [revision = "", status = ""] = at.split(" ");
  const labels: Record<string, string> = {
    [RELEASE_LABELS.managedBy]: "us",
    [RELEASE_LABELS.inputs]: inputs,
    [RELEASE_LABELS.userInputs]: inputs.slice(0, 1),
    [RELEASE_LABELS.content]: contentOf(inputs),
  };
  for (const word of words) {
    if (word === "good") labels[RELEASE_LABELS.good] = "true";
    else if (word.startsWith("tries")) labels[RELEASE_LABELS.tries] = word.slice(6);
    else labels[RELEASE_LABELS.rejected] = word;
  }
  const secret = `m.v${revision}`;
  const meta = { name: "m", namespace: "ops", revision: Number(revision), status, labels };
  return { ...meta, secret, uid: secret, resourceVersion: "1" };
}

const good = rev("1 deployed", "G", "good");
const old = rev("1 superseded", "G", "good");
const rejected = rev("4 superseded", "X", "failed", "tries 3");
const back = rev("5 deployed", "G", "good");

type Case = [name: string, wanted: string, newestFirst: ReleaseMeta[]];

test.each<Case>([
  ["failed twice", "X: upgrade", [rev("3 failed", "X", "tries 2"), good]],
  ["rejected and not gone back yet", "X: rollback to 1", [rev("4 failed", "X", "failed", "tries 3"), good]],
  ["the same, and people changed something", "Y: upgrade", [rev("4 failed", "X", "failed", "tries 3"), good]],
  ["gone back", "X: stay", [back, rejected, old]],
  ["gone back, and there is another helm", "X@2: stay", [back, rejected, old]],
  ["the same, and the good one is wanted", "G@2: compare", [back, rejected, old]],
  ["gone back, the good one is wanted", "G: keep", [back, rejected, old]],
  ["gone back, people changed something", "Y: compare", [back, rejected, old]],
  ["gone back, hooks changed something", "X2: compare", [back, rejected, old]],
  ["as many of those failed", "X2: stay", [back, rev("4 superseded", "X9", "failed", "tries 6"), old]],
  [
    "the way back was interrupted",
    "X: rollback to 1",
    [rev("5 failed", "G", "good"), rev("4 superseded", "X", "failed", "tries 3"), good],
  ],
  ["not healthy in time", "X: rollback to 1", [rev("4 deployed", "X", "unhealthy", "tries 3"), old]],
  ["nothing is good", "X: upgrade", [rev("4 failed", "X", "failed", "tries 3"), rev("1 superseded", "G")]],
  ["other inputs were good since", "X: compare", [rev("6 deployed", "Y", "good"), back, rejected, old]],
])("%s", (_, wanted, revisions) => {
  const [inputs = "", act] = wanted.split(": ");
  const rejection = findRejectionOfFailed(revisions, inputs, {
    userInputsDigest: inputs.slice(0, 1),
    contentDigest: contentOf(inputs),
    retries: 3,
  });
  const decision = decide({
    release: revisions[0],
    inputsDigest: inputs,
    managedBy: "us",
    usesOnlyLookup: false,
    rejection,
  });
  const to = decision.act === "rollback" ? ` to ${decision.rejection.goodRevision.revision}` : "";
  expect(decision.act + to).toBe(act);
});

describe("the memory", () => {
  test("counts failures in a row with what people give, and those of hooks' values on", () => {
    expect(countFailedTries([rev("3 failed", "X", "tries 2"), good], "X")).toBe(2);
    expect(countFailedTries([back, rejected, old], "X")).toBe(3);
    expect(countFailedTries([rev("3 failed", "X", "tries 2"), good], "Y")).toBe(0);
    expect(countFailedTries([rev("3 deployed", "X", "tries 2"), old], "X")).toBe(0);
    expect(countFailedTries([], "X")).toBe(0);
  });

  test("takes no revision for good that failed, whatever its labels say", () => {
    expect(findLastGoodRevision([rev("5 failed", "G", "good"), rejected, old])?.revision).toBe(1);
    expect(findLastGoodRevision([rev("2 superseded", "Y")])).toBeUndefined();
  });

  test("hands nothing on to the next revision but the count", () => {
    const none = {
      [RELEASE_LABELS.good]: "null",
      [RELEASE_LABELS.userInputs]: "null",
      [RELEASE_LABELS.content]: "null",
    };
    expect(resetCopiedLabels(back, 0)).toEqual(none);
    expect(resetCopiedLabels(back, 3)).toEqual({ ...none, [RELEASE_LABELS.tries]: "3" });
    expect(resetCopiedLabels(rejected, 0)).toMatchObject({
      [RELEASE_LABELS.rejected]: "null",
      [RELEASE_LABELS.tries]: "null",
    });
    expect(resetCopiedLabels({ ...back, labels: {} }, 0)).toEqual({});
    expect(resetCopiedLabels({ ...back, labels: { moduleChecksum: "abc" } }, 0)).toEqual({
      moduleChecksum: "null",
    });
  });

  test("keeps as much history as reaches back to the good revision, and no more than 50", () => {
    expect(computeHistoryMax(10, [back, rejected, old])).toBe(10);
    expect(computeHistoryMax(1, [good])).toBe(3);
    expect(computeHistoryMax(3, [rev("9 failed", "X"), old])).toBe(11);
    expect(computeHistoryMax(3, [rev("900 failed", "X"), old])).toBe(50);
    expect(computeHistoryMax(0, [rev("900 failed", "X"), old])).toBe(0);
  });
});

describe("a revision that a user rolled back", () => {
  const byHand = (inputs: string, to: number): ReleaseMeta => {
    const meta = rev("4 superseded", inputs, "failed");
    const labels = { [RELEASE_LABELS.rejected]: "by-hand", [RELEASE_LABELS.rolledBackTo]: String(to) };
    return { ...meta, labels: { ...meta.labels, ...labels } };
  };
  const three = rev("3 superseded", "T", "good");

  test.each<[string, ReleaseMeta[], string]>([
    ["is not tried again: X", [rev("5 deployed", "T", "good"), byHand("X", 3), three, old], "stay at 3"],
    ["nor after hooks' changes: X", [rev("5 deployed", "T", "good"), byHand("X7", 3), three], "stay at 3"],
    ["until people change something: Y", [rev("5 deployed", "T", "good"), byHand("X", 3), three], "go on"],
    ["and the way back is carried on: X", [byHand("X", 1), three, old], "go to 1"],
    ["also after a failure of it: X", [rev("5 failed", "T", "good"), byHand("X", 3), three], "go to 3"],
    ["also to the same inputs: T", [rev("5 deployed", "T", "good"), byHand("T", 3), three], "stay at 3"],
    ["and others were installed since: X", [rev("6 deployed", "Y"), byHand("X", 3), three], "go on"],
  ])("%s", (what, revisions, wanted) => {
    const rejection = findRejectionByUser(revisions, what.slice(-1));
    const word = rejection?.isRolledBack === true ? "stay at" : "go to";
    expect(rejection === undefined ? "go on" : `${word} ${rejection.goodRevision.revision}`).toBe(wanted);
  });

  test("goes back to what was deployed and was not rejected, or to a given revision that was", () => {
    const revisions = [rev("6 deployed", "Y"), rev("5 failed", "Z"), byHand("X", 3), three, old];
    expect(findRollbackTarget(revisions, undefined).revision).toBe(3);
    expect(findRollbackTarget(revisions, 1).revision).toBe(1);
    for (const wanted of [9, 6, 5])
      expect(() => findRollbackTarget(revisions, wanted)).toThrow(
        `there is no revision ${wanted} to roll back to; choose one of 4, 3, 1`,
      );
  });

  test("has no way back where nothing was deployed before", () => {
    expect(() => findRollbackTarget([rev("1 deployed", "Y")], undefined)).toThrow("no earlier one is known");
  });
});

// A container that crashes is ready for a moment each time.
test("a module has to be healthy for a minute, without a break", async () => {
  const clock = new ManualClock();
  const proved: string[] = [];
  const store = {
    revisions: (name: string) => [{ ...rev("1 deployed", "Y"), name }],
    setLabels: ({ name }: ReleaseMeta) => Promise.resolve(void proved.push(name)),
  };
  const observed = { store, getOwnershipByLabels: () => "ours" };
  const tools = { clock, logger: silentLogger, onFailure: "rollback", observed };
  const proofs = new GoodRevisions(tools as unknown as ConstructorParameters<typeof GoodRevisions>[0]);
  const check = (module: string, isHealthy: boolean): void =>
    proofs.recordHealth({ name: module } as Reconciliation["request"]["module"], {
      status: isHealthy ? "True" : "False",
      revision: 1,
    });
  check("crashes", true);
  check("works", true);
  for (let restart = 0; restart < 5; restart++) {
    await clock.advance(20_000);
    check("crashes", false);
    await clock.advance(10);
    check("crashes", true);
  }
  expect(proved).toEqual(["works"]);
  check("works", false);
  await clock.advance(60_000);
  expect(proved).toEqual(["works", "crashes"]);
  check("ends", true);
  proofs.close();
  expect(clock.timers).toBe(0);
});

describe("what is in force as the next upgrade begins", () => {
  type Ailing = Reconciliation["request"]["unhealthy"];
  const marked = async (unhealthy: Ailing): Promise<number[]> => {
    const labelled: number[] = [];
    const store = {
      revisions: () => [rev("2 deployed", "Y"), old],
      setLabels: ({ revision }: ReleaseMeta) => Promise.resolve(void labelled.push(revision)),
    };
    const request = { module: { name: "m" }, unhealthy, signal: new AbortController().signal };
    const policy = { retries: 3, userInputsDigest: "Y", contentDigest: "Y" };
    await markInstalledRevisionGood({
      tools: { store, managedBy: "us" },
      request,
      policy,
    } as unknown as Reconciliation);
    return labelled;
  };
  test.each<[string, Ailing, number[]]>([
    ["healthy", undefined, [2]],
    ["not known to be healthy, such as kinds that cannot be judged", { status: "Unknown", message: "" }, [2]],
    ["on its way, and its Pods crash", { status: "Unknown", message: "", isFailing: true }, []],
    ["unhealthy", { status: "False", message: "" }, []],
    ["in an outage", { status: "False", message: "", isOutage: true }, []],
  ])("%s", async (_, unhealthy, revisions) => {
    expect(await marked(unhealthy)).toEqual(revisions);
  });
});

describe("a question without an answer, after helm has failed", () => {
  const noAnswer = (): Promise<never> => Promise.reject(new ConnectionError("ECONNREFUSED", "cut"));
  const ref = { apiVersion: "v1", kind: "ConfigMap", namespace: "ops", name: "web" };
  const failed = { ...rev("3 failed", "X"), labels: {} };
  const store = {
    revisions: () => [failed, good],
    readSummary: () => Promise.resolve({ objects: [ref], hooks: [] }),
    setLabels: (): never => {
      throw new Error("it was counted");
    },
  };
  const discovery = { invalidate: () => {}, resolve: noAnswer };
  const tools = { store, discovery, managedBy: "us", adopt: "all" } as unknown as Reconciliation["tools"];
  const { signal } = new AbortController();

  test.each<[string, () => Promise<unknown>]>([
    ["who owns an object", () => readLiveObject(tools, ref, signal)],
    ["which kinds are served", () => forgetGoneKinds(tools, { release: "m", revisions: [failed], signal })],
    [
      "who made the release",
      () => requireAdoptableRelease({ ...tools, store: { readSummary: noAnswer } as never }, failed),
    ],
  ])("is no failure of the revision: %s", async (_, ask) => {
    const failure: unknown = await ask().catch((error: unknown) => error);
    expect(String(failure)).toContain("cannot determine");
    const policy = { retries: 1, userInputsDigest: "X", contentDigest: "X" };
    const reconciliation = { tools, request: { module: { name: "m" }, signal }, policy, release: good };
    await expect(countFailure(reconciliation as Reconciliation, failure)).rejects.toBe(failure);
  });
});
