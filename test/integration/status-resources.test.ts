import { REQUESTED_AT } from "../../src/base/model/index.ts";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { WatchHub, type WatchedObject, connect } from "../../src/kube/index.ts";
import { KnownSecrets, displayDigest, silentLogger, systemClock } from "../../src/base/index.ts";
import type { ModuleView } from "../../src/engine/state/index.ts";
import { ADDON_MODULES, ADDON_OPERATORS, EventWriter, StatusMirror } from "../../src/report/index.ts";
import type { IAddonModule, MirrorOptions } from "../../src/report/index.ts";
import { QUIET_MIRROR, basis, finished, moduleView, viewOf } from "../report/views.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { StatusOracle } from "../support/kstatus.ts";

beforeAll(installCrds);

interface World {
  readonly mirror: StatusMirror;
  readonly namespace: string;
  readonly requested: string[];
  /** Number of calls that changed something. */
  readonly writes: () => number;
  readonly show: (...modules: readonly ModuleView[]) => void;
  readonly module: (name: string) => Promise<IAddonModule>;
  readonly kubectl: (...args: readonly string[]) => Promise<string>;
}

async function world(change: Partial<MirrorOptions> = {}): Promise<World> {
  const namespace = await freshNamespace("status");
  const base = { clock: systemClock, logger: silentLogger };
  const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  const hub = new WatchHub({ client, ...base });
  const requested: string[] = [];
  const handleAnnotations: MirrorOptions["annotations"]["handleAnnotations"] = (module = "", annotations) =>
    void requested.push(`${module}/${annotations?.[REQUESTED_AT]}`);
  const mirror = new StatusMirror({
    client,
    ...base,
    namespace,
    operatorName: "ops",
    ...QUIET_MIRROR,
    annotations: { handleAnnotations },
    ...change,
  });
  const oracle = new StatusOracle();
  const broken: unknown[] = [];
  const unwatch = mirror.watch(hub);
  const record = (object: WatchedObject): void => {
    try {
      oracle.record(object);
    } catch (error) {
      broken.push(error);
    }
  };
  for (const resource of [ADDON_MODULES, ADDON_OPERATORS]) {
    hub.subscribe(
      { resource, namespace },
      { onListed: record, onSynced: () => {}, onApplied: record, onDeleted: () => {} },
    );
  }
  let writes = 0;
  client.onRequest(({ verb }) => (writes += verb === "GET" ? 0 : 1));
  onTestFinished(async () => {
    unwatch();
    mirror.close();
    hub.close();
    await client.close();
    expect(broken).toEqual([]);
  });
  return {
    mirror,
    namespace,
    requested,
    writes: () => writes,
    show: (...modules) => mirror.update({ view: viewOf(modules), queues: [] }),
    module: (name) => cluster().json<IAddonModule>(["get", "amod", name, "-n", namespace]),
    kubectl: (...args) => cluster().kubectl([...args, "-n", namespace]),
  };
}

const wait = (...what: readonly string[]) => ["wait", "--timeout=120s", ...what];

/** Created, then Ready: `--for=create` waits for one object only, and older kubectls take one `--for`. */
async function ready(kubectl: World["kubectl"], ...objects: readonly string[]): Promise<void> {
  for (const object of objects) await kubectl(...wait("--for=create", object));
  await kubectl(...wait("--for=condition=Ready", ...objects));
}

describe("kubectl", () => {
  test("explains every field", async () => {
    const { kubectl } = cluster();
    // `explain` uses what kubectl has cached of the kinds of the server; `get` reads them again.
    await kubectl(["get", "addonmodules", "-A"]);
    expect(await kubectl(["explain", "addonmodule.status.lastRun"])).toContain(
      "The reason why the module ran.",
    );
    expect(await kubectl(["explain", "addonmodule.status.state"])).toMatch(/You\s+must\s+act/);
    expect(await kubectl(["explain", "aop.status.converge"])).toContain("The phase of the converge");
  });

  test("shows the columns", async () => {
    const { show, kubectl } = await world();
    show(moduleView("a"), moduleView("b", { enabled: false, release: undefined, enabledBy: "none" }));
    await ready(kubectl, "amod/a", "amod/b");
    const table = (text: string) =>
      text
        .trim()
        .split("\n")
        .map((line) => line.split(/ {2,}|(?<=\S)\s{2,}/).map((w) => w.trim()));
    const [head, ...rows] = table(await kubectl("get", "addonmodules", "-o", "wide"));
    expect(head).toEqual([
      "NAME",
      "ENABLED",
      "READY",
      "STATE",
      "REVISION",
      "LAST RUN",
      "AGE",
      "MESSAGE",
      "ENABLED-BY",
      "VERSION",
      "SOURCE",
      "NEXT",
    ]);
    expect(rows[0]).toEqual(
      expect.arrayContaining(["a", "true", "True", "Ready", "3", "configmap", "1.2.0"]),
    );
    expect(rows[1]).toEqual(expect.arrayContaining(["b", "false", "True", "Disabled", "none"]));
    expect(await kubectl("get", "addons")).toMatch(/addonoperator.*ops +True +Ready +idle +1\/1/);
  });
});

describe("generation and observedGeneration", () => {
  test("an object that nobody has looked at is not ready for anyone", async () => {
    const { namespace, module } = await world();
    const spec = { enabled: true, order: 1, configDigest: "x" };
    const metadata = { name: "a", namespace };
    await cluster().apply({ apiVersion: "addon-operator.io/v1alpha1", kind: "AddonModule", metadata, spec });
    expect((await module("a")).status).toEqual({ observedGeneration: -1 });
  });

  test("a moved digest is InProgress at once, and a wait returns after the work", async () => {
    const { show, module, kubectl } = await world();
    show(moduleView("a"));
    await ready(kubectl, "amod/a");
    show(moduleView("a", { configDigest: "v1-c2" }));
    await kubectl(...wait(`--for=jsonpath={.spec.configDigest}=${displayDigest("v1-c2")}`, "amod/a"));
    await kubectl(...wait("--for=condition=Reconciling", "amod/a"));
    const waiting = kubectl(...wait("--for=condition=Ready", "amod/a"));
    expect(await module("a")).toMatchObject({ metadata: { generation: 2 }, status: { state: "Pending" } });
    show(moduleView("a", { configDigest: "v1-c2", handled: basis({ config: "v1-c2" }) }));
    await waiting;
    expect(await module("a")).toMatchObject({ status: { state: "Ready", observedGeneration: 2 } });
  });

  test("a token is handed on, and comes back when it was worked on", async () => {
    const { show, kubectl, requested } = await world();
    show(moduleView("a"));
    await kubectl(...wait("--for=create", "amod/a"));
    await kubectl("annotate", "amod/a", "reconcile.addon-operator.io/requestedAt=now-1");
    await eventually(() => requested.includes("a/now-1"), "the token");
    show(moduleView("a", { requestedToken: "now-1" }));
    await kubectl(...wait("--for=condition=Reconciling", "amod/a"));
    show(moduleView("a", { requestedToken: "now-1", handled: basis({ token: "now-1" }) }));
    await kubectl(...wait("--for=jsonpath={.status.lastHandledReconcileAt}=now-1", "amod/a"));
    expect(await kubectl(...wait("--for=condition=Ready", "amod/a"))).toContain("condition met");
  });
});

describe("what others do to the objects", () => {
  test("hand edits of spec and status are put right, deleted objects come back", async () => {
    const { show, module, kubectl } = await world();
    show(moduleView("a"));
    await ready(kubectl, "amod/a");
    const { uid } = (await module("a")).metadata;
    await kubectl("patch", "amod/a", "--type=merge", "-p", '{"spec":{"enabled":false}}');
    await kubectl(...wait("--for=jsonpath={.spec.enabled}=true", "amod/a"));
    await kubectl(...wait("--for=jsonpath={.status.observedGeneration}=3", "amod/a"));
    await kubectl(
      "patch",
      "amod/a",
      "--subresource=status",
      "--type=merge",
      "-p",
      '{"status":{"state":"Invalid","enabledReason":"by hand"}}',
    );
    await kubectl(...wait("--for=jsonpath={.status.state}=Ready", "amod/a"));
    expect((await module("a")).status?.enabledReason).toBeUndefined();
    await kubectl("delete", "amod/a", "--wait=false");
    const back = await eventually(async () => {
      const now = await module("a").catch(() => undefined);
      return now?.metadata.uid !== uid && now?.status?.state === "Ready" && now;
    }, "the object to come back");
    expect(back.spec?.enabled).toBe(true);
  });

  test("null in values is kept, and nothing is written while nothing changes", async () => {
    const { show, mirror, module, kubectl, writes } = await world();
    const values = () => ({ global: {}, a: { off: null, list: [1, null] } });
    show(moduleView("a", { values }));
    await ready(kubectl, "amod/a");
    await mirror.flush();
    expect((await module("a")).status?.values).toEqual(values());
    const before = writes();
    show(moduleView("a", { values }));
    await mirror.flush();
    expect(writes()).toBe(before);
    show(moduleView("a", { values, lastRun: finished({ attempts: 2 }) }));
    await mirror.flush();
    expect(writes()).toBe(before + 1);
  });

  test("everything is written by one field manager and belongs to the summary", async () => {
    const { show, namespace, kubectl } = await world();
    show(moduleView("a"));
    await ready(kubectl, "amod/a");
    const args = ["get", "amod", "a", "-n", namespace, "--show-managed-fields"];
    const { metadata } = await cluster().json<{
      metadata: {
        managedFields: { manager: string; operation: string }[];
        ownerReferences: { name: string }[];
      };
    }>(args);
    // Former and later versions share these entries, so that an upgrade or a downgrade leaves no field behind.
    const owners = metadata.managedFields.map(({ manager, operation }) => `${manager} ${operation}`);
    expect(new Set(owners)).toEqual(new Set(["addon-operator Update"]));
    expect(metadata.ownerReferences.map(({ name }) => name)).toEqual(["ops"]);
  });
});

test("Events are accepted, and repetitions become a series", async () => {
  const { namespace, mirror, show, kubectl } = await world();
  show(moduleView("a"));
  await kubectl(...wait("--for=create", "amod/a"));
  const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  const uidOf = mirror.uidOf.bind(mirror);
  const base = { client, clock: systemClock, logger: silentLogger, namespace, operatorName: "ops", uidOf };
  const events = new EventWriter({ ...base, instance: "pod-1", secrets: new KnownSecrets() });
  for (let i = 0; i < 3; i++) events.record({ module: "a", reason: "RunFailed", note: "hook failed" });
  events.record({ module: undefined, reason: "ConfigMapMissing", note: "The ConfigMap is missing" });
  await events.flush();
  expect(await kubectl("describe", "amod/a")).toMatch(/Warning +RunFailed.*hook failed/);
  const list = await kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].series.count}");
  expect(list.trim()).toBe("3");
  events.close();
  await client.close();
});
