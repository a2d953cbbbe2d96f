import { expect, it, onTestFinished } from "vitest";

import type { WatchConsumer, WatchedObject, WatchSpec } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { IModuleSource, SourceStatus } from "../../../src/report/index.ts";
import { StatusMirror } from "../../../src/report/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { FakeApi, unavailable } from "../fake-api.ts";
import { QUIET_MIRROR, T0 } from "../views.ts";

const KEY = "modulesources/platform";
const SOURCES = "/apis/addon-operator.io/v1alpha1/namespaces/ops/modulesources";

const statusOf = (message: string, since = T0): SourceStatus => {
  const lastTransitionTime = new Date(since).toISOString();
  return {
    summary: "1/1",
    waiting: 0,
    modules: [],
    conditions: [{ type: "Ready", status: "True", reason: "Ready", message, lastTransitionTime }],
  };
};

async function world() {
  const api = new FakeApi();
  const clock = new ManualClock(T0);
  const { client } = api;
  const base = { client, clock, logger: silentLogger, namespace: "ops", operatorName: "addon-operator" };
  const reported: unknown[] = [];
  const handleAnnotations = (...seen: unknown[]): void => void reported.push(seen);
  const mirror = new StatusMirror({ ...base, ...QUIET_MIRROR, annotations: { handleAnnotations } });
  onTestFinished(() => mirror.close());
  let consumer: WatchConsumer | undefined;
  const subscribe = (_: WatchSpec, given: WatchConsumer) => {
    consumer = given;
    return { whenSynced: Promise.resolve(), close: () => {} };
  };
  mirror.watchSources({ subscribe });
  api.onChange = (event, object) => {
    const watched = object as unknown as WatchedObject;
    if (event === "applied") void consumer?.onApplied(watched);
    else void consumer?.onDeleted(watched, true);
  };
  const create = () =>
    client.json<IModuleSource>({
      method: "POST",
      path: SOURCES,
      body: {
        kind: "ModuleSource",
        metadata: { name: "platform", namespace: "ops" },
        spec: { registry: "r" },
      },
    });
  const pass = (ms: number) => clock.advance(ms).then(() => settle());
  /** Sets the status of a version of the source, and lets everything that is due happen. */
  const show = async ({ metadata }: IModuleSource, status: SourceStatus): Promise<void> => {
    const { uid = "", generation = 0 } = metadata;
    mirror.setSourceStatus("platform", { uid, generation }, status);
    await pass(0);
  };
  const source = await create();
  const stored = () => api.objects.get(KEY) as IModuleSource | undefined;
  const messageOf = () => stored()?.status?.conditions?.[0]?.message;
  const patches = () => api.writes.filter(({ method }) => method === "PATCH");
  return { api, create, pass, show, source, stored, messageOf, patches, reported };
}

it("a source gets its status in one write, and nothing else of it is written", async () => {
  const { show, source, stored, patches, reported, pass } = await world();
  await show(source, statusOf("one"));
  expect(patches().map(({ path }) => path)).toEqual([`${SOURCES}/platform/status`]);
  expect(stored()).toMatchObject({
    spec: { registry: "r" },
    status: { observedGeneration: 1, summary: "1/1", conditions: [{ type: "Ready", observedGeneration: 1 }] },
  });
  const before = stored();
  await show(source, statusOf("one", T0 + 5000));
  await pass(60_000);
  expect(stored()).toEqual(before);
  expect(patches()).toHaveLength(1);
  // Its annotations are no requests to the operator.
  expect(reported).toEqual([]);
});

it("of many statuses in a second the newest is written", async () => {
  const { show, source, messageOf, patches, pass } = await world();
  for (let i = 0; i <= 9; i += 1) await show(source, statusOf(`${i}`));
  expect(messageOf()).toBe("0");
  await pass(1000);
  expect(messageOf()).toBe("9");
  expect(patches()).toHaveLength(2);
});

it("an edit of the status by hand is put back, also of a field that others have added", async () => {
  const { api, show, source, stored, pass } = await world();
  await show(source, statusOf("one"));
  const before = stored()?.status;
  await pass(5000);
  api.edit(KEY, { status: { summary: "9/9", lastHandledReconcileAt: "mine" } });
  await pass(1000);
  expect(stored()?.status).toEqual(before);
});

it("a status that meets an edit is written to the newer version, and the edit stays", async () => {
  const { api, show, source, stored, messageOf, pass } = await world();
  const { onChange } = api;
  // The watch is late.
  api.onChange = () => {};
  api.edit(KEY, { metadata: { annotations: { mine: "x" } } });
  api.onChange = onChange;
  await show(source, statusOf("one"));
  await pass(5000);
  expect(messageOf()).toBe("one");
  expect(stored()?.metadata.annotations).toEqual({ mine: "x" });
});

it("a status keeps the generation that was checked", async () => {
  const { api, show, source, stored, pass } = await world();
  api.edit(KEY, { spec: { registry: "other" } });
  await show(source, statusOf("one"));
  await pass(5000);
  expect(stored()).toMatchObject({ metadata: { generation: 2 }, status: { observedGeneration: 1 } });
});

it("a source that a user has created again does not get the status of the former one", async () => {
  const { api, create, show, source, stored, messageOf, pass } = await world();
  await show(source, statusOf("former"));
  api.remove(KEY);
  const next = await create();
  await show(source, statusOf("former, checked again"));
  await pass(60_000);
  expect(stored()?.status).toEqual({ observedGeneration: -1 });
  await show(next, statusOf("next"));
  await pass(1000);
  expect(messageOf()).toBe("next");
});

it("after an outage the newest status is written", async () => {
  const { api, show, source, messageOf, pass } = await world();
  api.fail = () => unavailable();
  await show(source, statusOf("one"));
  await show(source, statusOf("two"));
  await pass(300_000);
  api.fail = () => undefined;
  await pass(60_000);
  expect(messageOf()).toBe("two");
});
