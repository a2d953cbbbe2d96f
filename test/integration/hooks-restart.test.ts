// Runs at night: restarts.
import { rmSync } from "node:fs";

import { expect, onTestFinished, test } from "vitest";

import { clusterOf, eventually, ownCluster } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Item } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

interface Versioned {
  readonly metadata: { readonly name: string; readonly resourceVersion?: string };
}

const versionOf = ({ metadata }: Versioned): string => `${metadata.name}@${metadata.resourceVersion}`;

test(
  "over restarts of the API server a hook misses no change, gets none twice, and sees the truth at last",
  { timeout: 240_000 },
  async () => {
    const plane = await ownCluster({ controllerManager: false });
    const { kubectl, json } = clusterOf(plane);
    const lab = hookLab("restart");
    onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
    lab.hook("global-hooks/maps.sh", {
      configVersion: "v1",
      kubernetes: [
        {
          kind: "ConfigMap",
          name: "maps",
          namespace: { nameSelector: { matchNames: ["default"] } },
          labelSelector: { matchLabels: { mine: "yes" } },
        },
      ],
    });
    const put = async (name: string, value: number): Promise<void> => {
      const metadata = { name, namespace: "default", labels: { mine: "yes" } };
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { value: String(value) } };
      await kubectl(["apply", "-f", "-"], JSON.stringify(object));
    };
    const there = async (): Promise<string[]> => {
      const list = ["get", "configmap", "-n", "default", "-l", "mine=yes"];
      const { items } = await json<{ items: Versioned[] }>(list);
      return items.map(versionOf).toSorted();
    };
    await put("stays", 0);
    await put("goes-0", 0);
    const operator = await startOperator({
      kubeconfig: plane.kubeconfig,
      admin: plane.kubeconfig,
      namespace: "default",
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      // By default, the operator stops when it cannot renew its Lease for ten seconds. Here it has to go on.
      args: ["--lease-duration=90s", "--lease-renew-deadline=80s"],
    });
    await operator.waitReady();
    for (const [round, signal] of (["SIGKILL", "SIGTERM"] as const).entries()) {
      await put(`goes-${round + 1}`, 0);
      await plane.stopApiServer(signal);
      // What happens before its watch is open again the operator must find out.
      process.kill(operator.pid ?? 0, "SIGSTOP");
      await plane.startApiServer();
      await kubectl(["delete", "configmap", "-n", "default", `goes-${round}`]);
      await put("stays", round + 1);
      await put(`comes-${round}`, 0);
      process.kill(operator.pid ?? 0, "SIGCONT");
    }
    const displayed = async (): Promise<string[]> => {
      const { body } = await operator.debug("/global/snapshots.json");
      const dump = JSON.parse(body) as Record<string, { maps: { snapshot: readonly Item[] } }>;
      const [hook] = Object.values(dump);
      return (hook?.maps.snapshot ?? []).map(({ object }) => versionOf(object as Versioned)).toSorted();
    };
    const context = (): string => operator.log().slice(-3000);
    await eventually(async () => expect(await displayed()).toEqual(await there()), "the snapshot is true", {
      context,
    });
    const events = () => lab.contexts("maps").filter(({ type }) => type === "Event");
    const toldLast = (name: string): string | undefined =>
      events().findLast(({ object }) => object?.metadata.name === name)?.watchEvent;
    await eventually(
      () =>
        expect(["goes-0", "goes-1", "goes-2", "comes-1"].map(toldLast)).toEqual([
          "Deleted",
          "Deleted",
          "Added",
          "Added",
        ]),
      "the last changes are told",
      { context },
    );
    const alive = new Set(["stays", "goes-0"]);
    for (const { watchEvent, object } of events()) {
      const name = object?.metadata.name ?? "";
      expect(`${name} is there: ${alive.has(name)}`).toBe(`${name} is there: ${watchEvent !== "Added"}`);
      if (watchEvent === "Deleted") alive.delete(name);
      else alive.add(name);
    }
    const changes = events().filter(({ watchEvent }) => watchEvent !== "Deleted");
    const versions = changes.map(({ object }) => versionOf(object as Versioned));
    expect(versions).toEqual([...new Set(versions)]);
    const { body } = await operator.http("/metrics");
    expect(body).toMatch(
      /^addon_operator_kubernetes_client_watch_errors_total\{error_type="unexpected-eof"\} [1-9]/m,
    );
  },
);
