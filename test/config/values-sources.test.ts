import { expect, it, onTestFinished } from "vitest";

import { MissingPermissionsError } from "../../src/kube/index.ts";
import type { WatchConsumer, WatchHub, WatchSpec } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import type { Module } from "../../src/base/model/index.ts";
import { State } from "../../src/engine/state/index.ts";
import { NO_TREE } from "../../src/engine/state/view.ts";
import { ValuesSources } from "../../src/config/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const SOURCE = { kind: "Secret", name: "db", namespace: "theirs" } as const;

/** The modules `own`, without an account, and `team`, with one, list the same Secret in `addon.yaml`. */
async function lab() {
  const clock = new ManualClock();
  const state = new State({ clock });
  const open: { readonly spec: WatchSpec; readonly consumer: WatchConsumer }[] = [];
  const subscribe = (spec: WatchSpec, consumer: WatchConsumer) => {
    const one = { spec, consumer };
    open.push(one);
    return { whenSynced: Promise.resolve(), close: () => void open.splice(open.indexOf(one), 1) };
  };
  const wanted: unknown[] = [];
  const permissions = { refusal: undefined as Error | undefined };
  const assertPermitted = async (asked: unknown): Promise<void> => {
    wanted.push(asked);
    if (permissions.refusal !== undefined) throw permissions.refusal;
  };
  const sources = new ValuesSources({
    hub: { subscribe } as unknown as WatchHub,
    clock,
    logger: silentLogger,
    state,
    accountLimitsOf: () => ({ assertPermitted }),
  });
  onTestFinished(() => sources.close());
  const none = { file: "", section: undefined, enabled: undefined };
  const moduleOf = (name: string, identity: Partial<Module>) => ({
    name,
    valuesKey: name,
    valuesFrom: [SOURCE],
    crdFiles: [],
    ...identity,
    common: none,
    own: { ...none, enabled: true },
    schemas: {},
  });
  const modules = [moduleOf("own", {}), moduleOf("team", { serviceAccountName: "d" })];
  const refuse = (error: Error | undefined): void => void (permissions.refusal = error);
  const begin = async (): Promise<void> => {
    state.recordTree({ ...NO_TREE, modules: modules as unknown as Module[] });
    for (const { name } of modules)
      state.recordModule(name, "enablementDecided", { enabled: true, by: "configmap" });
    await settle();
  };
  const missing = (key: string) => state.values.sources.currentFor(key).missingSources;
  return { clock, state, open, wanted, refuse, begin, missing };
}

const REFUSED = new MissingPermissionsError({ namespace: "x", name: "d" }, ["get secrets db"]);

it("reads an object that a module with an account lists only while the account may get it", async () => {
  const { clock, open, wanted, refuse, begin, missing } = await lab();
  refuse(REFUSED);
  await begin();
  // The module without an account shares nothing with the other one.
  expect(open.map(({ spec }) => spec.fieldSelector)).toEqual(["metadata.name=db"]);
  expect(wanted).toEqual([
    [{ verb: "get", group: "", resource: "secrets", namespace: "theirs", name: "db" }],
  ]);
  expect(missing("team")).toEqual([`Secret theirs/db, which cannot be read: ${REFUSED.message}`]);
  refuse(undefined);
  await clock.advance(10_000);
  expect(open).toHaveLength(2);
  refuse(REFUSED);
  await clock.advance(300_000);
  expect(open).toHaveLength(1);
  expect(missing("team")).toEqual([`Secret theirs/db, which cannot be read: ${REFUSED.message}`]);
});

it("names a failed check only while nothing is known of the object", async () => {
  const { open, refuse, begin, missing } = await lab();
  refuse(new Error("no answer"));
  await begin();
  expect(open).toHaveLength(1);
  expect(missing("team")).toEqual(["Secret theirs/db, which cannot be read: no answer"]);
});

it("keeps short data in a memory of its own, not in one that other texts share", async () => {
  const { state, open, begin } = await lab();
  await begin();
  const metadata = { name: "db", namespace: "theirs", resourceVersion: "2" };
  const consumer = open[0]?.consumer;
  await consumer?.onListed({ apiVersion: "v1", kind: "Secret", metadata, data: { values: "YTogMQ==" } });
  await consumer?.onSynced("2");
  const ids = state.values.sources.neededObjects.map(({ id }) => id);
  const contents = ids.flatMap((id) => state.values.sources.findContent(id) ?? []);
  const kept = contents.flatMap((content) => ("data" in content ? Object.values(content.data) : []));
  expect(kept.map((bytes) => Buffer.from(bytes).toString())).toEqual(["a: 1"]);
  for (const { buffer, byteLength } of kept) expect(buffer.byteLength).toBe(byteLength);
});
