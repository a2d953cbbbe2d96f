// Run with helm 3 as well.
// Runs at night: moves and limits that few changes touch.
import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// The control plane has no nodes, so that a Job goes on until the test ends it.

const JOB = `apiVersion: batch/v1
kind: Job
metadata: {name: web-migrate, annotations: {helm.sh/hook: "pre-install,pre-upgrade,pre-delete"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}}
`;
const WAIT = "Helm has been waiting for the chart hook Job/web-migrate";

interface Module {
  readonly status?: {
    readonly state: string;
    readonly lastRun?: { readonly step: string; readonly hook?: string };
    readonly conditions: readonly { readonly type: string; readonly message: string }[];
  };
}

test.for(HELMS)(
  "the chart's hook that %s waits for is named: installing, failing and, with the one under test, removing",
  { timeout: 240_000 },
  async (which) => {
    const namespace = await freshNamespace("helm-hooks");
    const lab = hookLab("helm-hooks");
    onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
    lab.file("modules/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    lab.file("modules/web/templates/job.yaml", JOB);
    const { kubectl, json, bin } = cluster();
    const own = (...args: readonly string[]) => kubectl([...args, "-n", namespace]);
    const flag = (on: boolean) => JSON.stringify({ data: { webEnabled: String(on) } });
    await own("create", "configmap", "addon-operator", "--from-literal=webEnabled=true");
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      helm: bin[which],
    });
    const until = (
      what: string,
      check: (displayed: NonNullable<Module["status"]> & { ready: string }) => void | Promise<void>,
    ) =>
      eventually(
        async () => {
          const { status } = await json<Module>(["get", "addonmodule", "web", "-n", namespace]);
          if (status === undefined) throw new Error("no status");
          const ready = status.conditions.find(({ type }) => type === "Ready")?.message ?? "";
          await check({ ...status, ready });
        },
        what,
        { context: () => operator.log().slice(-3000) },
      );
    const fail = () =>
      own("patch", "job/web-migrate", "-p", JSON.stringify({ spec: { activeDeadlineSeconds: 1 } }));
    const complete = async () => {
      const names = await own("get", "pods", "--field-selector=status.phase=Pending", "-o", "name");
      const status = JSON.stringify({ status: { phase: "Succeeded" } });
      for (const pod of names.split("\n").filter((name) => name !== ""))
        await own("patch", pod, "--subresource=status", "-p", status).catch(() => "it has gone meanwhile");
    };
    const why = async () => (await operator.cli(["module", "why", "web"])).stdout;

    await until("it is named", ({ lastRun, ready }) => {
      expect(lastRun).toMatchObject({ step: "helm", hook: "Job/web-migrate (pre-install)" });
      expect(ready).toMatch(`${WAIT} (pre-install) since 20`);
    });
    expect(await why()).toMatch(`${WAIT} (pre-install) since 20`);
    await fail();
    await eventually(
      () => expect(operator.log()).toMatch("; its hook Job/web-migrate (pre-install) did not succeed"),
      "the failure names it",
      { context: () => operator.log().slice(-3000) },
    );
    await until("it is installed", async ({ state, lastRun }) => {
      await complete();
      expect([state, lastRun?.hook]).toEqual(["Ready", undefined]);
    });

    // The rest is done alike with both.
    if (!isUnderTest(which)) return;
    const isRemoved = () =>
      until("it is named again", ({ state, lastRun, ready }) => {
        expect([state, lastRun]).toMatchObject([
          "Deleting",
          { step: "uninstall", hook: "Job/web-migrate (pre-delete)" },
        ]);
        expect(ready).toMatch(`: ${WAIT} (pre-delete) since 20`);
      });
    const set = (on: boolean) => own("patch", "configmap/addon-operator", "--type=merge", "-p", flag(on));
    await set(false);
    await isRemoved();
    const status = (await operator.cli(["status"])).stdout;
    expect(status).toMatch(/waits for the removal of web since 20.*Job\/web-migrate \(pre-delete\) since 20/);
    // Nothing ends the Job: the removal is interrupted.
    await set(true);
    await until("it is being installed anew", ({ state, lastRun }) => {
      expect(state).toBe("Running");
      expect(lastRun?.hook).toMatch(/^Job\/web-migrate \(pre-/);
    });
    await until("it is installed anew", async ({ state }) => {
      await complete();
      expect(state).toBe("Ready");
    });
    await set(false);
    await isRemoved();
    await until("it is gone", async ({ state }) => {
      await complete();
      expect(state).toBe("Disabled");
    });
  },
);
