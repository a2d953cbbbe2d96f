import { describe, expect, test } from "vitest";
import { CONFIG_MAPS, NAMESPACES } from "../../src/kube/index.ts";
import { settle } from "../support/clock.ts";
import { healingLab, map, object, SECONDS } from "./self-heal-lab.ts";

describe("selfHeal", () => {
  test("watches the metadata of what helm made, once per kind and namespace", async () => {
    const { healing, open, listed, take } = healingLab();
    healing.setObjects("a", [map("one"), map("two")]);
    healing.setObjects("b", [map("three")]);
    await listed(["one", "two", "three"]);
    expect(open.map(({ spec }) => spec)).toEqual([
      {
        resource: CONFIG_MAPS,
        namespace: "ns",
        labelSelector: "app.kubernetes.io/managed-by=Helm",
        metadataOnly: true,
        keepManagedFields: true,
      },
    ]);
    expect(take()).toEqual([]);
    expect(healing.objects("a")).toEqual(["ns/ConfigMap/one", "ns/ConfigMap/two"]);
  });

  test("reports what is gone, for its module only", async () => {
    const { healing, listed, deleted, take, there } = healingLab();
    there.add("one").add("two");
    healing.setObjects("a", [map("one")]);
    healing.setObjects("b", [map("two")]);
    await listed(["one", "two"]);
    await deleted("two");
    expect(take()).toEqual(["b: ns/ConfigMap/two"]);
  });

  test("says nothing before the list is complete, nor where the server still has the object or does not answer", async () => {
    const { healing, listed, take, there, requested, mute, deleted } = healingLab();
    healing.setObjects("a", [map("one")]);
    await settle();
    expect(requested).toEqual([]);
    there.add("one");
    await listed([]);
    expect(requested).toEqual(["one"]);
    mute(true);
    await deleted("one");
    expect(take()).toEqual([]);
  });

  test("brings an object back less and less often, and forgets after a calm time", async () => {
    const { clock, healing, listed, deleted, take, there, watch } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    const back = (): void => {
      there.add("one");
      void watch().consumer.onApplied(object("one"));
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

  test("brings an object back after 1 s, twice as long each time, up to 10 min", async () => {
    const { clock, healing, listed, deleted, take, there, watch } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    await deleted("one");
    expect(take()).toHaveLength(1);
    const waits: number[] = [];
    for (let round = 0; round < 12; round++) {
      there.add("one");
      void watch().consumer.onApplied(object("one"));
      await deleted("one");
      let seconds = 0;
      while (take().length === 0 && seconds < 700) {
        await clock.advance(SECONDS);
        seconds++;
      }
      waits.push(seconds);
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
  });

  test("says which objects are missing while their back-off lasts, and no longer", async () => {
    const { clock, healing, listed, deleted, take, takeDeferred, there, watch, requested } = healingLab();
    const back = (name: string): void => {
      there.add(name);
      void watch().consumer.onApplied(object(name));
    };
    there.add("one").add("two");
    healing.setObjects("a", [map("one"), map("two")]);
    await listed(["one", "two"]);
    await deleted("one");
    expect([take(), takeDeferred()]).toEqual([["a: ns/ConfigMap/one"], []]);
    back("one");
    requested.length = 0;
    await deleted("one");
    expect([take(), takeDeferred()]).toEqual([[], ["a: ns/ConfigMap/one"]]);
    expect(requested).toEqual(["one"]);
    // Its back-off ends: whoever restores it takes over.
    await clock.advance(SECONDS);
    expect([take(), takeDeferred()]).toEqual([["a: ns/ConfigMap/one"], ["a: "]]);
    back("one");
    await deleted("one");
    expect([take(), takeDeferred()]).toEqual([[], ["a: ns/ConfigMap/one"]]);
    // Someone else makes it.
    back("one");
    expect(takeDeferred()).toEqual(["a: "]);
    await deleted("one");
    expect(takeDeferred()).toEqual(["a: ns/ConfigMap/one"]);
    healing.setObjects("a", [map("two")]);
    expect(takeDeferred()).toEqual(["a: "]);
  });

  test("asks again a second after the server did not answer, then less and less often", async () => {
    const { clock, healing, listed, deleted, take, there, mute, requested } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    mute(true);
    await deleted("one");
    await clock.advance(0.9 * SECONDS);
    expect(requested).toEqual(["one"]);
    await clock.advance(0.1 * SECONDS);
    expect(requested).toEqual(["one", "one"]);
    mute(false);
    await clock.advance(1.9 * SECONDS);
    expect(take()).toEqual([]);
    await clock.advance(0.1 * SECONDS);
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
  });

  test("brings it back as soon, whatever the wall clock is set to", async () => {
    const { clock, healing, listed, deleted, take, there, watch } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    await deleted("one");
    expect(take()).toHaveLength(1);
    there.add("one");
    void watch().consumer.onApplied(object("one"));
    await deleted("one");
    clock.setWall(-48 * 3600 * SECONDS);
    await clock.advance(SECONDS);
    expect(take()).toHaveLength(1);
  });

  test("a module without objects ends its watches; one that closed reports nothing", async () => {
    const { healing, listed, watch, take, there } = healingLab();
    healing.setObjects("a", [map("one")]);
    await listed([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one!"]);
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
    const { clock, healing, kinds, open, listed, take } = healingLab();
    kinds.delete("ConfigMap");
    healing.setObjects("a", [map("one")]);
    await settle();
    expect(open).toEqual([]);
    kinds.set("ConfigMap", CONFIG_MAPS);
    await clock.advance(10 * SECONDS);
    await listed([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one!"]);
  });

  test("cluster-wide objects have no namespace", async () => {
    const { healing, open, listed, take } = healingLab();
    healing.setObjects("a", [{ apiVersion: "v1", kind: "Namespace", namespace: "ns", name: "team" }]);
    await settle();
    expect(open[0]?.spec).toMatchObject({ resource: NAMESPACES, namespace: undefined });
    await listed([]);
    expect(take()).toEqual(["a: Namespace/team!"]);
  });

  test("a kind that may not be watched falls back to asking once a minute, until it can be watched", async () => {
    const { clock, healing, take, there, watch, requested, listed, deleted } = healingLab();
    there.add("one").add("two");
    healing.setObjects("a", [map("one"), map("two")]);
    await settle();
    const { consumer } = watch();
    consumer.onError?.(new Error("forbidden"));
    consumer.onError?.(new Error("still forbidden"));
    await clock.advance(59 * SECONDS);
    expect(requested).toEqual([]);
    there.delete("two");
    await clock.advance(SECONDS);
    expect(requested).toEqual(["one", "two"]);
    expect(take()).toEqual(["a: ns/ConfigMap/two!"]);
    there.add("two");
    await clock.advance(60 * SECONDS);
    expect(requested).toEqual(["one", "two", "one", "two"]);
    await listed(["one", "two"]);
    consumer.onError?.(undefined);
    await clock.advance(600 * SECONDS);
    expect(requested.length).toBe(4);
    expect(take()).toEqual([]);
    await clock.advance(1200 * SECONDS);
    await deleted("one");
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
  });

  test("a kind that knows no watch is asked for only, and no more once nobody needs it", async () => {
    const { clock, healing, kinds, open, take, requested } = healingLab();
    kinds.set("ConfigMap", { ...CONFIG_MAPS, verbs: ["get", "list"] });
    healing.setObjects("a", [map("one")]);
    await clock.advance(60 * SECONDS);
    expect(open).toEqual([]);
    expect(take()).toEqual(["a: ns/ConfigMap/one!"]);
    healing.setObjects("a", []);
    await clock.advance(600 * SECONDS);
    expect(requested).toEqual(["one"]);
  });

  test("a kind that the server never gets is looked for less and less often", async () => {
    const { clock, healing, kinds, resolved } = healingLab();
    kinds.clear();
    healing.setObjects("a", [map("one")]);
    await clock.advance(3600 * SECONDS);
    // After 0, 10, 30, 70 … 630, 1230 s, then every ten minutes.
    expect(resolved()).toBe(11);
    healing.setObjects("a", []);
    await settle();
    expect(clock.timers).toBe(0);
  });

  test("reports nothing of a module that runs; its end brings what the release is made of then", async () => {
    const { healing, listed, deleted, take, there, busy, requested } = healingLab();
    there.add("one").add("two");
    healing.setObjects("a", [map("one"), map("two")]);
    await listed(["one", "two"]);
    busy.add("a");
    await deleted("one");
    await deleted("two");
    expect(requested).toEqual([]);
    busy.delete("a");
    healing.setObjects("a", [map("two")]);
    await settle();
    expect(take()).toEqual(["a: ns/ConfigMap/two"]);
  });

  test("a run that begins while the server is asked has the word", async () => {
    const { healing, listed, deleted, take, there, busy, clock } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed(["one"]);
    const missing = deleted("one");
    busy.add("a");
    await missing;
    expect(take()).toEqual([]);
    busy.delete("a");
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await clock.advance(600 * SECONDS);
    expect(take()).toEqual([]);
  });

  test("an object that was there after all is reported at once when it goes", async () => {
    const { healing, listed, deleted, take, there } = healingLab();
    there.add("one");
    healing.setObjects("a", [map("one")]);
    await listed([]);
    expect(take()).toEqual([]);
    await deleted("one");
    expect(take()).toEqual(["a: ns/ConfigMap/one"]);
  });

  test("objects that keep going slow their release down, up to 30 s, not those that go for the first time", async () => {
    const { clock, healing, listed, deleted, take, there, watch } = healingLab();
    const names = ["one", "two", "three"];
    for (const name of names) there.add(name);
    healing.setObjects("a", names.map(map));
    await listed(names);
    for (const name of names) {
      await deleted(name);
      expect(take()).toEqual([`a: ns/ConfigMap/${name}`]);
    }
    let reported = 0;
    for (let second = 0; second < 600; second += 1) {
      for (const name of names) {
        there.add(name);
        void watch().consumer.onApplied(object(name));
        await deleted(name);
      }
      await clock.advance(SECONDS);
      reported += take().length;
    }
    expect(reported).toBeLessThan(15);
    await deleted("one");
    await clock.advance(600 * SECONDS);
    expect(take().length).toBeGreaterThan(0);
  });
});
