// Runs at night: faults.
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, kubeconfigOf } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { module, of } from "../support/requiring.ts";

// docs/reference/modules.md, "What a module requires": what is in the way of looking.

const { kubectl, apply } = cluster();

/** Grants an account all verbs on groups, in the whole cluster. */
async function grant(namespace: string, ...apiGroups: readonly string[]): Promise<void> {
  const group = "rbac.authorization.k8s.io";
  await apply(
    {
      apiVersion: `${group}/v1`,
      kind: "ClusterRole",
      metadata: { name: namespace },
      rules: [{ apiGroups: [...apiGroups], resources: ["*"], verbs: ["*"] }],
    },
    {
      apiVersion: `${group}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name: namespace },
      roleRef: { apiGroup: group, kind: "ClusterRole", name: namespace },
      subjects: [{ kind: "ServiceAccount", name: "limited", namespace }],
    },
  );
}

test(
  "an object that may not be read is reported with the right, and found once it may",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const others = ["", "addon-operator.io", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io"];
    await grant(namespace, ...others);
    const lab = hookLab("requires");
    const nightly = { apiVersion: "batch/v1", kind: "CronJob", name: "nightly" };
    module(lab, "010-front", JSON.stringify({ requires: { objects: [nightly] } }));
    module(lab, "020-other");
    const kubeconfig = await kubeconfigOf(namespace, "limited");
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir, kubeconfig });
    await eventually(
      async () => (await of(namespace, "other")).status?.state === "Ready",
      "the other one is Ready",
    );
    await eventually(
      async () =>
        /which cannot be watched: .*forbidden.*cronjobs/.test(
          (await operator.cli(["module", "why", "front"])).stdout,
        ),
      "what is in the way is told",
    );
    const container = { name: "a", image: "none" };
    const template = { spec: { restartPolicy: "Never", containers: [container] } };
    await apply({
      apiVersion: "batch/v1",
      kind: "CronJob",
      metadata: { name: "nightly", namespace },
      spec: { schedule: "0 0 1 1 *", jobTemplate: { spec: { template } } },
    });
    await grant(namespace, ...others, "batch");
    await eventually(async () => (await of(namespace, "front")).status?.state === "Ready", "it runs", {
      timeoutMs: 60_000,
    });
  },
);

test(
  "what comes while the API server is away lets those run that wait for it, once that is back",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    onTestFinished(() => proxy.close());
    const lab = hookLab("requires");
    const late = { apiVersion: "v1", kind: "Secret", name: "late" };
    module(lab, "010-front", 'requires: {modules: {back: "*"}}');
    module(lab, "020-back", JSON.stringify({ requires: { objects: [late] } }));
    module(lab, "030-other");
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      kubeconfig: proxy.kubeconfig,
    });
    await eventually(
      async () => (await of(namespace, "other")).status?.state === "Ready",
      "the other one is Ready",
    );
    // The status reports other words of a wait at most every 30 seconds.
    const why = async (name: string): Promise<string> => (await operator.cli(["module", "why", name])).stdout;
    const waits = "waits for Secret/late, which is not there";
    await eventually(async () => (await why("back")).includes(waits), "it waits");

    await proxy.refuse();
    await kubectl(["create", "secret", "generic", "late", "-n", namespace]);
    // What was found last counts, and the wait is reported all the same.
    const reported = await why("front");
    expect(reported).toContain("waits for back, which is not Ready");
    expect(reported).toContain(`back: ${waits}`);
    await proxy.accept();
    for (const name of ["back", "front"])
      await eventually(async () => (await of(namespace, name)).status?.state === "Ready", `${name} runs`, {
        timeoutMs: 60_000,
      });
    expect((await of(namespace, "front")).status?.requiresMet).toBe("1/1");
  },
);
