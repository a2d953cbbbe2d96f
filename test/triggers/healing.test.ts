import { describe, expect, test } from "vitest";
import { CONFIG_MAPS, NAMESPACES } from "../../src/kube/index.ts";
import type { Resource, WatchConsumer, WatchHub, WatchSpec, WatchedObject } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import { Healing } from "../../src/triggers/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const SECONDS = 1000;
const object = (name: string): WatchedObject => ({ metadata: { name, namespace: "ns" } }) as WatchedObject;
const map = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", namespace: "ns", name });

/** A hub in the hands of the test. */
function lab() {
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
  const asked: string[] = [];
  let silent = false;
  const healing = new Healing({
    hub,
    clock,
    logger: silentLogger,
    resolve: (kind) => Promise.resolve(kinds.get(kind)),
    exists: (_resource, { name }) => {
      asked.push(name);
      return silent ? Promise.reject(new Error("no answer")) : Promise.resolve(there.has(name));
    },
    onAbsent: (module, absent) => void told.push(`${module}: ${absent.join(" ")}`),
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
    void consumer.synced();
    await settle();
  };
  const deleted = async (name: string): Promise<void> => {
    there.delete(name);
    void watch().consumer.deleted(object(name), true);
    await settle();
  };
  const mute = (yes: boolean): void => void (silent = yes);
  return {
    clock,
    healing,
    open,
    watch,
    kinds,
    there,
    asked,
    take: () => told.splice(0),
    listed,
    deleted,
    mute,
  };
}

describe("healing", () => {
  test("watches the metadata of what helm made, once per kind and namespace", async () => {
    const { healing, open, listed, take } = lab();
    healing.setObjects("a", [map("one"), map("two")]);
    healing.setObjects("b", [map("three")]);
    await listed(["one", "two", "three"]);
    expect(open.map(({ spec }) => spec)).toEqual([
      {
        resource: CONFIG_MAPS,
        namespace: "ns",
        labelSelector: "app.kubernetes.io/managed-by=Helm",
        metadataOnly: true,
      },
    ]);
    expect(take()).toEqual([]);
    expect(healing.objects("a")).toEqual(["ns/ConfigMap/one", "ns/ConfigMap/two"]);
  });

  test("tells what is gone, for its module only", async () => {
    const { healing, listed, deleted, take, there } = lab();
    there.add("one").add("two");
    healing.setObjects("a", [map("one")]);
    healing.setObjects("b", [map("two")]);
    await listed(["one", "two"]);
    await deleted("two");
    expect(take()).toEqual(["b: ns/ConfigMap/two"]);
  });

  test("says nothing before the list is complete, nor where the server still has the object or does not answer", async () => {
    const { healing, listed, take, there, asked, mute, deleted } = lab();
    healing.setObjects("a", [map("one")]);
    await settle();
    expect(asked).toEqual([]);
    there.add("one");
    await listed([]);
    expect(asked).toEqual(["one"]);
    mute(true);
    await deleted("one");
    expect(take()).toEqual([]);
  });

  test("brings an object back less and less often, and forgets after a calm time", async () => {
    const { clock, healing, listed, deleted, take, there, watch } = lab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    const back = (): void => {
      there.add("one");
      void watch().consumer.applied(object("one"));
    };
    const goes = async (): Promise<string[]> => {
      back();
      await deleted("one");
      return take();
    };
    const absent = ["a: ns/ConfigMap/one"];
    expect(await goes()).toEqual(absent);
    expect(await goes()).toEqual([]);
    await clock.advance(SECONDS);
    expect(take()).toEqual(absent);
    expect(await goes()).toEqual([]);
    await clock.advance(1.9 * SECONDS);
    expect(take()).toEqual([]);
    await clock.advance(0.1 * SECONDS);
    expect(take()).toEqual(absent);
    back();
    await clock.advance(1300 * SECONDS);
    expect(await goes()).toEqual(absent);
    expect(await goes()).toEqual([]);
    await clock.advance(SECONDS);
    expect(take()).toEqual(absent);
  });

  test("a module without objects ends its watches; one that closed tells nothing", async () => {
    const { healing, listed, watch, take, there } = lab();
    healing.setObjects("a", [map("one")]);
    await listed([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
    healing.setObjects("a", []);
    expect(watch().closed).toBe(true);
    expect(healing.objects("a")).toBeUndefined();
    there.clear();
    healing.setObjects("a", [map("two")]);
    healing.close();
    await settle();
    expect(take()).toEqual([]);
  });

  test("a kind that is not known yet is looked for again", async () => {
    const { clock, healing, kinds, open, listed, take } = lab();
    kinds.delete("ConfigMap");
    healing.setObjects("a", [map("one")]);
    await settle();
    expect(open).toEqual([]);
    kinds.set("ConfigMap", CONFIG_MAPS);
    await clock.advance(10 * SECONDS);
    await listed([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
  });

  test("cluster-wide objects have no namespace", async () => {
    const { healing, open, listed, take } = lab();
    healing.setObjects("a", [{ apiVersion: "v1", kind: "Namespace", namespace: "ns", name: "team" }]);
    await settle();
    expect(open[0]?.spec).toMatchObject({ resource: NAMESPACES, namespace: undefined });
    await listed([]);
    expect(take()).toEqual(["a: ns/Namespace/team"]);
  });

  test("a kind that may not be watched falls back to asking once a minute, until it can be watched", async () => {
    const { clock, healing, take, there, watch, asked, listed, deleted } = lab();
    there.add("one").add("two");
    healing.setObjects("a", [map("one"), map("two")]);
    await settle();
    const { consumer } = watch();
    consumer.trouble?.(new Error("forbidden"));
    consumer.trouble?.(new Error("still forbidden"));
    await clock.advance(59 * SECONDS);
    expect(asked).toEqual([]);
    there.delete("two");
    await clock.advance(SECONDS);
    expect(asked).toEqual(["one", "two"]);
    expect(take()).toEqual(["a: ns/ConfigMap/two"]);
    there.add("two");
    await clock.advance(60 * SECONDS);
    expect(asked).toEqual(["one", "two", "one", "two"]);
    await listed(["one", "two"]);
    consumer.trouble?.(undefined);
    await clock.advance(600 * SECONDS);
    expect(asked.length).toBe(4);
    expect(take()).toEqual([]);
    await clock.advance(1200 * SECONDS);
    await deleted("one");
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
  });

  test("a kind that knows no watch is asked for only, and no more once nobody needs it", async () => {
    const { clock, healing, kinds, open, take, asked } = lab();
    kinds.set("ConfigMap", { ...CONFIG_MAPS, verbs: ["get", "list"] });
    healing.setObjects("a", [map("one")]);
    await clock.advance(60 * SECONDS);
    expect(open).toEqual([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
    healing.setObjects("a", []);
    await clock.advance(600 * SECONDS);
    expect(asked).toEqual(["one"]);
  });
});
