import { describe, expect, test } from "vitest";
import type { ObjectRef, Release, Releases } from "../../src/helm/index.ts";
import { ApiError, CONFIG_MAPS, NAMESPACES } from "../../src/kube/index.ts";
import type { WatchConsumer, WatchSpec, WatchedObject } from "../../src/kube/index.ts";
import type { HealthOverrides } from "../../src/base/model/index.ts";
import { compileCel, Scope, silentLogger } from "../../src/base/index.ts";
import { WatchedReleases } from "../../src/releases/index.ts";
import { settle } from "../support/clock.ts";
import { EngineLab } from "../support/engine-lab.ts";
import { kindsOf } from "../support/kinds.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";
import { begin, reread } from "../support/state.ts";

type KubeParts = Omit<
  ConstructorParameters<typeof WatchedReleases>[0],
  "state" | "releases" | "scope" | "onAbsent" | "onHealth"
>;

const map = (name: string): ObjectRef => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  namespace: undefined,
  name,
});

/** One module with its release; server and watches are in the hands of the test. */
async function lab(status = "deployed") {
  const engine = new EngineLab({ modules: [{ name: "one", enabled: true }] });
  await engine.start();
  // What is due is not done here.
  engine.engine.stop();
  const { clock, state } = engine;
  const specs: WatchSpec[] = [];
  const consumers: WatchConsumer[] = [];
  const there = new Set<string>();
  const requested: string[] = [];
  const warnings: string[] = [];
  const counted: string[] = [];
  const made = { objects: [map("a"), map("b")], revision: 1, status, broken: undefined as Error | undefined };
  let changed: (module: string) => void = () => {};
  const base = {
    clock,
    namespace: "home",
    healthTimeoutMs: 300_000,
    logger: {
      ...silentLogger,
      warn: (message: string, fields?: object) => void warnings.push(`${message} ${JSON.stringify(fields)}`),
    },
    hub: {
      subscribe: (spec: WatchSpec, consumer: WatchConsumer) => {
        specs.push(spec);
        consumers.push(consumer);
        return { whenSynced: Promise.resolve(), close: () => {} };
      },
    },
    kinds: kindsOf(clock, (kind) => (kind === "Namespace" ? NAMESPACES : CONFIG_MAPS)),
    client: {
      json: ({ path }: { path: string }) => {
        const name = path.split("/").at(-1) ?? "";
        requested.push(name);
        if (there.has(name)) return Promise.resolve({ metadata: { name } });
        return Promise.reject(new ApiError({ status: 404, reason: "NotFound", message: "gone" }));
      },
    },
  } as unknown as KubeParts;
  const release = (): Release => ({
    name: "one",
    namespace: "home",
    revision: made.revision,
    status: made.status,
    chartVersion: "1.0.0",
    manifestChecksum: undefined,
    lastDeployed: 5,
  });
  const releases = {
    observed: {
      get: release,
      readLastingRefs: () => (made.broken ? Promise.reject(made.broken) : Promise.resolve(made.objects)),
    },
    store: { onChange: (listener: typeof changed) => void (changed = listener) },
    goodRevisions: { recordHealth: () => {} },
  } as unknown as Releases;
  const onAbsent = (_module: string, name: string): void => void counted.push(name);
  const scope = new Scope();
  const followed = new WatchedReleases({
    ...base,
    state,
    releases,
    scope,
    report: { objectMissing: onAbsent, objectDrifted: () => {}, healthChanged: () => {} },
  });
  const listed = async (names: readonly string[]): Promise<void> => {
    await settle();
    const consumer = consumers.at(-1);
    for (const name of names) void consumer?.onListed(objectOf(name));
    void consumer?.onSynced("1");
    await settle();
  };
  const deleted = async (name: string): Promise<void> => {
    there.delete(name);
    void consumers.at(-1)?.onDeleted(objectOf(name), true);
    await settle();
  };
  return {
    clock,
    state,
    specs,
    consumers,
    made,
    there,
    requested,
    counted,
    followed,
    scope,
    listed,
    deleted,
    check: async () => {
      changed("one");
      await settle();
    },
    warnings: () => warnings.splice(0),
    absent: () => state.module("one")?.missingObjects,
  };
}

const objectOf = (name: string): WatchedObject =>
  ({
    metadata: { name, namespace: "home", managedFields: [{ manager: "helm", fieldsV1: {} }] },
  }) as unknown as WatchedObject;

test("what addon.yaml says of health counts from the next run on", async () => {
  const { clock, check, listed, state, deleted } = await lab();
  const health = () => {
    const { status, counts } = state.module("one")?.health ?? {};
    return [status, counts?.total];
  };
  /** The file says so, and a run has ended. */
  const says = async (terms: HealthOverrides): Promise<void> => {
    reread(state, "one", { health: terms });
    await check();
    await clock.advance(500);
  };
  await check();
  await listed(["a", "b"]);
  await clock.advance(1000);
  expect(health()).toEqual(["True", 2]);
  await says({ ignore: [{ kind: "ConfigMap", name: "b" }, { kind: "Job" }] });
  await deleted("b");
  expect(health()).toEqual(["True", 1]);
  await says({ ignore: [{ kind: "ConfigMap" }] });
  expect(health()).toEqual(["True", 0]);
  await says({ timeout: "10m" });
  expect(health()).toEqual(["Unknown", 2]);
});

test("a module that is off has neither health nor missing objects, and nothing of it is watched", async () => {
  const { clock, check, listed, state, followed, deleted } = await lab();
  await check();
  await listed(["a", "b"]);
  await clock.advance(2000);
  expect(state.module("one")?.health?.status).toBe("True");
  for (let round = 0; round < 2; round += 1) await deleted("a");
  expect(state.module("one")?.deferredObjects).toEqual(["home/ConfigMap/a"]);
  state.recordModule("one", "enablementDecided", { enabled: false, by: "configmap" });
  await check();
  expect(state.module("one")).toMatchObject({ health: undefined, deferredObjects: [] });
  expect(followed.getObjectNames("one")).toBeUndefined();
});

test("a module whose directory returns has health and missing objects again", async () => {
  const { clock, check, listed, state, followed, deleted } = await lab();
  const { tree } = state;
  await check();
  await listed(["a", "b"]);
  await clock.advance(2000);
  state.recordTree({ ...tree, modules: [] });
  await settle();
  expect(followed.getObjectNames("one")).toBeUndefined();
  state.recordTree(tree);
  state.recordModule("one", "enablementDecided", { enabled: true, by: "configmap" });
  await check();
  await listed(["a", "b"]);
  await clock.advance(2000);
  expect(state.module("one")?.health?.status).toBe("True");
  await deleted("a");
  expect(state.module("one")?.missingObjects).toEqual(["home/ConfigMap/a"]);
});

test("a check of addon.yaml judges its kind, in a watch of whole objects", async () => {
  const { clock, check, state, consumers, specs } = await lab();
  const ofKind = { apiVersion: "v1", kind: "ConfigMap", cel: "object.data.done == 'yes'" };
  // The library is loaded with the first expression.
  await compileCel(ofKind.cel);
  reread(state, "one", { health: { checks: [ofKind] } });
  await check();
  const seen = (name: string, done: string): void =>
    void consumers.at(-1)?.onListed({ ...objectOf(name), data: { done } });
  seen("a", "yes");
  seen("b", "no");
  void consumers.at(-1)?.onSynced("1");
  await clock.advance(1000);
  expect(specs.at(-1)?.metadataOnly).toBe(false);
  expect(state.module("one")?.health).toMatchObject({
    status: "Unknown",
    message: "ConfigMap home/b: does not meet its check",
  });
  void consumers.at(-1)?.onApplied({ ...objectOf("b"), data: { done: "yes" } });
  expect(state.module("one")?.health?.status).toBe("True");
});

test("an object that the server has and the watch does not is assessed by the answer", async () => {
  const { clock, check, listed, state, there, deleted } = await lab();
  there.add("b");
  await check();
  await listed(["a"]);
  await clock.advance(1000);
  expect(state.module("one")?.health?.status).toBe("True");
  await deleted("b");
  expect(state.module("one")?.health?.message).toBe("ConfigMap home/b: is not there");
});

describe("objects of releases", () => {
  test("that cannot be known are reported for as long as their record is broken, not while the server is away", async () => {
    const { clock, made, check, state } = await lab();
    const unread = () => [...state.view.modules.values()].map((module) => module.releaseReadError);
    made.broken = new Error("no answer");
    await check();
    expect(unread()).toEqual([undefined]);
    made.broken = new SyntaxError("it is no JSON");
    await check();
    expect(unread()).toEqual(["it is no JSON"]);
    made.broken = undefined;
    await clock.advance(10_000);
    await settle();
    expect(unread()).toEqual([undefined]);
  });

  test("that are gone are reported, also while others wait for their run", async () => {
    const { there, check, listed, deleted, warnings, absent, counted } = await lab();
    there.add("a").add("b");
    await check();
    await listed(["a", "b"]);
    await deleted("a");
    expect(absent()).toEqual(["home/ConfigMap/a"]);
    await deleted("b");
    expect(absent()).toEqual(["home/ConfigMap/a", "home/ConfigMap/b"]);
    expect(counted).toEqual(absent());
    expect(warnings()).toEqual([
      `Objects of a release are missing {"module":"one","objects":["home/ConfigMap/a"]}`,
      `Objects of a release are missing {"module":"one","objects":["home/ConfigMap/b"]}`,
    ]);
  });

  test("that are gone again before their back-off ends count as missing, not as to be restored", async () => {
    const { clock, state, there, consumers, check, listed, deleted, absent } = await lab();
    const view = () => state.view.modules.get("one");
    there.add("a").add("b");
    await check();
    await listed(["a", "b"]);
    await deleted("a");
    // It was restored, and is deleted again.
    state.recordModule("one", "objectsRestored", { objects: ["home/ConfigMap/a"], stillMissing: [] });
    there.add("a");
    void consumers[0]?.onApplied(objectOf("a"));
    await deleted("a");
    expect([absent(), view()?.deferredObjects]).toEqual([[], ["home/ConfigMap/a"]]);
    await clock.advance(1000);
    expect([absent(), view()?.deferredObjects]).toEqual([["home/ConfigMap/a"], []]);
  });

  test("that a failed release never had are reported as such, and nothing is run for them", async () => {
    const { there, made, check, listed, deleted, warnings, absent, counted } = await lab("failed");
    there.add("a");
    await check();
    await listed(["a"]);
    expect(warnings()).toEqual([
      `Objects of a release were never created {"module":"one","objects":["home/ConfigMap/b"]}`,
    ]);
    expect(absent()).toEqual([]);
    expect(counted).toEqual([]);
    await deleted("a");
    expect(warnings()[0]).toContain("are missing");
    expect(made.status).toBe("failed");
  });

  test("that an upgrade drops are not missed, whenever their end is heard of", async () => {
    const { state, made, there, check, listed, deleted, warnings, requested } = await lab();
    there.add("a").add("b");
    await check();
    await listed(["a", "b"]);
    begin(state, "one");
    made.objects = [map("b")];
    there.delete("a");
    // The run has ended, and its revision is known, before the watch reports.
    made.revision = 2;
    state.recordModule("one", "activityEnded");
    await deleted("a");
    expect(requested).toEqual([]);
    await check();
    expect(warnings()).toEqual([]);
    await deleted("b");
    expect(warnings()).toEqual([
      `Objects of a release are missing {"module":"one","objects":["home/ConfigMap/b"]}`,
    ]);
  });

  test("that go while their module runs are reported once, at its end, if they are not back", async () => {
    const { state, there, check, listed, deleted, warnings, absent } = await lab();
    there.add("a").add("b");
    await check();
    await listed(["a", "b"]);
    begin(state, "one");
    await deleted("a");
    await deleted("b");
    there.add("a");
    state.recordModule("one", "activityEnded");
    await check();
    expect(absent()).toEqual(["home/ConfigMap/b"]);
    expect(warnings().length).toBe(1);
  });

  test("that are cluster-wide are reported without a namespace; of many only some are named in the log", async () => {
    const { made, check, listed, warnings, absent } = await lab();
    made.objects = Array.from({ length: 30 }, (_, index) => ({
      ...map(`team-${index}`),
      kind: "Namespace",
    }));
    await check();
    await listed([]);
    expect(absent()?.[0]).toBe("Namespace/team-0");
    expect(absent()).toHaveLength(30);
    expect(warnings()[0]).toMatch(/"Namespace\/team-19"\],"more":10}$/);
  });

  test("bring version and time of the release with them", async () => {
    const { state, check } = await lab();
    await check();
    expect(state.module("one")?.release).toMatchObject({ chartVersion: "1.0.0", lastDeployed: 5 });
  });
});

test("a release that cannot be read keeps its watches, is reported once and read again", async () => {
  const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
  await lab.start();
  const lines: LoggedLine[] = [];
  let answer: () => Promise<unknown> = () => Promise.resolve([map("a")]);
  const base = {
    clock: lab.clock,
    logger: keepLog(lines),
    namespace: "ops",
    hub: { subscribe: () => ({ whenSynced: Promise.resolve(), close: () => {} }) },
    kinds: kindsOf(lab.clock, () => undefined),
  } as unknown as KubeParts;
  const releases = {
    store: { onChange: () => {} },
    observed: {
      get: () => ({ name: "one", namespace: "ops", revision: 1, status: "deployed" }),
      readLastingRefs: () => answer(),
    },
    goodRevisions: { recordHealth: () => {} },
  } as unknown as Releases;
  const scope = new Scope();
  const followed = new WatchedReleases({
    ...base,
    state: lab.state,
    releases,
    scope,
    report: { objectMissing: () => {}, objectDrifted: () => {}, healthChanged: () => {} },
  });
  const check = async (): Promise<readonly string[] | undefined> => {
    followed.recordRelease("one");
    await lab.run();
    return followed.getObjectNames("one");
  };
  expect(await check()).toEqual(["ops/ConfigMap/a"]);
  answer = () => Promise.reject(new Error("the server is busy"));
  expect(await check()).toEqual(["ops/ConfigMap/a"]);
  expect(await check()).toEqual(["ops/ConfigMap/a"]);
  expect(lines).toEqual([
    [
      "warn",
      "A release cannot be read; the objects known before stay watched",
      { module: "one", error: "the server is busy" },
    ],
  ]);
  answer = () => Promise.resolve([map("a"), map("b")]);
  await lab.run(10_000);
  expect(followed.getObjectNames("one")).toEqual(["ops/ConfigMap/a", "ops/ConfigMap/b"]);
  await scope.close();
  expect(lab.clock.timers).toBe(0);
});
