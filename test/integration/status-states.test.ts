import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { SeenObject } from "../support/kstatus.ts";
import { startOperator } from "../support/operator.ts";
import { watchStatuses } from "../support/statuses.ts";

// docs/reference/status.md, "States of a module": every row, as a running operator writes it.

const CHART = "apiVersion: v2\nname: x\nversion: 1.0.0\n";
const MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two-made}\n";

/** `state Ready reason beside`: a row of the table. */
function rowOf({ status }: SeenObject): string {
  const of = (type: string) => status?.conditions?.find((condition) => condition.type === type);
  const beside = ["Reconciling", "Stalled", "Suspended"].filter((type) => of(type) !== undefined);
  return [status?.state, of("Ready")?.status, of("Ready")?.reason, ...beside].join(" ");
}

test("every state of the table", { timeout: 150_000 }, async () => {
  const namespace = await freshNamespace("states");
  const lab = hookLab("states");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  lab.file("modules/values.yaml", "oneEnabled: true\ntwoEnabled: true\n");
  for (const module of ["010-one", "020-two"]) lab.file(`modules/${module}/Chart.yaml`, CHART);
  lab.file("modules/020-two/templates/map.yaml", MAP);
  const fails = join(lab.dir, "fails");
  const held = join(lab.dir, "held");
  lab.hook("modules/010-one/hooks/waits.sh", { configVersion: "v1", beforeHelm: 1 }, "wait_for run");
  lab.hook("modules/010-one/hooks/leaves.sh", { configVersion: "v1", afterDeleteHelm: 1 }, "wait_for leave");
  lab.hook(
    "modules/020-two/hooks/fails.sh",
    { configVersion: "v1", beforeHelm: 1 },
    `[ ! -e ${fails} ] || exit 3; wait_until [ ! -e ${held} ]`,
  );
  const { kubectl } = cluster();
  const own = (...args: readonly string[]) => kubectl([...args, "-n", namespace]);
  await own("create", "configmap", "addon-operator");
  const edit = (data: object) =>
    own("patch", "configmap", "addon-operator", "--type=merge", "-p", JSON.stringify({ data }));
  const statuses = await watchStatuses(namespace);
  const operator = await startOperator({
    namespace,
    modulesDir: lab.modulesDir,
    helm: helmUnderTest(),
  });
  const is = (module: string, row: string) =>
    eventually(
      () => {
        const last = statuses.seen.filter(({ metadata }) => metadata.name === module).at(-1);
        expect(last === undefined ? "" : rowOf(last)).toBe(row);
      },
      `${module}: ${row}`,
      { context: () => operator.log().slice(-3000) },
    );

  await is("one", "Running Unknown Progressing Reconciling");
  await is("two", "Pending Unknown Pending Reconciling");
  lab.release("run");
  for (const module of ["one", "two"]) await is(module, "Ready True Ready");

  writeFileSync(fails, "");
  await edit({ two: "edited: 1" });
  await is("two", "Retrying False HookFailed Reconciling");
  rmSync(fails);
  await is("two", "Ready True Ready");

  writeFileSync(held, "");
  await own("delete", "configmap", "two-made");
  await is("two", "Running True Healing Reconciling");
  rmSync(held);
  await is("two", "Ready True Ready");

  await edit({ twoMaintenance: "NoResourceReconciliation" });
  await is("two", "Suspended True Suspended Suspended");
  await edit({ twoMaintenance: null });
  await is("two", "Ready True Ready");

  await edit({ oneEnabled: "false", oneProtected: "true" });
  await is("one", "Invalid False Invalid Stalled");
  await edit({ oneProtected: null });
  await is("one", "Deleting Unknown Deleting Reconciling");
  lab.release("leave");
  await is("one", "Disabled True Disabled");
});
