// Run with helm 3 as well.
// Runs at night: compatibility.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

import { RELEASE_LABELS, managedByDigest } from "../../src/helm/index.ts";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Taking over": which releases that are there already modules, deletes and purges may touch.

const { kubectl, json, kubeconfig } = cluster();
const run = promisify(execFile);

interface Module {
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { readonly message: string }[];
  };
}

test("releases that are there already", { timeout: 180_000 }, async () => {
  const namespace = await freshNamespace("taking");
  const lab = hookLab("taking");
  const chart = (dir: string, map: string, data = "{}"): void => {
    lab.file(`${dir}/Chart.yaml`, "apiVersion: v2\nname: x\nversion: 1.0.0\n");
    const text = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${map}}\ndata: ${data}\n`;
    lab.file(`${dir}/templates/map.yaml`, text);
  };
  const names = ["own", "platform", "ignored", "taken", "other"];
  const keys = Object.fromEntries(names.map((name) => [`${name}Enabled`, "true"]));
  const helm = (...args: readonly string[]): Promise<unknown> =>
    run(helmUnderTest(), [...args, "-n", namespace, "--kubeconfig", kubeconfig]);
  const hand = async (name: string, map: string, data?: string): Promise<void> => {
    chart(`charts/${name}`, map, data);
    await helm("install", name, join(lab.modulesDir, "..", "charts", name));
  };
  await hand("platform", "addon-operator", JSON.stringify(keys));
  for (const name of ["own", "ignored", "taken", "other", "gone", "others-gone"])
    await hand(name, `map-${name}`);
  const theirs = `${RELEASE_LABELS.managedBy}=${managedByDigest(namespace, "another")}`;
  for (const name of ["other", "others-gone"])
    await kubectl(["label", "secret", "-n", namespace, "-l", `owner=helm,name=${name}`, theirs]);
  for (const name of names) chart(`modules/${name}`, `map-${name}`, '{new: "yes"}');

  const env = {
    ADDON_OPERATOR_RELEASE_NAME: "own",
    HELM_IGNORE_RELEASE: "ignored",
    ADDON_OPERATOR_PURGE: "all",
  };
  const operator = await startOperator({ namespace, modulesDir: lab.modulesDir, env });
  const context = { context: () => operator.log() };
  await eventually(() => operator.log().includes("Release purged"), "the purge", context);

  const stateOf = async (name: string): Promise<string | undefined> =>
    (await json<Module>(["get", "addonmodule", name, "-n", namespace])).status?.state;
  await eventually(async () => (await stateOf("taken")) === "Ready", "the module that took over", context);
  for (const name of ["own", "platform", "ignored", "other"])
    await eventually(async () => (await stateOf(name)) === "Invalid", `${name} is Invalid`, context);
  const secrets = await kubectl([
    "get",
    "secret",
    "-n",
    namespace,
    "-l",
    "owner=helm",
    "-o",
    'jsonpath={range .items[*]}{.metadata.labels.name}.{.metadata.labels.version}{" "}{end}',
  ]);
  expect(secrets.trim().split(" ").toSorted()).toEqual([
    "ignored.1",
    "other.1",
    "others-gone.1",
    "own.1",
    "platform.1",
    "taken.1",
    "taken.2",
  ]);
  await eventually(async () => {
    const path = "jsonpath={range .items[*]}{.reason}/{.regarding.name} {end}";
    const events = await kubectl(["get", "events.v1.events.k8s.io", "-n", namespace, "-o", path]);
    return events.includes("ReleaseAdopted/taken");
  }, "the Event");
  expect(operator.log().match(/Adopting a release that was installed with helm/g)).toHaveLength(1);
});
