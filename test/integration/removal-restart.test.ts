// Runs at night: restarts.
import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { watchStatuses } from "../support/statuses.ts";

// The control plane has no nodes, so that a Job never ends.

const JOB = `apiVersion: batch/v1
kind: Job
metadata: {name: bye, annotations: {helm.sh/hook: pre-delete}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}}
`;

interface Module {
  readonly status?: {
    readonly state: string;
    readonly conditions: readonly {
      readonly type: string;
      readonly status: string;
      readonly message: string;
    }[];
  };
}

interface Operator {
  readonly status?: { readonly converge?: { readonly phase?: string; readonly cause?: string } };
}

test(
  "modules that wait for a removal that hangs are not Disabled after a restart",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("removal-restart");
    const lab = hookLab("removal-restart");
    onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
    for (const name of ["010-nats", "020-hangs"])
      lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name.slice(4)}\nversion: 1.0.0\n`);
    lab.file(
      "modules/010-nats/templates/map.yaml",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nats}\n",
    );
    lab.file("modules/020-hangs/templates/job.yaml", JOB);
    const { kubectl, json } = cluster();
    const flags = (on: boolean) => ({ natsEnabled: String(on), hangsEnabled: String(on) });
    const literals = Object.entries(flags(true)).map(([key, value]) => `--from-literal=${key}=${value}`);
    await kubectl(["create", "configmap", "addon-operator", ...literals, "-n", namespace]);
    const options = { namespace, modulesDir: lab.modulesDir };
    const first = await startOperator(options);
    const statusOf = async (name: string) =>
      (await json<Module>(["get", "addonmodule", name, "-n", namespace])).status;
    const until = (name: string, state: string) =>
      eventually(async () => expect((await statusOf(name))?.state).toBe(state), `${name} is ${state}`);
    await until("nats", "Ready");
    const patch = JSON.stringify({ data: flags(false) });
    await kubectl(["patch", "configmap/addon-operator", "--type=merge", "-p", patch, "-n", namespace]);
    await until("hangs", "Deleting");
    await until("nats", "Pending");
    await first.stop();

    const statuses = await watchStatuses(namespace);
    const second = await startOperator(options);
    const converge = async () =>
      (await json<Operator>(["get", "aop/addon-operator", "-n", namespace])).status?.converge;
    await eventually(
      async () => expect(await converge()).toMatchObject({ phase: "modules", cause: "start-up" }),
      "the removals of the second one are under way",
      { context: () => second.log().slice(-3000) },
    );
    // Statuses are written a second late: what the operator itself says is ahead of that.
    const reported = (await second.cli(["status"])).stdout;
    expect(reported).toContain("nats: Pending: waits for the removal of hangs");
    await eventually(
      async () => expect((await statusOf("hangs"))?.conditions[0]?.message).toContain("Job/bye (pre-delete)"),
      "statuses were written since",
      { context: () => second.log().slice(-3000) },
    );
    await statuses.end();
    const states = new Set(statuses.seen.map(({ status }) => status?.state));
    expect([...states]).not.toContain("Disabled");
  },
);
