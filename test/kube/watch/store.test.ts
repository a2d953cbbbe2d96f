import { expect, test } from "vitest";

import { ObjectStore } from "../../../src/kube/index.ts";
import type { WatchConsumer, WatchedObject } from "../../../src/kube/index.ts";
import { CONFIG_MAPS } from "../../../src/kube/resources.ts";

const object = (name: string, resourceVersion: string): WatchedObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace: "ns", name, resourceVersion },
});

/** A store of names and versions, grouped by the first letter, with a watch that the test feeds. */
function lab() {
  const changes: string[] = [];
  const store = new ObjectStore<{ name: string; resourceVersion: string }>({
    toStored: ({ metadata: { name, resourceVersion = "" } }) => ({ name, resourceVersion }),
    groupOf: ({ name }) => name.slice(0, 1),
  });
  let watch: WatchConsumer = {
    onListed: () => {},
    onSynced: () => {},
    onApplied: () => {},
    onDeleted: () => {},
  };
  const hub = {
    subscribe: (_: unknown, consumer: WatchConsumer) => {
      watch = consumer;
      return { whenSynced: Promise.resolve(), close: () => {} };
    },
  };
  store.watch(
    hub,
    { resource: CONFIG_MAPS },
    { onChange: (now, before) => void changes.push(`${before?.resourceVersion} ${now?.resourceVersion}`) },
  );
  const answer = (name: string, version: string | undefined) =>
    store.fetchObject(`ns/${name}`, () =>
      Promise.resolve(version === undefined ? undefined : { name, resourceVersion: version }),
    );
  const known = (): string[] =>
    [...store.entries()].map(([key, { resourceVersion }]) => `${key} ${resourceVersion}`);
  return { store, changes, answer, known, watch };
}

test("an answer is ahead of the watch: its event is no news, and older events do not count", async () => {
  const { watch, answer, known, changes } = lab();
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  await answer("a", "8");
  void watch.onApplied(object("a", "7"));
  void watch.onApplied(object("a", "8"));
  expect(known()).toEqual(["ns/a 8"]);
  expect(changes).toEqual(["undefined 5"]);
  void watch.onApplied(object("a", "10"));
  expect(changes).toEqual(["undefined 5", "8 10"]);
});

test("the watch is ahead of an answer, which brings back neither an older nor a deleted object", async () => {
  const { store, watch, answer, known } = lab();
  void watch.onSynced("1");
  const late = Promise.withResolvers<{ name: string; resourceVersion: string }>();
  const requested = store.fetchObject("ns/a", () => late.promise);
  void watch.onApplied(object("a", "5"));
  void watch.onDeleted(object("a", "6"), true);
  late.resolve({ name: "a", resourceVersion: "5" });
  await requested;
  expect(known()).toEqual([]);
  void watch.onApplied(object("a", "9"));
  await answer("a", "8");
  expect(known()).toEqual(["ns/a 9"]);
});

test("lists delete what they do not show and is not newer, of a group or of everything", async () => {
  const { store, watch, known } = lab();
  for (const name of ["a1", "a2", "b1"]) void watch.onListed(object(name, "5"));
  void watch.onSynced("6");
  await store.fetchList(() => Promise.resolve({ items: [object("a1", "5")], resourceVersion: "10" }), "a");
  void watch.onApplied(object("a2", "9"));
  void watch.onApplied(object("b2", "12"));
  expect(known()).toEqual(["ns/b1 5", "ns/a1 5", "ns/b2 12"]);
  watch.onRelisted?.(new Set(["ns/a1"]), "11");
  expect(known()).toEqual(["ns/a1 5", "ns/b2 12"]);
});

test("an answer that there is none counts unless something became known meanwhile", async () => {
  const { store, watch, answer, known } = lab();
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  await store.fetchObject("ns/a", async () => void watch.onApplied(object("a", "7")) as undefined);
  expect(known()).toEqual(["ns/a 7"]);
  await answer("a", undefined);
  expect(known()).toEqual([]);
  void watch.onApplied(object("a", "6"));
  expect(known()).toEqual([]);
});

test("the newest version is that of an answer, of a list or of a deletion, until an etcd was put back", async () => {
  const { store, watch, answer } = lab();
  expect(watch.getNewestVersion?.()).toBe("");
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  expect(watch.getNewestVersion?.()).toBe("6");
  await answer("b", "18");
  expect(watch.getNewestVersion?.()).toBe("18");
  await answer("b", undefined);
  expect(watch.getNewestVersion?.()).toBe("18");
  await store.fetchList(() => Promise.resolve({ items: [], resourceVersion: "120" }), "z");
  expect(watch.getNewestVersion?.()).toBe("120");
  watch.onEtcdRestored?.();
  expect(watch.getNewestVersion?.()).toBe("1");
});

test("after an etcd was put back, older versions count again", async () => {
  const { watch, answer, known } = lab();
  for (const name of ["a", "b"]) void watch.onListed(object(name, "50"));
  void watch.onSynced("60");
  watch.onEtcdRestored?.();
  void watch.onApplied(object("a", "40"));
  void watch.onDeleted(object("b", "45"), false);
  await answer("c", "46");
  expect(known()).toEqual(["ns/a 40", "ns/c 46"]);
});

test("what was listed or asked for before an etcd was put back does not outlive what comes after it", async () => {
  const { store, watch, known } = lab();
  watch.onListStart?.();
  void watch.onListed(object("a", "50"));
  watch.onEtcdRestored?.();
  void watch.onSynced("60");
  const late = Promise.withResolvers<{ name: string; resourceVersion: string }>();
  const asked = store.fetchObject("ns/b", () => late.promise);
  watch.onEtcdRestored?.();
  late.resolve({ name: "b", resourceVersion: "55" });
  await asked;
  for (const name of ["a", "b", "c"]) void watch.onApplied(object(name, "40"));
  expect(known()).toEqual(["ns/a 40", "ns/b 40", "ns/c 40"]);
});

test("a list that begins again forgets what it does not show", () => {
  const { watch, known } = lab();
  watch.onListStart?.();
  void watch.onListed(object("a", "5"));
  watch.onListStart?.();
  void watch.onListed(object("b", "6"));
  void watch.onSynced("7");
  expect(known()).toEqual(["ns/b 6"]);
});
