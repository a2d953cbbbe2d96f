// Runs at night: faults.
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

import { startCluster } from "../../../scripts/control-plane.mjs";
import { startOperator } from "../../../scripts/operator.mjs";
import * as kube from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { OperatorProcess } from "../../../scripts/operator.mjs";
import { clusterOf, eventually } from "../../support/cluster.ts";
import type { Cluster, ControlPlane } from "../../support/cluster.ts";
import { hookLab } from "../../support/hook-files.ts";

// docs/reference/lifecycle.md: what was done before the last backup is gone, and versions begin again where they were then.

const NS = "put-back";
let operator: OperatorProcess | undefined;
const PATIENT = { context: () => operator?.log().slice(-6000) ?? "" };
/** Versions of the lost part of history: far more than a control plane uses up when it starts. */
const LOST_WRITES = 400;

let plane: ControlPlane;
let own: Cluster;
let admin: kube.KubeClient;

beforeAll(async () => {
  plane = await startCluster({ controllerManager: false });
  own = clusterOf(plane);
  admin = kube.connect({ kubeConfig: plane.kubeconfig, userAgent: "test", logger: silentLogger });
  await own.kubectl(["create", "namespace", NS]);
});

afterAll(async () => {
  await admin.close();
  await plane.stop();
});

const MODULE = {
  "Chart.yaml": "apiVersion: v2\nname: one\nversion: 1.0.0\n",
  "values.yaml": "one:\n  size: 1\n",
  "templates/map.yaml":
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {size: {{ .Values.one.size | quote }}}\n",
};
const BINDING = {
  configVersion: "v1",
  kubernetes: [
    {
      name: "mine",
      apiVersion: "v1",
      kind: "ConfigMap",
      executeHookOnSynchronization: false,
      namespace: { nameSelector: { matchNames: [NS] } },
      labelSelector: { matchLabels: { mine: "yes" } },
      jqFilter: ".data",
    },
  ],
};

interface Found {
  readonly metadata: { readonly uid: string };
  readonly data?: { readonly size?: string };
  readonly status?: { readonly state?: string };
}

const find = (object: string): Promise<Found | undefined> =>
  own.json<Found>(["get", object, "-n", NS]).catch(() => undefined);
const set = async (name: string, content: object, labels = {}): Promise<void> => {
  const target = { resource: kube.CONFIG_MAPS, namespace: NS, name };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels }, ...content };
  await kube.serverSideApply(admin, target, { body, force: true });
};
const setSize = (size: number): Promise<void> =>
  set("addon-operator", { data: { oneEnabled: "true", one: `size: ${size}\n` } });
const setMine = (name: string, n = 0): Promise<void> => set(name, { data: { n: `${n}` } }, { mine: "yes" });
const isSize = (size: number): Promise<unknown> =>
  eventually(async () => (await find("configmap/one"))?.data?.size === `${size}`, `size ${size}`, PATIENT);

const isReady = (): Promise<unknown> =>
  eventually(async () => (await find("addonmodule/one"))?.status?.state === "Ready", "Ready", PATIENT);

async function deleteAndWaitFor(object: string): Promise<void> {
  const before = await find(object);
  await own.kubectl(["delete", object, "-n", NS, "--wait=false"]);
  const isBack = async (): Promise<boolean> => {
    const now = await find(object);
    return now !== undefined && now.metadata.uid !== before?.metadata.uid;
  };
  await eventually(isBack, `${object} is made again`, PATIENT);
}

test("an etcd that was put back to an earlier state is believed", { timeout: 240_000 }, async () => {
  const lab = hookLab("put-back");
  for (const [path, text] of Object.entries(MODULE)) lab.file(`modules/one/${path}`, text);
  lab.hook("modules/one/hooks/mine.sh", BINDING);
  const events = (): string[] =>
    lab.contexts("mine").map(({ watchEvent, object }) => `${watchEvent} ${object?.metadata.name}`);
  const heard = (event: string): Promise<unknown> =>
    eventually(() => events().includes(event), event, PATIENT);
  await setSize(1);
  await setMine("kept");
  const { kubeconfig } = plane;
  const started = await startOperator({ kubeconfig, namespace: NS, modulesDir: lab.modulesDir });
  operator = started;
  onTestFinished(() => void started.kill9());
  await started.waitReady();
  await isSize(1);
  await isReady();

  const backup = join(plane.dir, "backup");
  await plane.withEtcdStopped((dir) => cpSync(dir, backup, { recursive: true }));
  for (let n = 0; n < LOST_WRITES; n += 1) await setMine("kept", n);
  await setSize(2);
  await isSize(2);
  await setMine("lost");
  await heard("Added lost");
  await deleteAndWaitFor("addonmodule/one");

  await plane.withEtcdStopped((dir) => {
    rmSync(dir, { recursive: true });
    cpSync(backup, dir, { recursive: true });
  });
  await heard("Deleted lost");
  await setMine("found");
  await heard("Added found");
  await setSize(3);
  await isSize(3);
  await deleteAndWaitFor("addonmodule/one");
  await deleteAndWaitFor("configmap/one");
  await isReady();
  expect(started.log()).toContain("put back to an earlier state");
});
