import { describe, expect, it, onTestFinished, vi } from "vitest";

import { displayDigest, silentLogger } from "../../../src/base/index.ts";
import { ApiError, type WatchConsumer, type WatchedObject, type WatchSpec } from "../../../src/kube/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { type MirrorOptions, StatusMirror } from "../../../src/report/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { FakeApi, missingKind, refused, unavailable } from "../fake-api.ts";
import { QUIET_MIRROR, T0, basis, finished, moduleView, queueOf, underWay, viewOf } from "../views.ts";
import { type StateSnapshot } from "../../../src/report/index.ts";

interface World {
  readonly api: FakeApi;
  readonly clock: ManualClock;
  readonly mirror: StatusMirror;
  /** The watch of AddonModules. */
  readonly watch: () => WatchConsumer | undefined;
  readonly warnings: string[];
  /** Shows modules and lets everything that is due happen. */
  readonly show: (...modules: readonly ModuleView[]) => Promise<void>;
  /** The same of a module that waits for another one. */
  readonly showWaiting: (module: ModuleView, head: string) => Promise<void>;
}

/** `hasLists`: the watches list the objects that exist; otherwise the mirror reads them itself. */
function world(change: Partial<MirrorOptions> = {}, api = new FakeApi(), hasLists = false): World {
  const clock = new ManualClock(T0);
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  const options = {
    client: api.client,
    clock,
    logger,
    namespace: "ops",
    operatorName: "addon-operator",
    ...QUIET_MIRROR,
  };
  const mirror = new StatusMirror({ ...options, ...change });
  const watches = new Map<string, WatchConsumer>();
  const hub = {
    subscribe: ({ resource }: WatchSpec, consumer: WatchConsumer) => {
      watches.set(resource.kind, consumer);
      const existing = [...api.objects.values()].filter(({ kind }) => kind === resource.kind);
      if (hasLists) {
        for (const object of existing) void consumer.onListed(object as unknown as WatchedObject);
        void consumer.onSynced("1000");
      } else {
        consumer.onError?.(new Error("no answer"));
      }
      return { whenSynced: Promise.resolve(), close: () => {} };
    },
  };
  mirror.watch(hub);
  api.onChange = (event, object) => {
    const watched = object as unknown as WatchedObject;
    if (event === "applied") void watches.get(object.kind)?.onApplied(watched);
    else void watches.get(object.kind)?.onDeleted(watched, true);
  };
  onTestFinished(() => mirror.close());
  const seen = async (view: View, queues: StateSnapshot["queues"]): Promise<void> => {
    mirror.update({ view, queues });
    await clock.advance(50);
    await settle();
  };
  const show = (...modules: readonly ModuleView[]) => seen(viewOf(modules), []);
  const showWaiting = (module: ModuleView, head: string) =>
    seen(viewOf([module]), queueOf(head, module.name));
  return { api, clock, mirror, watch: () => watches.get("AddonModule"), warnings, show, showWaiting };
}

const state = (api: FakeApi, name: string) => api.module(name)?.status?.state;
const patches = (api: FakeApi, name: string) =>
  api.writes.filter(({ path }) => path.includes(`/addonmodules/${name}`));

describe("StatusMirror", () => {
  it("creates the summary first, then modules that belong to it, each in two writes", async () => {
    const { api, show } = world({ helmRelease: { name: "aop", namespace: "ops" } });
    await show(moduleView("a"), moduleView("b"));
    expect(api.writes.length).toBe(6);
    const operator = api.operator();
    expect(operator?.metadata.labels).toMatchObject({ "app.kubernetes.io/managed-by": "Helm" });
    expect(operator?.metadata.annotations).toMatchObject({ "meta.helm.sh/release-name": "aop" });
    expect(operator?.status).toMatchObject({
      state: "Ready",
      observedGeneration: 1,
      modules: { summary: "2/2" },
    });
    expect(api.module("a")).toMatchObject({
      metadata: {
        ownerReferences: [{ kind: "AddonOperator", uid: operator?.metadata.uid, controller: true }],
      },
      spec: { enabled: true, order: 10, configDigest: displayDigest("v1-c1") },
      status: { state: "Ready", observedGeneration: 1 },
    });
  });

  it("writes nothing while nothing changes, and nothing for its own echoes", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    const before = api.writes.length;
    await show(moduleView("a"));
    await clock.advance(3_600_000);
    await show(moduleView("a"));
    expect(api.writes.length).toBe(before);
  });

  it("believes older versions after the server was put back to an earlier state", async () => {
    const { api, clock, watch, show } = world();
    await show(moduleView("a"));
    const written = api.module("a");
    if (written === undefined) throw new Error("no module");
    const { status: _, ...bare } = written;
    const earlier = { ...bare, metadata: { ...bare.metadata, resourceVersion: "2" } };
    const before = api.writes.length;
    api.onChange("applied", earlier);
    await clock.advance(5000);
    await settle();
    expect(api.writes.length).toBe(before);
    watch()?.onEtcdRestored?.();
    api.onChange("applied", earlier);
    await clock.advance(5000);
    await settle();
    expect(api.writes.length).toBe(before + 1);
  });

  it("does not repeat a write without a pause while its answers are older than what is known", async () => {
    const { api, clock, watch, show } = world();
    await show(moduleView("a"));
    const { onChange } = api;
    api.onChange = () => {};
    await show(moduleView("a", { enabled: false }));
    await clock.advance(2000).then(() => settle());
    api.restoreWithoutModules();
    await show(moduleView("a"));
    const before = api.writes.length;
    for (let second = 0; second < 10; second += 1) await clock.advance(1000).then(() => settle());
    expect(api.writes.length - before).toBeGreaterThan(2);
    expect(api.writes.length - before).toBeLessThan(25);
    expect(api.module("a")?.status?.state).toBeUndefined();
    watch()?.onEtcdRestored?.();
    const created = api.module("a");
    if (created !== undefined) onChange("applied", created);
    await clock.advance(2000).then(() => settle());
    expect(api.module("a")?.status?.state).toBe("Ready");
  });

  it("counts what is not written yet, also of a view that was not looked at", async () => {
    const { api, clock, mirror, show } = world();
    expect(mirror.unwritten()).toBe(0);
    mirror.update({ view: viewOf([moduleView("a")]), queues: [] });
    expect(mirror.unwritten()).toBe(2);
    await show(moduleView("a"));
    expect(mirror.unwritten()).toBe(0);
    await clock.advance(5000);
    mirror.update({ view: viewOf([moduleView("a"), moduleView("b")]), queues: [] });
    expect(mirror.unwritten()).toBe(2);
    await mirror.flush();
    expect(mirror.unwritten()).toBe(0);
    expect(state(api, "b")).toBe("Ready");
  });

  it("reads what exists at a start from the lists of its watches", async () => {
    const { api, mirror, show } = world();
    await show(moduleView("a"));
    mirror.close();
    const reads: string[] = [];
    api.fail = ({ method = "GET", path }) => {
      if (method === "GET") reads.push(path);
      return undefined;
    };
    const before = api.writes.length;
    const second = world({}, api, true);
    await second.show(moduleView("a"));
    await second.clock.advance(5000);
    await settle();
    expect(reads).toEqual([]);
    expect(api.writes.length).toBe(before);
  });

  it("writes nothing at a restart when everything is as it was, and keeps transition times", async () => {
    const first = world();
    await first.show(moduleView("a"));
    first.mirror.close();
    const second = world({}, first.api);
    await second.clock.advance(60_000);
    const before = first.api.writes.length;
    await second.show(moduleView("a"));
    expect(first.api.writes.length).toBe(before);
  });

  it("keeps transition times over what came and went unwritten", async () => {
    const first = world();
    await first.show(moduleView("a"));
    const times = (): unknown =>
      first.api
        .module("a")
        ?.status?.conditions?.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]);
    const before = times();
    first.mirror.close();
    const second = world({}, first.api);
    // A start knows nothing of a module at first.
    const blank = moduleView("a", { enabled: false, enabledBy: "none", phase: "onStartup" });
    second.mirror.update({ view: viewOf([blank]), queues: [] });
    await second.show(moduleView("a", { issues: ["new"] }));
    await second.clock.advance(2000);
    expect(first.api.module("a")?.status?.conditions?.[0]?.message).toContain("new");
    expect(times()).toEqual(before);
  });

  it("moves the digest with its Reconciling at once, also within a second of the last write", async () => {
    const { api, show } = world();
    await show(moduleView("a"));
    await show(moduleView("a", { configDigest: "v1-c2" }));
    expect(api.module("a")).toMatchObject({
      metadata: { generation: 2 },
      spec: { configDigest: displayDigest("v1-c2") },
      status: { state: "Pending", observedGeneration: 2 },
    });
    await show(moduleView("a", { configDigest: "v1-c3" }));
    expect(api.module("a")).toMatchObject({ metadata: { generation: 3 }, status: { observedGeneration: 3 } });
  });

  it("writes the first change of a burst at once and the rest once a second", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    const before = patches(api, "a").length;
    for (let i = 1; i <= 10; i++) await show(moduleView("a", { lastRun: finished({ attempts: i }) }));
    expect(patches(api, "a").length).toBe(before + 1);
    await clock.advance(1000);
    expect(patches(api, "a").length).toBe(before + 2);
    expect(api.module("a")?.status).toMatchObject({ lastRun: { attempts: 10 } });
  });

  describe("says that all is well after the modules do", () => {
    const names = Array.from({ length: 30 }, (_, index) => `m${index}`);
    const ready = names.map((name) => moduleView(name));
    const waiting = { phase: "new", handled: {}, lastRun: undefined } as const;
    /** A world in which all modules run; `early` lists modules that were not Ready when the AddonOperator was. */
    async function running() {
      const it = world();
      const { api, clock, show } = it;
      await show(...names.map((name) => moduleView(name, waiting)));
      await clock.advance(5000);
      const early: string[] = [];
      const { onChange } = api;
      api.onChange = (event, object) => {
        if (object.kind === "AddonOperator" && api.operator()?.status?.state === "Ready")
          early.push(...names.filter((name) => state(api, name) !== "Ready"));
        onChange(event, object);
      };
      return { ...it, early };
    }
    const operatorState = (api: FakeApi) => api.operator()?.status?.state;

    it("in the same turn, and within the pause between two writes of a module", async () => {
      const { api, clock, show, early } = await running();
      // The statuses of these were written just now, and that of the AddonOperator was not.
      const changed = names.slice(0, 15).map((name) => moduleView(name, { ...waiting, lastRun: finished() }));
      await show(...changed, ...names.slice(15).map((name) => moduleView(name, waiting)));
      await show(...ready);
      await clock.advance(2000);
      expect([operatorState(api), early]).toEqual(["Ready", []]);
    });

    it("without those whose writes fail", async () => {
      const { api, clock, show } = await running();
      api.fail = ({ path }) => (path.includes("/addonmodules/m3/") ? refused() : undefined);
      await show(...ready);
      await clock.advance(2000);
      expect([operatorState(api), state(api, "m3"), state(api, "m4")]).toEqual(["Ready", "Pending", "Ready"]);
    });

    it("within five seconds, if modules change all the time", async () => {
      const { api, clock, show } = await running();
      for (let attempts = 1; attempts <= 60; attempts += 1) {
        await show(...ready.slice(1), moduleView("m0", { lastRun: finished({ attempts }) }));
        await clock.advance(50);
      }
      expect(operatorState(api)).toBe("Ready");
    });
  });

  it("does not announce a run shorter than a second, and does announce a longer one by itself", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    const run = underWay(clock.now());
    await show(moduleView("a", { activity: "running", lastRun: run }));
    await clock.advance(900);
    expect(state(api, "a")).toBe("Ready");
    await clock.advance(100);
    expect(state(api, "a")).toBe("Running");
  });

  it("lets changes of words only wait while a module waits", async () => {
    const { api, clock, showWaiting } = world();
    const waiting = moduleView("a", { handled: {} });
    await showWaiting(waiting, "m9");
    const before = patches(api, "a").length;
    for (let i = 8; i > 0; i--) {
      await showWaiting(waiting, `m${i}`);
      await clock.advance(2000);
    }
    expect(patches(api, "a").length).toBe(before);
    await clock.advance(30_000);
    expect(patches(api, "a").length).toBe(before + 1);
  });

  it("writes what a module waits for when that has not changed for three seconds", async () => {
    const { api, clock, showWaiting } = world();
    const waiting = moduleView("a", { handled: {} });
    const message = (): string | undefined => api.module("a")?.status?.conditions?.[0]?.message;
    await showWaiting(waiting, "m");
    await clock.advance(6000);
    await showWaiting(waiting, "hang");
    await clock.advance(3000);
    expect(message()).toContain("hang");
  });

  it("does not let a release under way delay the news that it is done", async () => {
    const { api, clock, show, showWaiting } = world();
    const waiting = { handled: {} };
    await showWaiting(moduleView("a", waiting), "b");
    await clock.advance(5000);
    const release = { ...moduleView("a").release!, status: "pending-install" };
    await showWaiting(moduleView("a", { ...waiting, release }), "b");
    await show(moduleView("a"));
    expect(state(api, "a")).toBe("Ready");
  });

  it("removes the objects of modules that are gone, but none while the directories are not read", async () => {
    const first = world();
    await first.show(moduleView("a"), moduleView("b"));
    first.mirror.close();
    const { api, mirror, clock, show } = world({}, first.api);
    mirror.update({ view: viewOf([], { boot: "loading" }), queues: [] });
    await clock.advance(100);
    expect(api.module("b")).toBeDefined();
    await show(moduleView("a"));
    await clock.advance(1000);
    expect(api.module("a")).toBeDefined();
    expect(api.module("b")).toBeUndefined();
  });

  it("projects nothing in the first second after a restart, which the first converge needs", async () => {
    const first = world();
    await first.show(moduleView("a"));
    first.mirror.close();
    const { mirror, clock } = world({}, first.api);
    let reads = 0;
    const readQueues = (): StateSnapshot["queues"] => {
      reads += 1;
      return [];
    };
    for (const module of [moduleView("a", { handled: {} }), moduleView("a")]) {
      mirror.update({
        view: viewOf([module]),
        get queues() {
          return readQueues();
        },
      });
      await clock.advance(400);
    }
    expect(reads).toBe(0);
    await clock.advance(200);
    expect(reads).toBeGreaterThan(0);
  });

  it("reports a refused start on the AddonOperator only, and modules keep their last status", async () => {
    const first = world();
    await first.show(moduleView("a"));
    first.mirror.close();
    const before = structuredClone(first.api.module("a"));
    const { api, mirror } = world({}, first.api);
    const blank = moduleView("a", { isDiscovered: false, enabled: false, enabledBy: "none", handled: {} });
    const problems = [{ file: "ConfigMap addon-operator", message: "no YAML" }];
    const config = { ...viewOf([]).config, condition: "invalid", problems, isInForce: false } as const;
    mirror.update({ view: viewOf([blank], { boot: "loading", config }), queues: [] });
    await mirror.flush();
    expect(api.operator()?.status).toMatchObject({ state: "Invalid" });
    expect(api.module("a")).toEqual(before);
  });

  it("brings back what someone deletes, and leaves a summary alone on its way out", async () => {
    const { api, clock, mirror, show } = world();
    await show(moduleView("a"));
    api.remove("addonmodules/a");
    await settle();
    expect(state(api, "a")).toBe("Ready");
    api.remove("addonoperators/addon-operator");
    await mirror.flush();
    expect(api.operator()).toBeUndefined();
    await clock.advance(2000);
    expect(api.operator()?.status).toMatchObject({ state: "Ready" });
    const owner = api.operator()?.metadata.uid;
    expect(api.module("a")?.metadata.ownerReferences?.[0]?.uid).toBe(owner);
  });

  it.each([
    ["spec", { spec: { enabled: false } }],
    ["an added field", { status: { absent: ["x"] } }],
    ["status", { status: { state: "Invalid" } }],
    ["conditions", { status: { conditions: null } }],
    ["labels", { metadata: { labels: { "addon-operator.io/managed-by": null } } }],
  ])("puts right a hand edit of %s", async (_, change) => {
    const { api, clock, show } = world();
    api.oracle.record = () => {};
    await show(moduleView("a"));
    const { spec, status } = structuredClone(api.module("a") as never) as { spec: unknown; status: object };
    await clock.advance(5000);
    api.edit("addonmodules/a", change);
    await clock.advance(1000);
    const after = api.module("a");
    const generation = after?.metadata.generation;
    expect(after?.spec).toEqual(spec);
    const conditions = after?.status?.conditions?.map(({ type, reason }) => ({ type, reason }));
    expect(after?.status).toMatchObject({ state: "Ready", observedGeneration: generation });
    expect(conditions?.map(({ type }) => type)).toEqual(["Ready", "Enabled"]);
    expect(Object.keys(after?.status ?? {}).toSorted()).toEqual(Object.keys(status).toSorted());
    expect(after?.metadata.labels).toHaveProperty(["addon-operator.io/managed-by"]);
  });

  it("notices a hand edit made while a write is under way", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    let open = (): void => {};
    api.gate = new Promise((resolve) => {
      open = resolve;
    });
    await show(moduleView("a", { lastRun: finished({ attempts: 7 }) }));
    api.edit("addonmodules/a", { status: { state: "Pending" } });
    api.gate = undefined;
    open();
    await clock.advance(2000);
    expect(api.module("a")?.status).toMatchObject({ state: "Ready", lastRun: { attempts: 7 } });
  });

  it("brings back what is deleted before the answer to a write of it comes", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    let open = (): void => {};
    api.late = new Promise((resolve) => {
      open = resolve;
    });
    await show(moduleView("a", { lastRun: finished({ attempts: 7 }) }));
    api.remove("addonmodules/a");
    api.late = undefined;
    open();
    await clock.advance(2000);
    expect(api.module("a")?.status).toMatchObject({ lastRun: { attempts: 7 } });
  });

  it("brings back what a list no longer has, though no watch said that it went", async () => {
    const { api, clock, watch, show } = world();
    const report = api.onChange;
    api.onChange = () => {};
    await show(moduleView("a"), moduleView("b"));
    api.remove("addonmodules/a");
    const b = api.edit("addonmodules/b", {});
    api.onChange = report;
    const before = api.writes.length;
    report("applied", b);
    void watch()?.onSynced(b.metadata.resourceVersion ?? "");
    await clock.advance(2000);
    expect(state(api, "a")).toBe("Ready");
    expect(
      api.writes.slice(before).every(({ path, method }) => method === "POST" || path.includes("/a")),
    ).toBe(true);
  });

  it("does not take for gone what was made after the list", async () => {
    const { api, clock, watch, show } = world();
    const report = api.onChange;
    api.onChange = () => {};
    await show(moduleView("a"));
    api.onChange = report;
    const before = api.writes.length;
    const version = String(Number(api.module("a")?.metadata.resourceVersion) - 1);
    void watch()?.onSynced(version);
    await clock.advance(2000);
    expect(api.writes.length).toBe(before);
  });

  it("leaves objects of another operator and objects without module alone", async () => {
    const other = new FakeApi();
    const { show, api } = world({ operatorName: "other" }, other);
    await show(moduleView("a"));
    api.oracle.seen.length = 0;
    const mine = world({}, other);
    await mine.show(moduleView("b"));
    expect(other.module("a")?.status?.state).toBe("Ready");
    await mine.show(moduleView("a"), moduleView("b"));
    expect(mine.warnings).toEqual(["AddonModule belongs to another operator and is left alone"]);
  });

  it("says once that the CRDs are missing, and goes on when they appear", async () => {
    const api = new FakeApi();
    api.fail = () => missingKind();
    const { clock, warnings, show } = world({}, api);
    await show(moduleView("a"));
    await clock.advance(60_000);
    expect(warnings).toEqual([expect.stringContaining("install the CRDs")]);
    api.fail = () => undefined;
    await clock.advance(10_000);
    expect(state(api, "a")).toBe("Ready");
  });

  it("picks up when the CRDs vanish at run time and come back", async () => {
    const { api, clock, warnings, show } = world();
    await show(moduleView("a"));
    api.objects.clear();
    api.fail = () => missingKind();
    await show(moduleView("a", { configDigest: "v1-c2" }));
    await clock.advance(20_000);
    expect(warnings.length).toBe(1);
    api.fail = () => undefined;
    await clock.advance(12_000);
    expect(state(api, "a")).toBe("Pending");
  });

  it.each([
    ["no answer", refused()],
    ["503", unavailable()],
    ["429", new ApiError({ status: 429, reason: "TooManyRequests", message: "slow", retryAfterMs: 3000 })],
    ["conflict", new ApiError({ status: 409, reason: "Conflict", message: "moved", details: { name: "a" } })],
    ["unprocessable", new ApiError({ status: 422, reason: "Invalid", message: "no such path" })],
    ["forbidden", new ApiError({ status: 403, reason: "Forbidden", message: "no", details: { name: "a" } })],
  ])("survives %s and writes the newest state afterwards", async (_, error) => {
    const ends = new Set<string>();
    const statusWritten = (kind: string, result: string) => void ends.add(`${kind} ${result}`);
    const { api, clock, show } = world({ report: { ...QUIET_MIRROR.report, statusWritten } });
    await show(moduleView("a"));
    await clock.advance(5000);
    expect([...ends]).toEqual(["AddonOperator written", "AddonModule written"]);
    api.fail = (request) => (request.method === "PATCH" ? error : undefined);
    await show(moduleView("a", { configDigest: "v1-c2" }));
    await clock.advance(120_000);
    expect(ends).toContain("AddonModule failed");
    const tries = api.writes.length;
    await show(moduleView("a", { configDigest: "v1-c3", handled: basis({ config: "v1-c3" }) }));
    expect(tries).toBeLessThan(100);
    api.fail = () => undefined;
    await clock.advance(300_000);
    expect(api.module("a")).toMatchObject({
      spec: { configDigest: displayDigest("v1-c3") },
      status: { state: "Ready" },
    });
  });

  it("sends nothing while the server requests a pause, and then writes the newest state", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    // A client waits for at most half a minute.
    const retryAfterMs = 600_000;
    const busy = new ApiError({ status: 503, reason: "ServiceUnavailable", message: "later", retryAfterMs });
    let requests = 0;
    api.fail = () => {
      requests += 1;
      return busy;
    };
    await show(moduleView("a", { activity: "running", lastRun: underWay(clock.now() - 2000) }));
    await clock.advance(1000);
    const first = requests;
    expect(first).toBeGreaterThan(0);
    await clock.advance(28_000);
    expect(requests).toBe(first);
    api.fail = () => undefined;
    await show(moduleView("a", { lastRun: finished({ attempts: 5 }) }));
    await clock.advance(5000);
    expect(api.module("a")?.status).toMatchObject({ state: "Ready", lastRun: { attempts: 5 } });
  });

  it.each([
    ["back", -48],
    ["ahead", 48],
  ])("goes on when the wall clock is set %s by two days", async (_, hours) => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    clock.setWall(hours * 3_600_000);
    await show(moduleView("a", { activity: "running", lastRun: underWay(T0) }));
    await clock.advance(2000);
    expect(state(api, "a")).toBe("Running");
    clock.setWall(-hours * 3_600_000);
    await show(moduleView("a"));
    await clock.advance(2000);
    expect(state(api, "a")).toBe("Ready");
  });

  it("does not fight with a server that drops a field", async () => {
    const { api, clock, show } = world();
    api.drops = "release";
    await show(moduleView("a"));
    expect(api.writes.length).toBe(4);
    await clock.advance(10_000);
    await show(moduleView("a", { lastRun: finished({ attempts: 2 }) }));
    await clock.advance(10_000);
    expect(api.writes.length).toBe(5);
  });

  it("writes a status that the server cannot store as a whole once after a restart", async () => {
    const first = world();
    first.api.drops = "release";
    await first.show(moduleView("a"));
    first.mirror.close();
    const { api, clock, show } = world({}, first.api);
    const before = patches(api, "a").length;
    await clock.advance(10_000);
    await show(moduleView("a"));
    await clock.advance(10_000);
    await show(moduleView("a"));
    await clock.advance(10_000);
    expect(patches(api, "a").length).toBe(before + 1);
  });

  it("does not write a status over a label that another operator sets at the same time", async () => {
    const { api, clock, show } = world();
    await show(moduleView("a"));
    await clock.advance(5000);
    const { onChange } = api;
    // The watch is late.
    api.onChange = () => {};
    api.edit("addonmodules/a", { metadata: { labels: { "addon-operator.io/managed-by": "other" } } });
    const theirs = structuredClone(api.module("a"));
    api.onChange = onChange;
    await show(moduleView("a", { lastRun: finished({ attempts: 7 }) }));
    await clock.advance(60_000);
    expect(api.module("a")).toEqual(theirs);
  });

  it("removes the annotation of an ended confirmation, but no other value of it", async () => {
    const key = "addon-operator.io/confirm-crds";
    const { api, clock, show } = world();
    await show(moduleView("a"));
    const given = async (value: string): Promise<void> => {
      api.edit("addonmodules/a", { metadata: { annotations: { [key]: value, other: "x" } } });
      await clock.advance(5000);
      await settle();
    };
    await given("one");
    await show(moduleView("a", { endedConfirmations: { [key]: "one" } }));
    await settle();
    expect(api.module("a")?.metadata.annotations).toEqual({ other: "x" });
    await given("two");
    expect(api.module("a")?.metadata.annotations).toEqual({ [key]: "two", other: "x" });
  });

  it("hands on the annotations of each object", async () => {
    const requested: string[] = [];
    const key = "reconcile.addon-operator.io/requestedAt";
    const answered = new Set<string>();
    const handleAnnotations: MirrorOptions["annotations"]["handleAnnotations"] = (
      module,
      annotations,
      token,
    ) => {
      if (annotations?.[key] !== undefined) requested.push(`${module}: ${annotations[key]}`);
      if (token !== undefined) answered.add(`${module}: ${token}`);
    };
    const { api, clock, show } = world({ annotations: { handleAnnotations } });
    await show(moduleView("a"));
    api.edit("addonmodules/a", { metadata: { annotations: { [key]: "one" } } });
    api.edit("addonoperators/addon-operator", { metadata: { annotations: { [key]: "two" } } });
    expect([...new Set(requested)]).toEqual(["a: one", "undefined: two"]);
    await show(moduleView("a", { requestedToken: "one" }));
    expect(state(api, "a")).toBe("Ready");
    await show(moduleView("a", { requestedToken: "one", handled: basis({ token: "one" }) }));
    await clock.advance(1000);
    // What an operator answered is known to the next one, before anything has run there.
    const next = world({ annotations: { handleAnnotations } }, api);
    await next.show(moduleView("a"));
    expect([...answered]).toEqual(["a: one"]);
    // What a user writes into the status afterwards is no answer.
    api.edit("addonmodules/a", { status: { lastHandledReconcileAt: "two" } });
    api.edit("addonoperators/addon-operator", { status: { lastHandledReconcileAt: "two" } });
    await clock.advance(5000);
    await settle();
    expect([...answered]).toEqual(["a: one"]);
  });

  it("an operator that has just begun is told how long runs took, as the statuses keep it", async () => {
    const { api, show } = world();
    await show(moduleView("a", { runSeconds: [2.5, 3] }), moduleView("b"));
    const reported: unknown[] = [];
    const runSecondsRead = (...said: unknown[]) => void reported.push(said);
    const next = world({ report: { ...QUIET_MIRROR.report, runSecondsRead } }, api);
    await next.show(moduleView("a"), moduleView("b"));
    await next.show(moduleView("a"), moduleView("b"));
    expect(reported).toEqual([["a", [2.5, 3]]]);
  });

  it("speaks of a new generation of the summary only when the ConfigMap has been read again", async () => {
    let read = (): void => {};
    const refresh = () => new Promise<boolean>((resolve) => (read = () => resolve(true)));
    const { api, clock, show } = world({ config: { refresh } });
    await show(moduleView("a"));
    api.edit("addonoperators/addon-operator", { spec: { configDigest: "from-git" } });
    await clock.advance(5000);
    expect(api.operator()).toMatchObject({ metadata: { generation: 2 }, status: { observedGeneration: 1 } });
    read();
    await clock.advance(1000);
    expect(api.operator()?.status?.observedGeneration).toBe(2);
  });

  it("flushes what is not written yet, and survives a dead server", async () => {
    const { api, mirror, show } = world();
    await show(moduleView("a"));
    await show(moduleView("a", { lastRun: finished({ attempts: 3 }) }));
    await mirror.flush();
    expect(api.module("a")?.status).toMatchObject({ lastRun: { attempts: 3 } });
    api.fail = () => refused();
    mirror.update({ view: viewOf([moduleView("a", { lastRun: finished({ attempts: 4 }) })]), queues: [] });
    await mirror.flush();
    expect(api.module("a")?.status).toMatchObject({ lastRun: { attempts: 3 } });
  });

  it("survives a view that cannot be shown", async () => {
    const { api, show } = world();
    const values = () => {
      throw new Error("no values");
    };
    await show(moduleView("a", { values }));
    await show(moduleView("a"));
    expect(state(api, "a")).toBe("Ready");
  });

  it("writes at most 450 times for a converge of 100 modules", async () => {
    const { api, clock, mirror } = world();
    const names = Array.from({ length: 100 }, (_, i) => `m${String(i).padStart(3, "0")}`);
    const never = {
      phase: "new",
      lastRun: undefined,
      release: undefined,
      handled: {},
    } as const;
    for (let turn = 0; turn <= 100; turn++) {
      const check = (hidden: boolean) =>
        names.map((name, i) => {
          if (i < turn) return moduleView(name);
          if (i === turn && hidden)
            return moduleView(name, { ...never, activity: "running", lastRun: underWay(clock.now()) });
          return moduleView(name, never);
        });
      const converging = { boot: turn < 100 ? "converging" : "running" } as const;
      const [head = "", ...waiting] = names.slice(turn);
      mirror.update({ view: viewOf(check(true), converging), queues: queueOf(head, ...waiting) });
      await clock.advance(140);
    }
    await clock.advance(40_000);
    expect(api.module("m099")?.status?.state).toBe("Ready");
    expect(api.writes.length).toBeLessThanOrEqual(450);
  });

  it("computes statuses once a second during a converge, and at once at its end", async () => {
    const { clock, mirror } = world();
    const project = vi.spyOn(mirror, "project");
    const converging = { ...viewOf([]).converge, phase: "modules" } as const;
    const modules = [moduleView("a"), moduleView("b")];
    mirror.update({ view: viewOf(modules, { converge: converging }), queues: [] });
    await clock.advance(950);
    project.mockClear();
    for (let change = 0; change < 50; change++) {
      mirror.update({ view: viewOf(modules, { converge: converging }), queues: [] });
      await clock.advance(100);
    }
    expect(project).toHaveBeenCalledTimes(5);
    mirror.update({ view: viewOf(modules, { converge: converging }), queues: [] });
    await clock.advance(10);
    mirror.update({ view: viewOf(modules), queues: [] });
    await clock.advance(10);
    expect(project).toHaveBeenCalledTimes(6);
  });

  it("writes changes of words of many modules five times a second at most", async () => {
    const { api, clock, mirror } = world();
    const names = Array.from({ length: 300 }, (_, i) => `m${i}`);
    const view = viewOf(names.map((name) => moduleView(name, { handled: {} })));
    const showHead = async (head: string): Promise<void> => {
      mirror.update({ view, queues: queueOf(head, ...names) });
      await clock.advance(2000);
    };
    for (let i = 0; i < 15; i++) await showHead(`first-${i}`);
    const before = patches(api, "m").length;
    for (let i = 0; i < 60; i++) await showHead(`next-${i}`);
    const written = patches(api, "m").length - before;
    expect(written).toBeGreaterThan(0);
    expect(written).toBeLessThanOrEqual(5 * 120);
  });
});
