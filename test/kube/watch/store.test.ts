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
function lab(keepsDeleted = false) {
  const changes: string[] = [];
  const store = new ObjectStore<{ name: string; resourceVersion: string }>({
    keepsDeleted,
    toStored: ({ metadata: { name, resourceVersion = "" } }) => ({ name, resourceVersion }),
    groupOf: ({ name }) => name.slice(0, 1),
  });
  const ignore = (): void => {};
  const hub = {
    consumer: { onListed: ignore, onSynced: ignore, onApplied: ignore, onDeleted: ignore } as WatchConsumer,
    subscribe: (_: unknown, consumer: WatchConsumer) => {
      hub.consumer = consumer;
      return { whenSynced: Promise.resolve(), close: ignore };
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
  return { store, changes, answer, known, hub, watch: hub.consumer };
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
  const { store, watch, known, changes } = lab();
  for (const name of ["a1", "a2", "b1"]) void watch.onListed(object(name, "5"));
  void watch.onSynced("6");
  await store.fetchList(() => Promise.resolve({ items: [object("a1", "5")], resourceVersion: "10" }), "a");
  // Late events of an object that the list lacks, and of one that it did not need to show.
  for (const name of ["a2", "a3"]) void watch.onApplied(object(name, "9"));
  void watch.onApplied(object("b2", "12"));
  expect(known()).toEqual(["ns/a1 5", "ns/b1 5", "ns/b2 12"]);
  changes.length = 0;
  // The list was wrong: both exist, and the watch is beyond it.
  void watch.onSynced("12");
  expect(known()).toEqual(["ns/a1 5", "ns/b1 5", "ns/b2 12", "ns/a2 9", "ns/a3 9"]);
  expect(changes).toEqual(["undefined 9", "undefined 9"]);
});

test("an answer counts until the watch reaches it", async () => {
  const { watch, answer, known, changes } = lab();
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  await answer("a", "8");
  await answer("b", "9");
  await answer("c", "13");
  expect(known()).toEqual(["ns/a 8", "ns/b 9", "ns/c 13"]);
  changes.length = 0;
  // The watch has delivered neither: they were answers of an older state.
  void watch.onSynced("12");
  expect(known()).toEqual(["ns/a 5", "ns/c 13"]);
  expect(changes).toEqual(["8 5", "9 undefined"]);
  void watch.onDeleted(object("c", "12"), true);
  expect(known()).toEqual(["ns/a 5", "ns/c 13"]);
  void watch.onDeleted(object("c", "14"), true);
  expect(known()).toEqual(["ns/a 5"]);
});

test("what the caller assumes of an answer outlasts the event of its version, not the next one", async () => {
  const { store, watch, answer, known } = lab();
  void watch.onSynced("6");
  await answer("a", "8");
  store.assumeChange("ns/a", { name: "b" });
  void watch.onApplied(object("a", "8"));
  expect([...store.groupNames()]).toEqual(["b"]);
  void watch.onApplied(object("a", "9"));
  expect([[...store.groupNames()], known()]).toEqual([["a"], ["ns/a 9"]]);
});

test("an object that was made anew, as an answer shows, outlasts the deletion that a list shows", async () => {
  const { watch, answer, known, changes } = lab();
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  await answer("a", "8");
  changes.length = 0;
  void watch.onDeleted(object("a", "8"), false);
  void watch.onApplied(object("a", "8"));
  expect(known()).toEqual(["ns/a 8"]);
  expect(changes).toEqual([]);
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

test("the newest version is that of an answer or of a list, until an etcd was put back", async () => {
  const { store, watch, answer } = lab();
  expect(watch.getNewestVersion?.()).toBe("");
  await answer("b", "18");
  expect(watch.getNewestVersion?.()).toBe("18");
  await answer("b", undefined);
  expect(watch.getNewestVersion?.()).toBe("18");
  await store.fetchList(() => Promise.resolve({ items: [], resourceVersion: "120" }), "z");
  expect(watch.getNewestVersion?.()).toBe("120");
  watch.onEtcdRestored?.();
  expect(watch.getNewestVersion?.()).toBe("");
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

test("what was asked for before an etcd was put back does not outlive what comes after it", async () => {
  const { store, watch, answer, known } = lab();
  void watch.onListed(object("a", "50"));
  void watch.onSynced("60");
  await answer("c", "70");
  await answer("d", "71");
  const late = Promise.withResolvers<{ name: string; resourceVersion: string }>();
  const asked = store.fetchObject("ns/b", () => late.promise);
  watch.onEtcdRestored?.();
  late.resolve({ name: "b", resourceVersion: "55" });
  await asked;
  for (const name of ["a", "b", "c"]) void watch.onApplied(object(name, "40"));
  void watch.onSynced("41");
  expect(known()).toEqual(["ns/a 40", "ns/c 40", "ns/b 40"]);
});

test("a store that is watched again forgets what the new watch does not show", () => {
  const { store, watch, known, hub } = lab();
  for (const name of ["a", "b"]) void watch.onListed(object(name, "5"));
  void watch.onSynced("6");
  store.watch(hub, { resource: CONFIG_MAPS });
  const again = hub.consumer;
  void again.onListed(object("a", "5"));
  void again.onSynced("7");
  expect(known()).toEqual(["ns/a 5"]);
});

test("the last known version of a deleted object is the latest, in whatever order it became known", async () => {
  const { store, watch, answer } = lab(true);
  void watch.onListed(object("a", "5"));
  void watch.onSynced("6");
  const late = ["8", "7"].map((resourceVersion) => ({ name: "a", resourceVersion }));
  const deleted = Promise.withResolvers<void>();
  const asked = late.map((each) => store.fetchObject("ns/a", () => deleted.promise.then(() => each)));
  void watch.onDeleted(object("a", "10"), true);
  expect(store.getLastKnown("ns/a")?.resourceVersion).toBe("5");
  deleted.resolve();
  await Promise.all(asked);
  expect([store.get("ns/a"), store.getLastKnown("ns/a")?.resourceVersion]).toEqual([undefined, "8"]);
  void watch.onApplied(object("a", "12"));
  expect(store.getLastKnown("ns/a")?.resourceVersion).toBe("12");
  await answer("a", undefined);
  expect(store.getLastKnown("ns/a")?.resourceVersion).toBe("12");
});

test("what was deleted before an etcd was put back is not the last known version of what is deleted after it", async () => {
  const { store, watch } = lab(true);
  for (const name of ["a", "b"]) void watch.onListed(object(name, "50"));
  void watch.onSynced("60");
  for (const name of ["a", "b"]) void watch.onDeleted(object(name, "70"), true);
  const late = Promise.withResolvers<{ name: string; resourceVersion: string }>();
  const asked = store.fetchObject("ns/b", () => late.promise);
  watch.onEtcdRestored?.();
  late.resolve({ name: "b", resourceVersion: "55" });
  await asked;
  for (const name of ["a", "b"]) void watch.onApplied(object(name, "40"));
  void watch.onSynced("41");
  for (const name of ["a", "b"]) void watch.onDeleted(object(name, "42"), true);
  for (const name of ["a", "b"]) expect(store.getLastKnown(`ns/${name}`)?.resourceVersion).toBe("40");
});
