// Runs at night: faults.
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

import * as kube from "../../src/kube/index.ts";
import type { Clock } from "../../src/base/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { Hook, HookTask, JsonObject, SnapshotItem } from "../../src/base/model/index.ts";
import { KubeBindings } from "../../src/hooks/bindings/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { binding, hookOf } from "../hooks/build.ts";

/** Everything that takes minutes takes seconds: silence is noticed after 3 s, back-off ends at 0.2 s. */
const FASTER = 50;
const fastClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * FASTER,
  setTimer: (ms, fn) => systemClock.setTimer(ms / FASTER, fn),
};

interface Item extends JsonObject {
  metadata: { name: string; uid: string; resourceVersion: string };
}

const objectOf = (item: SnapshotItem): Item => item.object as Item;
const versionOf = ({ metadata }: Item): string =>
  `${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`;

let namespace = "";
let proxy: FaultProxy;
let admin: kube.KubeClient;
let log: { event: string; name: string; object: Item }[] = [];

beforeEach(async () => {
  namespace = await freshNamespace("watch");
  proxy = await FaultProxy.open(cluster().kubeconfig);
  onTestFinished(() => proxy.close());
  admin = kube.connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  onTestFinished(() => admin.close());
  log = [];
});

const hook = (name: string): Hook =>
  hookOf(name, [
    binding({ kind: "cm", labelSelector: { matchLabels: { mine: "yes" } }, namespaces: [namespace] }),
  ]);

function bindings(): KubeBindings {
  const client = kube.connect({ kubeConfig: proxy.kubeconfig, userAgent: "test", logger: silentLogger });
  const hub = new kube.WatchHub({ client, clock: fastClock, logger: silentLogger });
  const offer = (_: string, { trigger }: HookTask): void => {
    if (trigger.type !== "event") return;
    const { watchEvent, name, item } = trigger.event;
    log.push({ event: watchEvent, name, object: objectOf(item) });
  };
  const filters = { compile: () => Promise.reject(new Error("no filters here")) };
  const kinds = new kube.KindFinder({ hub, discovery: new kube.Discovery(client), clock: fastClock });
  const around = { queues: { offer }, clock: fastClock, logger: silentLogger };
  const made = new KubeBindings({ hub, kinds, filters, ...around });
  onTestFinished(async () => {
    made.close();
    hub.close();
    await client.close();
  });
  return made;
}

const at = (name?: string): { resource: kube.Resource; namespace: string; name?: string } => ({
  resource: kube.CONFIG_MAPS,
  namespace,
  ...(name === undefined ? {} : { name }),
});

const path = (name?: string): string => kube.pathOf(kube.CONFIG_MAPS, at(name));
const metadata = (name: string): object => ({ name, labels: { mine: "yes" } });
const make = (name: string): Promise<Item> =>
  admin.json<Item>({ method: "POST", path: path(), body: { metadata: metadata(name), data: { n: "0" } } });
const change = (name: string, n: number): Promise<Item> =>
  admin.json<Item>({
    method: "PATCH",
    path: path(name),
    contentType: "application/merge-patch+json",
    body: { data: { n: String(n) } },
  });
const drop = (name: string): Promise<Item> => admin.json<Item>({ method: "DELETE", path: path(name) });

/** Eight writes; returns what a hook has to be told of them, in order. */
async function churn(prefix: string): Promise<string[]> {
  await make(`${prefix}-a`);
  await make(`${prefix}-b`);
  await change(`${prefix}-a`, 1);
  await change(`${prefix}-b`, 1);
  await drop(`${prefix}-b`);
  await make(`${prefix}-b`);
  await change(`${prefix}-a`, 2);
  await drop(`${prefix}-a`);
  const steps = [
    "Added a",
    "Added b",
    "Modified a",
    "Modified b",
    "Deleted b",
    "Added b",
    "Modified a",
    "Deleted a",
  ];
  return steps.map((step) => step.replace(" ", ` ${prefix}-`));
}

const reported = (): string[] => log.map(({ event, name }) => `${event} ${name}`);

/** Snapshot and server agree. */
async function expectTruth(made: KubeBindings, of: Hook): Promise<void> {
  const query = { labelSelector: "mine=yes" };
  await eventually(async () => {
    const { items } = await cluster().json<{ items: Item[] }>([
      "get",
      "cm",
      "-n",
      namespace,
      "-l",
      query.labelSelector,
    ]);
    const snapshot = made.snapshots(of).byBindingName("maps").map(objectOf);
    expect(snapshot.map(versionOf)).toEqual(items.map(versionOf).toSorted());
  }, "snapshot as the server has it");
}

/** No version of an object was reported twice as a change, and events lead from nothing to nothing but the truth. */
function expectSound(existing: readonly string[] = []): void {
  const alive = new Set(existing);
  for (const { event, name } of log) {
    expect(alive.has(name), `${event} ${name}`).toBe(event !== "Added");
    if (event === "Deleted") alive.delete(name);
    else alive.add(name);
  }
  const changes = log.filter(({ event }) => event !== "Deleted").map(({ object }) => versionOf(object));
  expect(changes).toEqual([...new Set(changes)]);
}

async function following(): Promise<{ made: KubeBindings; of: Hook }> {
  await make("old");
  const made = bindings();
  const of = hook("h");
  await made.enable(of);
  made.unlock(of);
  await eventually(() => expect(proxy.watches).toBe(1), "a watch");
  return { made, of };
}

const onWatch = ({ watch, path }: { watch: boolean; path: string }): boolean =>
  watch && path.endsWith("configmaps");
const onList = ({ watch, path }: { watch: boolean; path: string }): boolean =>
  !watch && path.endsWith("configmaps");

describe("while the connection fails, no event is lost and none told twice", () => {
  const faults: [string, () => Promise<void> | void, (() => Promise<void>)?][] = [
    ["nothing is wrong", () => {}],
    ["a cut", () => proxy.cut()],
    ["half an event and a cut", () => proxy.halveNext()],
    ["silence", () => proxy.silence()],
    ["a server that is away", () => proxy.refuse(), () => proxy.accept()],
    [
      "429 on the watch",
      () => {
        proxy.answer(onWatch, { status: 429, reason: "TooManyRequests", retryAfterSeconds: 1 }, 2);
        proxy.cut();
      },
    ],
    [
      "a storm of 500",
      () => {
        proxy.answer(onWatch, { status: 500, reason: "InternalError" }, 8);
        proxy.cut();
      },
    ],
    [
      "an ERROR event that is no 410",
      () => {
        proxy.answer(onWatch, { status: 500, reason: "InternalError", asFrame: true }, 3);
        proxy.cut();
      },
    ],
  ];
  test.each(faults)("%s", async (_, strike, fix) => {
    const { made, of } = await following();
    const expected = await churn("one");
    await eventually(() => expect(reported()).toEqual(expected), "events told");
    await strike();
    expected.push(...(await churn("two")));
    await fix?.();
    await eventually(() => expect(reported()).toEqual(expected), "events told");
    await expectTruth(made, of);
    expectSound();
    expect(proxy.due).toBe(0);
  });

  test("a change every moment, and a cut again and again", async () => {
    const { made, of } = await following();
    const expected: string[] = [];
    for (let round = 0; round < 10; round++) {
      const writes = churn(`r${round}`);
      if (round % 2 === 0) proxy.halveNext();
      else proxy.cut();
      expected.push(...(await writes));
    }
    await eventually(() => expect(reported()).toEqual(expected), "events told");
    expect(proxy.struck).toBeGreaterThan(0);
    await expectTruth(made, of);
    expectSound();
  });
});

describe("when the version is too old, the differences are reported", () => {
  test.each([
    ["as an answer", false],
    ["as an ERROR event", true],
  ])("410 on the watch %s", async (_, asFrame) => {
    const { made, of } = await following();
    await make("kept");
    await eventually(() => expect(reported()).toEqual(["Added kept"]), "events told");
    const before = proxy.seen.filter(onList).length;
    await proxy.refuse();
    await change("kept", 1);
    await drop("old");
    await churn("away");
    proxy.answer(onWatch, { status: 410, reason: "Expired", asFrame }, 1);
    await proxy.accept();
    await eventually(
      () =>
        expect(reported().toSorted()).toEqual(["Added away-b", "Added kept", "Deleted old", "Modified kept"]),
      "events told",
    );
    expect(log.find(({ event }) => event === "Deleted")?.object.metadata.uid).toBeDefined();
    expect(proxy.seen.filter(onList).length).toBeGreaterThan(before);
    const later = await churn("later");
    await eventually(() => expect(reported().slice(4)).toEqual(later), "events told");
    await expectTruth(made, of);
    expectSound(["old"]);
  });

  test("410 between the pages of a list", async () => {
    for (let at = 0; at < 510; at += 30) {
      await Promise.all(Array.from({ length: 30 }, (_, index) => make(`m${at + index}`)));
    }
    const made = bindings();
    const of = hook("h");
    proxy.answer((seen) => onList(seen) && seen.query.has("continue"), { status: 410, reason: "Expired" }, 1);
    await made.enable(of);
    made.unlock(of);
    expect(proxy.due).toBe(0);
    const events = await churn("more");
    await eventually(() => expect(reported()).toEqual(events), "events told");
    await expectTruth(made, of);
  });
});

test("a hook that comes late sees the same, while the watch goes on", async () => {
  const { made, of } = await following();
  const late = hook("late");
  const writes = Promise.all(["x", "y", "z"].map((prefix) => churn(prefix)));
  await made.enable(late);
  made.unlock(late);
  await writes;
  await expectTruth(made, of);
  await expectTruth(made, late);
  expect(proxy.seen.filter(onWatch)).toHaveLength(1);
});
