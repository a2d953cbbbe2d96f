// Run with helm 3 as well.
import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// How the objects of a release are. There are no nodes here: the test writes what the kubelet would.

const WEB = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/web:{{ .Values.web.version }}"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: "{{ .Release.Namespace }}"}
provisioner: example.com/none
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: unused}
spec:
  storageClassName: "{{ .Release.Namespace }}"
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`;
const container = { name: "web", image: "example.com/web:1", imageID: "" };
const RUNNING = { ...container, ready: true, restartCount: 0, state: { running: {} } };
const crashing = (restartCount: number) => ({
  ...container,
  ready: false,
  restartCount,
  state: { waiting: { reason: "CrashLoopBackOff" } },
  lastState: { terminated: { exitCode: 1, reason: "Error" } },
});

interface Status {
  readonly state?: string;
  readonly conditions?: readonly Record<"type" | "status" | "reason" | "message", string>[];
  readonly health?: readonly object[];
  readonly objects?: object;
}

/** A namespace and one module, `web`, of a Deployment and three objects that nothing has to happen to, with an operator that reaches the API by a proxy. */
async function prepare(...args: readonly string[]) {
  const namespace = await freshNamespace("health");
  const lab = hookLab("health");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  lab.file("modules/values.yaml", "webEnabled: true\nafterEnabled: true\nweb: {version: 1}\n");
  lab.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
  lab.file("modules/010-web/templates/all.yaml", WEB);
  // It has nothing but a file that says what it waits for.
  lab.file("modules/020-after/Chart.yaml", "apiVersion: v2\nname: after\nversion: 1.2.3\n");
  lab.file("modules/020-after/addon.yaml", 'requires: {modules: {web: "*"}}\n');
  const own = (...args: readonly string[]) => cluster().kubectl([...args, "-n", namespace]);
  await own("create", "configmap", "addon-operator");
  const proxy = await FaultProxy.open(cluster().kubeconfig);
  onTestFinished(() => proxy.close());
  const operator = await startOperator({
    namespace,
    modulesDir: lab.modulesDir,
    helm: helmUnderTest(),
    kubeconfig: proxy.kubeconfig,
    args,
  });
  await operator.waitReady();
  const status = async (module = "web"): Promise<Status> =>
    (await cluster().json<{ status?: Status }>(["get", "addonmodule", module, "-n", namespace])).status ?? {};
  const healthy = async () => (await status()).conditions?.find(({ type }) => type === "Healthy");
  /** The Pods of that version, once all three are there. */
  const pods = async (version: number): Promise<string[]> => {
    const found = await cluster().json<{ items: readonly Pod[] }>(["get", "pods", "-n", namespace]);
    const names = found.items
      .filter(({ spec }) => spec.containers[0]?.image.endsWith(`:${version}`) === true)
      .map(({ metadata }) => metadata.name);
    expect(names).toHaveLength(3);
    return names.toSorted();
  };
  return {
    namespace,
    own,
    proxy,
    status,
    /** The operator says so of the release. */
    says: (status: string, reason: string, message: unknown) =>
      eventually(
        async () => expect(await healthy()).toMatchObject({ status, reason, message }),
        `Healthy is ${status}: ${String(message)}`,
      ),
    /** So many of the Pods of that version run; the others crash. Returns their names. */
    run: async (version: number, running: number, crash = crashing(2)): Promise<string[]> => {
      await eventually(() => pods(version), "three Pods");
      const names = await pods(version);
      for (const [index, name] of names.entries()) {
        const isReady = index < running;
        const ready = { type: "Ready", status: isReady ? "True" : "False" };
        const status = {
          phase: "Running",
          conditions: [ready],
          containerStatuses: [isReady ? RUNNING : crash],
        };
        const patch = JSON.stringify({ status });
        await own("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch);
      }
      return names;
    },
  };
}

interface Pod {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
}

const WELL = ["True", "Healthy", "All objects are healthy (4)"] as const;

test("a Deployment that becomes unavailable is reported with the Pod that says why, and when it is back", async () => {
  const { namespace, own, status, says, run } = await prepare();
  const title = `Deployment ${namespace}/web`;
  await says("Unknown", "Progressing", `${title}: 0 of 3 replicas available`);
  await run(1, 3);
  await says(...WELL);
  expect(await status()).toMatchObject({ state: "Ready", objects: { total: 4, current: 4 } });
  expect((await status()).health).toBeUndefined();

  const [, second] = await run(1, 1);
  const message = `1 of 3 replicas available; Pod ${second}: CrashLoopBackOff: exit code 1`;
  await says("False", "Unhealthy", `${title}: ${message}`);
  const object = `${namespace}/Deployment/web`;
  expect(await status()).toMatchObject({
    objects: { total: 4, current: 3, inProgress: 1 },
    health: [{ object, status: "InProgress", reason: "LessAvailable", message }],
  });

  await run(1, 3);
  await says(...WELL);
  await eventually(async () => {
    const reasons = await own("get", "events", "-o", "jsonpath={.items[*].reason}");
    expect(reasons.split(" ")).toEqual(expect.arrayContaining(["Unhealthy", "Recovered"]));
  }, "Events tell of both");
});

test("a rollout during which the watch is cut ends as its Pods do", async () => {
  const { namespace, own, proxy, says, run } = await prepare();
  const title = `Deployment ${namespace}/web`;
  await run(1, 3);
  await says(...WELL);
  const data = { web: "version: 2" };
  await own("patch", "configmap", "addon-operator", "--type=merge", "-p", JSON.stringify({ data }));
  proxy.cut();
  await run(2, 2);
  await says(
    "Unknown",
    "Progressing",
    expect.stringContaining(`${title}: 2 of 3 replicas available; Pod web-`),
  );
  await proxy.refuse();
  await run(2, 1, crashing(4));
  await proxy.accept();
  await says("False", "Unhealthy", expect.stringContaining(`${title}: 1 of 3 replicas available; Pod web-`));
  proxy.halveNext();
  await run(2, 3);
  await says(...WELL);
});

test("with --ready=healthy a module is Ready once its Pods are, and what requires it waits for that", async () => {
  const { namespace, own, status, run } = await prepare("--ready=healthy");
  const title = `Deployment ${namespace}/web`;
  const ready = (state: string, ready: string, message: unknown) =>
    eventually(
      async () => expect(ofReady(await status())).toEqual({ state, status: ready, message }),
      `web is ${state}`,
    );
  await ready("Progressing", "Unknown", `Not healthy yet: ${title}: 0 of 3 replicas available`);
  await eventually(async () => {
    const { state, conditions = [] } = await status("after");
    const reason = conditions.find(({ type }) => type === "Ready")?.reason;
    expect([state, reason]).toEqual(["Pending", "DependencyNotReady"]);
  }, "after waits for it");

  await run(1, 3);
  await ready("Ready", "True", "Release web.v1 is in place");
  await eventually(async () => expect((await status("after")).state).toBe("Ready"), "what waited is Ready");

  await run(1, 2);
  await ready("Unhealthy", "False", expect.stringContaining(`${title}: 2 of 3 replicas available`));
  await eventually(async () => {
    const name = "jsonpath={.status.state}: {.status.conditions[?(@.type=='Ready')].message}";
    expect(await own("get", "addonoperator", "addon-operator", "-o", name)).toContain(
      "Unhealthy: Module web is not healthy",
    );
  }, "the sum says so");
  await run(1, 3);
  await ready("Ready", "True", "Release web.v1 is in place");
});

function ofReady({ state, conditions = [] }: Status) {
  const { status, message } = conditions.find(({ type }) => type === "Ready") ?? {};
  return { state, status, message };
}
