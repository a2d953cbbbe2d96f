import { expect, test } from "vitest";

import { NAMESPACES } from "../../src/kube/index.ts";
import type { Resource, WatchConsumer, WatchedObject } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { provesBroken, type VolumeBinding } from "../../src/kube/health/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import type { RevisionHealth } from "../../src/engine/state/index.ts";
import { KindWatches } from "../../src/releases/index.ts";
import { ReleaseHealth } from "../../src/releases/release-health.ts";
import type { WatchedRelease } from "../../src/releases/watched-release.ts";
import { PodWatches } from "../../src/releases/pod-watches.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { kindsOf } from "../support/kinds.ts";
import { manualHub } from "../support/watches.ts";
import { followedBy, FOLLOWED } from "./quiet-analyzers.ts";

const MINUTE = 60_000;
const common = { version: "v1", namespaced: true, verbs: ["list", "watch"] };
const KINDS: Readonly<Record<string, Resource>> = {
  Deployment: { ...common, group: "apps", plural: "deployments", kind: "Deployment" },
  StatefulSet: { ...common, group: "apps", plural: "statefulsets", kind: "StatefulSet" },
  DaemonSet: { ...common, group: "apps", plural: "daemonsets", kind: "DaemonSet" },
  ConfigMap: { ...common, group: "", plural: "configmaps", kind: "ConfigMap" },
  PersistentVolumeClaim: {
    ...common,
    group: "",
    plural: "persistentvolumeclaims",
    kind: "PersistentVolumeClaim",
  },
  Thing: { ...common, group: "example.com", plural: "things", kind: "Thing" },
  Blind: { ...common, group: "example.com", plural: "blinds", kind: "Blind", verbs: ["get"] },
  Namespace: NAMESPACES,
};

/** Watches in the hands of the test. */
function lab() {
  const clock = new ManualClock();
  const { hub, open } = manualHub();
  const kinds = new KindWatches({
    hub,
    clock,
    logger: silentLogger,
    kinds: kindsOf(clock, (kind) => KINDS[kind]),
  });
  const reported: (RevisionHealth | undefined)[] = [];
  const pods = new PodWatches(hub);
  /** What is known of each StorageClass. */
  const classes = new Map<string, VolumeBinding>();
  const releases = new Map<string, WatchedRelease>();
  const make = (): WatchedRelease =>
    followedBy(
      { kinds, clock },
      {
        health: new ReleaseHealth({
          kinds,
          pods,
          classes: { find: (name) => classes.get(name) },
          clock,
          onHealth: (each) => void reported.push(each),
        }),
      },
    );
  const of = (plural: string) =>
    open.filter(({ spec, closed }) => spec.resource.plural === plural && !closed);
  const consumer = (plural: string): WatchConsumer => {
    const [found] = of(plural);
    if (found === undefined) throw new Error(`nobody watches ${plural}`);
    return found.consumer;
  };
  const listed = async (plural: string, ...objects: JsonObject[]): Promise<void> => {
    await settle();
    for (const each of objects) void consumer(plural).onListed(each as WatchedObject);
    void consumer(plural).onSynced("1");
    await settle();
  };
  const applied = async (plural: string, object: JsonObject): Promise<void> => {
    void consumer(plural).onApplied(object as WatchedObject);
    await settle();
  };
  /** As `FollowedReleases` does. */
  let revision = 1;
  const follow = (module: string, ...objects: [kind: string, name: string][]): void => {
    const refs = objects.map(([kind, name]) => ({
      apiVersion: ["Deployment", "StatefulSet", "DaemonSet"].includes(kind) ? "apps/v1" : "v1",
      kind,
      namespace: "ns",
      name,
    }));
    const release = releases.get(module) ?? make();
    releases.set(module, release);
    release.watchRevision({ ...FOLLOWED, objects: refs, revision });
  };
  const last = () => reported.at(-1);
  const displayed = () => [last()?.status, last()?.reason, last()?.message];
  /** Helm has applied another revision. */
  const upgrade = (): void => void (revision += 1);
  /** A module has no release any more, or is off. */
  const end = (module: string): void => releases.get(module)?.close();
  return { clock, classes, upgrade, end, reported, of, consumer, listed, applied, follow, last, displayed };
}

interface Shape {
  readonly name?: string;
  readonly generation?: number;
  readonly available?: number;
  readonly conditions?: JsonObject[];
}

function deployment({
  name = "web",
  generation = 1,
  available = 0,
  conditions = [],
}: Shape = {}): JsonObject {
  const status = available === 3 ? "True" : "False";
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: "ns", uid: name, generation, annotations: revisionOf(generation) },
    spec: { replicas: 3, selector: { matchLabels: { app: name } } },
    status: {
      observedGeneration: generation,
      replicas: 3,
      updatedReplicas: 3,
      readyReplicas: available,
      availableReplicas: available,
      conditions: [...conditions, { type: "Available", status }],
    },
  };
}

/** What the controller notes on a Deployment and on the ReplicaSet of that revision. */
function revisionOf(number: number): JsonObject {
  return { "deployment.kubernetes.io/revision": String(number) };
}

const ownedBy = (uid: string): JsonObject => ({ ownerReferences: [{ uid, controller: true }] });

/** The ReplicaSet of that revision of a Deployment. */
function replicaSet(revision: number, of = "web"): JsonObject {
  const name = `${of}-${revision}`;
  const annotations = revisionOf(revision);
  return { metadata: { name, uid: name, namespace: "ns", annotations, ...ownedBy(of) } };
}

const map = (name: string, more: JsonObject = {}): JsonObject => ({
  metadata: { name, namespace: "ns", ...more },
});

/** A Pod that crashes. */
function pod(
  name: string,
  restartCount: number,
  { owner, labels = {} }: { readonly owner: string; readonly labels?: JsonObject },
): JsonObject {
  const state = { waiting: { reason: "CrashLoopBackOff" } };
  const lastState = { terminated: { exitCode: 1, reason: "Error" } };
  const status = { phase: "Running", containerStatuses: [{ state, lastState, restartCount }] };
  return { metadata: { name, namespace: "ns", labels, ...ownedBy(owner) }, status };
}

test("a release is healthy once all its objects are Current; whole objects come only where there is a status", async () => {
  const { follow, listed, displayed, last, of, clock } = lab();
  follow("a", ["Deployment", "web"], ["ConfigMap", "conf"]);
  await listed("configmaps", map("conf"));
  await clock.advance(999);
  expect(last()).toBeUndefined();
  await clock.advance(1);
  expect(displayed()).toEqual(["Unknown", "NotLookedAt", "Deployment ns/web: has not been checked yet"]);
  await listed("deployments", deployment({ available: 3 }));
  expect(displayed()).toEqual(["True", "Healthy", "All objects are healthy (2)"]);
  const counts = { total: 2, current: 2, inProgress: 0, failed: 0, terminating: 0, unknown: 0 };
  expect(last()).toMatchObject({ ailments: [], counts });
  expect([...of("configmaps"), ...of("deployments")].map(({ spec }) => spec.metadataOnly)).toEqual([
    true,
    false,
  ]);
});

test("a rollout is under way until the time-out, a new generation has its own", async () => {
  const { follow, listed, applied, displayed, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment());
  const underWay = ["Unknown", "Progressing", "Deployment ns/web: 0 of 3 replicas available"];
  expect(displayed()).toEqual(underWay);
  await clock.advance(4 * MINUTE);
  expect(displayed()).toEqual(underWay);
  await applied("deployments", deployment({ generation: 2 }));
  await clock.advance(5 * MINUTE - 1);
  expect(displayed()).toEqual(underWay);
  await clock.advance(1);
  expect(displayed()).toEqual(["False", "Unhealthy", "Deployment ns/web: 0 of 3 replicas available"]);
  await applied("deployments", deployment({ generation: 2, available: 3 }));
  expect(displayed()[0]).toBe("True");
});

test("a Deployment that was well and becomes unavailable is not healthy at once, and well again at once", async () => {
  const { follow, listed, applied, displayed, clock, of } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment({ available: 3 }));
  await applied("deployments", deployment({ available: 1 }));
  expect(displayed()).toEqual(["False", "Unhealthy", "Deployment ns/web: 1 of 3 replicas available"]);
  expect(of("pods")).toEqual([]);
  await clock.advance(1000);
  expect(of("pods").map(({ spec }) => [spec.namespace, spec.labelSelector])).toEqual([["ns", "app=web"]]);
  await listed("replicasets", replicaSet(1));
  await listed("pods", pod("web-7d", 1, { owner: "web-1" }));
  await clock.advance(500);
  const message = "1 of 3 replicas available; Pod web-7d: CrashLoopBackOff: exit code 1";
  expect(displayed()[2]).toBe(`Deployment ns/web: ${message}`);
  await applied("deployments", deployment({ available: 3 }));
  expect(displayed()[0]).toBe("True");
  expect(of("pods")).toEqual([]);
});

const IN_THE_WAY = "; delete Pod web-1: its StatefulSet waits for it before it creates the next one";
test.each([
  { what: "of a revision that is not wanted any more", revision: "web-old", remedy: IN_THE_WAY },
  { what: "of the revision that is wanted", revision: "web-new", remedy: "" },
  { what: "that is replaced side by side with others", revision: "web-old", policy: "Parallel", remedy: "" },
])("a broken Pod $what: what is told", async ({ revision, policy = "OrderedReady", remedy }) => {
  const { follow, listed, displayed, clock } = lab();
  follow("a", ["StatefulSet", "web"]);
  const set = {
    metadata: { name: "web", namespace: "ns", uid: "web", generation: 3 },
    spec: { replicas: 2, podManagementPolicy: policy, selector: { matchLabels: { app: "web" } } },
    status: { observedGeneration: 3, replicas: 2, readyReplicas: 1, updateRevision: "web-new" },
  };
  await listed("statefulsets", { apiVersion: "apps/v1", kind: "StatefulSet", ...set });
  await clock.advance(1000);
  await listed("pods", pod("web-1", 1, { owner: "web", labels: { "controller-revision-hash": revision } }));
  await clock.advance(500);
  const reported = "StatefulSet ns/web: 1 of 2 replicas ready; Pod web-1: CrashLoopBackOff: exit code 1";
  expect(displayed()).toEqual(["Unknown", "Progressing", reported + remedy]);
});

test("a Pod that has crashed too often, and a deadline that is over, are not waited for", async () => {
  const { follow, listed, applied, displayed, clock, last } = lab();
  follow("a", ["Deployment", "web"], ["Deployment", "api"]);
  await listed("deployments", deployment(), deployment({ name: "api", available: 3 }));
  await clock.advance(1000);
  await listed("replicasets", replicaSet(1));
  await listed("pods", pod("web-7d", 3, { owner: "web-1" }));
  await clock.advance(500);
  expect(displayed()[0]).toBe("Unknown");
  await applied("pods", pod("web-7d", 4, { owner: "web-1" }));
  expect(displayed()[0]).toBe("False");
  const conditions = [{ type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded" }];
  await applied("deployments", deployment({ name: "api", available: 2, conditions }));
  await clock.advance(500);
  expect(last()?.ailments.map(({ object, status }) => [object, status])).toEqual([
    ["ns/Deployment/web", "InProgress"],
    ["ns/Deployment/api", "Failed"],
  ]);
});

const UNREADABLE =
  /^Thing ns\/t: status is no object; add to health.checks in addon.yaml what makes a Thing /;

test("what cannot be assessed is unknown, and says why", async () => {
  const { follow, listed, displayed, consumer } = lab();
  follow("a", ["Thing", "t"]);
  await listed("things", { ...map("t"), kind: "Thing", status: "odd" });
  expect(displayed()).toEqual(["Unknown", "Unreadable", expect.stringMatching(UNREADABLE)]);
  follow("b", ["Blind", "x"]);
  await settle();
  expect(displayed()).toEqual([
    "Unknown",
    "NotWatched",
    "Blind ns/x: cannot be watched: the server does not offer it",
  ]);
  follow("c", ["Namespace", "n"]);
  await settle();
  consumer("namespaces").onError?.(new Error("forbidden"));
  expect(displayed()).toEqual(["Unknown", "NotWatched", "Namespace n: cannot be watched: forbidden"]);
  follow("d", ["Strange", "s"]);
  await settle();
  expect(displayed()[2]).toBe("Strange ns/s: cannot be watched: the server does not know its kind");
});

test("while the watch is cut, what was found stays; what is found after it counts", async () => {
  const { follow, listed, applied, displayed, consumer, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment());
  consumer("deployments").onError?.(new Error("connection refused"));
  expect(displayed()[1]).toBe("Progressing");
  consumer("deployments").onError?.(undefined);
  await applied("deployments", deployment({ available: 3 }));
  await clock.advance(1000);
  expect(displayed()[0]).toBe("True");
});

test("while the watch is cut, no time limit runs out, and after a minute nothing is known", async () => {
  const { follow, listed, displayed, last, consumer, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment());
  const cut = (): void => consumer("deployments").onError?.(new Error("connection refused"));
  cut();
  await clock.advance(MINUTE - 1);
  cut();
  expect(displayed()[1]).toBe("Progressing");
  await clock.advance(10 * MINUTE);
  cut();
  expect(displayed().slice(0, 2)).toEqual(["Unknown", "NotWatched"]);
  expect(provesBroken(last())).toBe(false);
  // What is seen again has taken too long by now.
  consumer("deployments").onError?.(undefined);
  expect(displayed().slice(0, 2)).toEqual(["False", "Unhealthy"]);
});

test("while the watch is cut, what was healthy is not called so for long", async () => {
  const { follow, listed, displayed, consumer, clock } = lab();
  follow("a", ["ConfigMap", "conf"]);
  await listed("configmaps", map("conf"));
  const cut = (): void => consumer("configmaps").onError?.(new Error("connection refused"));
  cut();
  expect(displayed()[0]).toBe("True");
  await clock.advance(MINUTE);
  cut();
  expect(displayed().slice(0, 2)).toEqual(["Unknown", "NotWatched"]);
});

const PROVISIONER = "volume.kubernetes.io/storage-provisioner";
const SELECTED = "volume.kubernetes.io/selected-node";
const LATE = { isLate: true };

interface Claim {
  readonly binding?: VolumeBinding;
  readonly annotations?: JsonObject;
  readonly phase?: string;
}

test.each<[string, Claim, displayed: string]>([
  ["of a class that waits for the first Pod", { binding: LATE }, "True Healthy"],
  [
    "of such a class, for which a node is chosen",
    { binding: LATE, annotations: { [SELECTED]: "n" } },
    "False Unhealthy",
  ],
  [
    "of such a class, whose volume is created",
    { binding: LATE, annotations: { [PROVISIONER]: "x" } },
    "False Unhealthy",
  ],
  ["of such a class, whose volume is lost", { binding: LATE, phase: "Lost" }, "False Unhealthy"],
  ["of a class that binds at once", { binding: { isLate: false } }, "False Unhealthy"],
  ["of a class that is not read yet", {}, "Unknown Progressing"],
  ["of a class that cannot be read", { binding: { why: "forbidden" } }, "Unknown ClassUnknown"],
])("a claim %s, after a long time", async (_, claim, expected) => {
  const { binding, annotations = {}, phase = "Pending" } = claim;
  const { follow, listed, displayed, classes, clock } = lab();
  if (binding !== undefined) classes.set("late", binding);
  follow("a", ["PersistentVolumeClaim", "data"]);
  await listed("persistentvolumeclaims", {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data", namespace: "ns", annotations },
    spec: { storageClassName: "late" },
    status: { phase },
  });
  await clock.advance(10 * MINUTE);
  expect(displayed().slice(0, 2).join(" ")).toBe(expected);
});

test("what is installed, or has no spec, is healthy as soon as it is seen", async () => {
  const { follow, listed, applied, displayed, last, upgrade, clock } = lab();
  const start = clock.now();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment({ available: 3 }));
  expect(displayed()[0]).toBe("True");
  follow("b", ["ConfigMap", "conf"]);
  await listed("configmaps", map("conf"));
  expect(displayed()[0]).toBe("True");
  upgrade();
  follow("b", ["ConfigMap", "conf"]);
  await applied("configmaps", map("conf"));
  expect(last()?.revision).toBe(2);
  expect(clock.now() - start).toBe(0);
});

test("a revision is not healthy by what was seen before it", async () => {
  const { follow, listed, applied, displayed, last, upgrade, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment({ available: 3 }));
  await clock.advance(1000);
  upgrade();
  follow("a", ["Deployment", "web"]);
  await clock.advance(999);
  expect(last()?.revision).toBe(1);
  await applied("deployments", deployment({ generation: 2 }));
  expect(displayed()[2]).toBe("Deployment ns/web: 0 of 3 replicas available");
  expect(last()?.revision).toBe(2);
});

test("a release without objects is healthy", async () => {
  const { follow, displayed, clock } = lab();
  follow("a");
  await clock.advance(1000);
  expect(displayed()[0]).toBe("True");
});

test("an object that is gone or going is under way", async () => {
  const { follow, listed, applied, displayed, consumer, clock } = lab();
  follow("a", ["ConfigMap", "conf"]);
  await listed("configmaps", map("conf"));
  await clock.advance(1000);
  await applied("configmaps", map("conf", { deletionTimestamp: "2026-01-01T00:00:00Z" }));
  expect(displayed()).toEqual(["Unknown", "Progressing", "ConfigMap ns/conf: is being deleted"]);
  void consumer("configmaps").onDeleted(map("conf") as WatchedObject, true);
  await clock.advance(60 * MINUTE);
  expect(displayed()).toEqual(["Unknown", "Progressing", "ConfigMap ns/conf: is not there"]);
});

test("a release that goes has no health; a rollout is reported twice a second at most", async () => {
  const { follow, end, listed, applied, reported, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment());
  const before = reported.length;
  for (let step = 0; step < 100; step += 1) {
    await applied("deployments", deployment({ available: step % 3 }));
    await clock.advance(10);
  }
  expect(reported.length - before).toBeLessThanOrEqual(3);
  end("a");
  expect(clock.timers).toBe(0);
});

test("Pods of twenty workloads are watched at a time, and of those a hundred at most are kept", async () => {
  const { follow, listed, applied, of, clock, displayed } = lab();
  const names = Array.from({ length: 30 }, (_, index) => `web-${index}`);
  follow("a", ...names.map((name): [string, string] => ["Deployment", name]));
  await listed("deployments", ...names.map((name) => deployment({ name })));
  await clock.advance(1000);
  expect(of("pods")).toHaveLength(20);
  await applied("deployments", deployment({ name: "web-0", available: 3 }));
  expect(of("pods")).toHaveLength(20);
  expect(of("pods").at(-1)?.spec.labelSelector).toBe("app=web-20");
  await listed("replicasets", replicaSet(1, "web-1"));
  const crowd = Array.from({ length: 5000 }, (_, index) => pod(`old-${index}`, 1, { owner: "web-1-0" }));
  await listed("pods", ...crowd, pod("p-0", 1, { owner: "web-1-1" }));
  await clock.advance(500);
  expect(displayed()[2]).toContain("Pod p-0: CrashLoopBackOff");
});

test("a status lists twenty ailing objects, and counts all", async () => {
  const { follow, listed, last } = lab();
  const names = Array.from({ length: 50 }, (_, index) => `web-${index}`);
  follow("a", ...names.map((name): [string, string] => ["Deployment", name]));
  await listed("deployments", ...names.map((name) => deployment({ name })));
  expect(last()?.ailments).toHaveLength(20);
  expect(last()?.counts).toMatchObject({ total: 50, inProgress: 50 });
});

test("Pods of the ReplicaSet before, and of others that the selector finds, say nothing of the wanted revision", async () => {
  const { follow, listed, applied, displayed, last, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment({ generation: 2 }));
  await clock.advance(1000);
  await listed("pods", pod("web-old", 90, { owner: "web-1" }), pod("other", 90, { owner: "other-7" }));
  await listed("replicasets", replicaSet(1), replicaSet(2), replicaSet(2, "other"));
  await clock.advance(500);
  expect(displayed()).toEqual(["Unknown", "Progressing", "Deployment ns/web: 0 of 3 replicas available"]);
  expect(last()?.isFailing).toBeUndefined();
  await applied("pods", pod("web-new", 1, { owner: "web-2" }));
  await clock.advance(500);
  const reported = "0 of 3 replicas available; Pod web-new: CrashLoopBackOff: exit code 1";
  expect(displayed()).toEqual(["Unknown", "Progressing", `Deployment ns/web: ${reported}`]);
  expect(last()?.isFailing).toBe(true);
  await applied("pods", pod("web-new", 4, { owner: "web-2" }));
  expect(displayed()[0]).toBe("False");
  // The next revision: until its ReplicaSet is seen, no Pod counts.
  await applied("deployments", deployment({ generation: 3 }));
  await clock.advance(500);
  expect(displayed()).toEqual(["Unknown", "Progressing", "Deployment ns/web: 0 of 3 replicas available"]);
});

test.each([
  { kind: "StatefulSet", label: "controller-revision-hash", wanted: "web-new", old: "web-old" },
  { kind: "DaemonSet", label: "pod-template-generation", wanted: "7", old: "6" },
])(
  "of a $kind, Pods whose label $label is another one are not held against it",
  async ({ kind, label, wanted, old }) => {
    const { follow, listed, applied, displayed, clock } = lab();
    follow("a", [kind, "web"]);
    const plural = `${kind.toLowerCase()}s`;
    await listed(plural, {
      apiVersion: "apps/v1",
      kind,
      metadata: {
        name: "web",
        namespace: "ns",
        uid: "web",
        generation: 7,
        annotations: { "deprecated.daemonset.template.generation": "7" },
      },
      spec: { replicas: 2, selector: { matchLabels: { app: "web" } } },
      status: { observedGeneration: 7, updateRevision: "web-new", desiredNumberScheduled: 2 },
    });
    await clock.advance(1000);
    await listed("pods", pod("web-0", 90, { owner: "web", labels: { [label]: old } }));
    await clock.advance(500);
    expect(displayed()[0]).toBe("Unknown");
    await applied("pods", pod("web-1", 90, { owner: "web", labels: { [label]: wanted } }));
    await clock.advance(500);
    expect(displayed()[0]).toBe("False");
  },
);

test("a loss shows at once, and is held against the revision only once it lasts for the whole time limit", async () => {
  const { follow, listed, applied, last, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment({ available: 3 }));
  await applied("deployments", deployment({ available: 0 }));
  expect(last()).toMatchObject({ status: "False", isOutage: true });
  await clock.advance(5 * MINUTE - 1);
  expect(last()).toMatchObject({ status: "False", isOutage: true });
  await clock.advance(1);
  expect(last()).toMatchObject({ status: "False" });
  expect(last()?.isOutage).toBeUndefined();
});

test("what lasts is measured by the monotonic clock, whatever the wall clock is set to", async () => {
  const { follow, listed, displayed, clock } = lab();
  follow("a", ["Deployment", "web"]);
  await listed("deployments", deployment());
  clock.setWall(48 * 60 * MINUTE);
  await clock.advance(5 * MINUTE - 1);
  expect(displayed()[0]).toBe("Unknown");
  clock.setWall(-96 * 60 * MINUTE);
  await clock.advance(1);
  expect(displayed()[0]).toBe("False");
});
