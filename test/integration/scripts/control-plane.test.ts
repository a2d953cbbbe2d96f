// Runs at night: documentation.
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { cluster, eventually, freshNamespace, kubeconfigOf, ownCluster } from "../../support/cluster.ts";
import { kubectl } from "../../../scripts/control-plane.mjs";
import { versions } from "../../../scripts/setup/versions.mjs";

describe("the shared control plane", () => {
  test("answers as the programs that were asked for, by default of the pinned version", async () => {
    const version = JSON.parse(await cluster().kubectl(["version", "-o", "json"]));
    const { stdout: server } = await execa(cluster().bin["kube-apiserver"], ["--version"]);
    expect(server.trim()).toBe(`Kubernetes ${version.serverVersion.gitVersion}`);
    expect(version.clientVersion.gitVersion).toBe(`v${versions.kubernetes}`);
  });

  test("lets namespaces go away", async () => {
    const name = await freshNamespace("cluster");
    await cluster().kubectl(["delete", "namespace", name]);
    await expect(cluster().kubectl(["get", "namespace", name])).rejects.toThrow("not found");
  });

  test("gives a ServiceAccount no more than its rights", async () => {
    const namespace = await freshNamespace("cluster");
    const kubeconfig = await kubeconfigOf(namespace, "limited");
    const limited = { bin: cluster().bin, kubeconfig };
    await expect(kubectl(limited, ["get", "secrets", "-n", namespace])).rejects.toThrow(
      /forbidden.*cannot list/i,
    );
  });
});

test("a control plane of one's own keeps its objects over a crash of the API server", async () => {
  const own = await ownCluster({ controllerManager: false });
  await own.kubectl(["create", "configmap", "kept"]);
  await own.stopApiServer();
  await expect(own.kubectl(["get", "configmap", "kept"])).rejects.toThrow("refused");
  await own.startApiServer();
  await eventually(() => own.kubectl(["get", "configmap", "kept"]), "the ConfigMap is served again");
  const pids = Object.values(own.pids());
  expect(pids).toHaveLength(2);
  await own.stop();
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
