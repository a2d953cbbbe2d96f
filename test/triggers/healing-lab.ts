import { CONFIG_MAPS, NAMESPACES } from "../../src/kube/index.ts";
import type { Resource, WatchConsumer, WatchHub, WatchSpec, WatchedObject } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import { Healing, KindWatches } from "../../src/triggers/index.ts";
import type { ReleaseObject } from "../../src/triggers/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

export const SECONDS = 1000;
export const MINUTES = 60 * SECONDS;

export const object = (name: string): WatchedObject =>
  ({ metadata: { name, namespace: "ns" } }) as WatchedObject;

export const map = (name: string): ReleaseObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  namespace: "ns",
  name,
});

/** A hub and a server in the hands of the test. */
export function healingLab() {
  const clock = new ManualClock();
  const open: { spec: WatchSpec; consumer: WatchConsumer; closed: boolean }[] = [];
  const hub = {
    subscribe: (spec: WatchSpec, consumer: WatchConsumer) => {
      const watch = { spec, consumer, closed: false };
      open.push(watch);
      return { synced: Promise.resolve(), close: () => void (watch.closed = true) };
    },
  } as unknown as WatchHub;
  const kinds = new Map<string, Resource>([
    ["ConfigMap", CONFIG_MAPS],
    ["Namespace", NAMESPACES],
  ]);
  const there = new Set<string>();
  const told: string[] = [];
  const deferrals: string[] = [];
  const asked: string[] = [];
  const busy = new Set<string>();
  let resolved = 0;
  let silent = false;
  let [now, most] = [0, 0];
  const answer = async (name: string): Promise<boolean> => {
    asked.push(name);
    now += 1;
    most = Math.max(most, now);
    await Promise.resolve();
    now -= 1;
    if (silent) throw new Error("no answer");
    return there.has(name);
  };
  const watches = new KindWatches({
    hub,
    clock,
    logger: silentLogger,
    resolve: (kind) => {
      resolved += 1;
      return Promise.resolve(kinds.get(kind));
    },
  });
  const healing = new Healing({
    kinds: watches,
    clock,
    exists: (_resource, { name }) => answer(name),
    mayReport: (module) => !busy.has(module),
    onAbsent: (module, absent) =>
      void told.push(
        `${module}: ${absent.map(({ name, existed }) => (existed ? name : `${name}!`)).join(" ")}`,
      ),
    onDeferred: (module, deferred) =>
      void deferrals.push(`${module}: ${deferred.map(({ name }) => name).join(" ")}`),
  });
  const watch = (index = 0): (typeof open)[number] => {
    const found = open[index];
    if (found === undefined) throw new Error(`there is no watch ${index}`);
    return found;
  };
  /** The watch has listed these. */
  const listed = async (names: readonly string[], index = 0): Promise<void> => {
    await settle();
    const { consumer } = watch(index);
    consumer.begin?.();
    for (const name of names) void consumer.object(object(name));
    void consumer.synced("1");
    await settle();
  };
  const deleted = async (name: string): Promise<void> => {
    there.delete(name);
    void watch().consumer.deleted(object(name), true);
    await settle();
  };
  return {
    clock,
    healing,
    open,
    watch,
    kinds,
    there,
    asked,
    busy,
    take: () => told.splice(0),
    /** What was reported as missing and not restored yet. */
    takeDeferred: () => deferrals.splice(0),
    listed,
    deleted,
    mute: (yes: boolean): void => void (silent = yes),
    /** Most questions at the same time. */
    most: () => most,
    /** How often a kind was looked for. */
    resolved: () => resolved,
  };
}
