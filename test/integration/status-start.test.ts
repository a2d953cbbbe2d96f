import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { startOperator } from "../support/operator.ts";
import { watchStatuses } from "../support/statuses.ts";
import type { StatusWatch } from "../support/statuses.ts";

// What is shown while the operator starts: only what is known already.

function writeModule(file?: string, text = ""): string {
  const root = mkdtempSync(join(tmpdir(), "start-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "010-one"));
  writeFileSync(join(root, "010-one", "values.yaml"), "one: {}\noneEnabled: true\n");
  if (file !== undefined) writeFileSync(join(root, "010-one", file), text);
  return root;
}

const reasons = (statuses: StatusWatch) =>
  statuses.seen.flatMap(({ status }) => status?.conditions ?? []).map(({ reason }) => reason);

test("the ConfigMap is not called missing while a first start is about to create it", async () => {
  const namespace = await freshNamespace("start");
  const statuses = await watchStatuses(namespace);
  const proxy = await FaultProxy.open(cluster().kubeconfig);
  onTestFinished(() => proxy.close());
  const created = proxy.hold(
    ({ method, path }) => method === "POST" && path.endsWith("/configmaps"),
    "before",
  );
  const operator = await startOperator({
    namespace,
    modulesDir: writeModule(),
    kubeconfig: proxy.kubeconfig,
  });
  await created;
  await operator.kill9();
  await statuses.end();
  expect(reasons(statuses)).not.toContain("ConfigMapMissing");
});

test("a ConfigMap that is missing at start while releases of ours exist is called missing", async () => {
  const namespace = await freshNamespace("start");
  const modulesDir = writeModule("Chart.yaml", "apiVersion: v2\nname: one\nversion: 1.0.0\n");
  const first = await startOperator({ namespace, modulesDir });
  await first.waitReady();
  await first.stop();
  const { kubectl, json } = cluster();
  await kubectl(["delete", "configmap", "addon-operator", "-n", namespace]);
  const second = await startOperator({ namespace, modulesDir });
  const wait = ["wait", "aop/addon-operator", "-n", namespace, "--timeout=120s"];
  await kubectl([...wait, "--for=condition=Stalled"]);
  expect((await second.http("/readyz")).status).not.toBe(200);
  expect(second.log()).toMatch(/addon-operator: does not exist; releases of this operator exist/);
  await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
  await second.waitReady();
  await kubectl([...wait, "--for=condition=Ready"]);
  const events = await json<{ items: { reason: string }[] }>(["get", "events", "-n", namespace]);
  expect(events.items.map(({ reason }) => reason)).toContain("ConfigMapMissing");
});

test("it reports the progress of its first converge", async () => {
  const namespace = await freshNamespace("start");
  const modulesDir = writeModule();
  for (let index = 100; index < 120; index++) {
    mkdirSync(join(modulesDir, `${index}-m${index}`));
    writeFileSync(join(modulesDir, `${index}-m${index}`, "values.yaml"), `m${index}Enabled: true\n`);
  }
  const hooks = join(modulesDir, "110-m110", "hooks");
  const go = join(modulesDir, "go");
  mkdirSync(hooks);
  const hook = `[ "$1" != --config ] || exec echo '{"configVersion": "v1", "beforeHelm": 1}'
until [ -e ${go} ]; do sleep 0.1; done
`;
  writeFileSync(join(hooks, "waits"), `#!/bin/sh\n${hook}`, { mode: 0o755 });
  const operator = await startOperator({ namespace, modulesDir });
  const converge = async () =>
    JSON.parse((await operator.http("/status/converge?output=json")).body) as Readonly<
      Record<string, unknown>
    >;
  const isHalf = async (): Promise<boolean> => {
    const { STARTUP_CONVERGE_IN_PROGRESS: tasks, STARTUP_CONVERGE_DONE: isDone } = await converge();
    return isDone === false && Number(tasks) > 1 && Number(tasks) < 12;
  };
  await eventually(isHalf, "half of the modules have run", { context: operator.log });
  writeFileSync(go, "");
  const isDone = async (): Promise<boolean> => (await converge())["STARTUP_CONVERGE_DONE"] === true;
  await eventually(isDone, "the first converge", { context: operator.log });
});

test("a start that finds everything as it was leaves specs alone, and creates none twice", async () => {
  const namespace = await freshNamespace("start");
  await cluster().kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
  const modulesDir = writeModule();
  const statuses = await watchStatuses(namespace);
  for (const start of ["first", "second"]) {
    const operator = await startOperator({ namespace, modulesDir });
    await operator.waitReady();
    const ready = ["wait", "--for=condition=Ready", "aop/addon-operator", "-n", namespace, "--timeout=120s"];
    await cluster().kubectl(ready);
    expect([start, (await operator.stop()).code]).toEqual([start, 0]);
  }
  await statuses.end();
  const seen = statuses.seen.filter(({ metadata }) => metadata.name === "one");
  expect(new Set(seen.map(({ metadata }) => metadata.generation))).toEqual(new Set([1]));
  expect(seen.map(({ status }) => status?.state)).not.toContain("Disabled");
});
