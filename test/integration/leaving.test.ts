// Runs at night: moves and limits that few changes touch.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { startCluster } from "../../scripts/control-plane.mjs";
import { CHART } from "../charts/matrix.ts";
import { clusterOf, eventually } from "../support/cluster.ts";
import type { Cluster, ControlPlane } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/get-started/install.md, "Uninstall": a control plane of its own, since CRDs are everybody's.

const NS = "addons";
const MODULES = ["one", "two", "three", "four"];
const KEY = "addon-operator-addon-operator-redaction";
const CRDS = ["addonmodules", "addonoperators"].map((plural) => `crd/${plural}.addon-operator.io`);
const run = promisify(execFile);

describe("the operator's CRDs and its end", () => {
  let plane: ControlPlane;
  let own: Cluster;
  let modulesDir = "";

  beforeAll(async () => {
    plane = await startCluster();
    own = clusterOf(plane);
    await own.kubectl(["create", "namespace", NS]);
    const lab = hookLab("leaving");
    modulesDir = lab.modulesDir;
    for (const name of MODULES) {
      lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
      lab.file(
        `modules/${name}/templates/map.yaml`,
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {size: {{ .Values.${name}.size | quote }}}\n`,
      );
      lab.file(`modules/${name}/values.yaml`, `${name}:\n  size: 1\n`);
    }
  });
  afterAll(() => plane.stop());

  const kubectl = (...args: readonly string[]): Promise<string> => own.kubectl(["-n", NS, ...args]);
  const wait = async (object: string, what: string): Promise<void> => {
    // What is to go may be gone already.
    if (what !== "delete") await kubectl("wait", object, "--for=create", "--timeout=120s");
    await kubectl("wait", object, `--for=${what}`, "--timeout=120s");
  };
  const names = async (kind: string): Promise<string[]> => {
    const { items } = await own.json<{ items: { metadata: { name: string } }[] }>(["get", kind, "-n", NS]);
    return items.map(({ metadata }) => metadata.name).toSorted();
  };
  const helm = (...args: readonly string[]) =>
    run(plane.bin.helm, ["-n", NS, "--kubeconfig", plane.kubeconfig, ...args]);
  const operate = (): Promise<OperatorProcess> =>
    startOperator({ namespace: NS, modulesDir, kubeconfig: plane.kubeconfig, admin: plane.kubeconfig });
  const switched = (to: string): string[] => MODULES.map((name) => `config.values.${name}Enabled=${to}`);
  /** The chart with a Deployment that no node ever runs; the operator of the test stands in for its Pod. */
  const install = (...values: readonly string[]) =>
    helm("upgrade", "--install", "operator", CHART, ...values.flatMap((value) => ["--set", value]));

  test(
    "a CRD that is deleted holds nothing up, and its objects come back with it",
    { timeout: 240_000 },
    async () => {
      await install("config.values.oneEnabled=true");
      const operator = await operate();
      await operator.waitReady();
      await wait("addonmodule/one", "condition=Ready");

      await own.kubectl(["delete", ...CRDS.slice(0, 1)]);
      await install("config.values.oneEnabled=true", "config.values.one.size=2");
      await wait("configmap/one", "jsonpath={.data.size}=2");
      expect((await operator.http("/readyz")).status).toBe(200);

      await own.kubectl(["apply", "--server-side", "-f", `${CHART}/crds/addonmodules.yaml`]);
      await wait("addonmodule/one", "create");
      await wait("addonmodule/one", "condition=Ready");
      await eventually(
        async () => expect(await names("addonmodules")).toEqual(MODULES.toSorted()),
        "all come back",
      );
    },
  );

  test("a start mends the operator's CRDs, unless --manage-crds=false", { timeout: 240_000 }, async () => {
    const spoil = (text: string) =>
      own.kubectl([
        "patch",
        "crd/addonmodules.addon-operator.io",
        "--type=json",
        "-p",
        `[{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns/0/description", "value": "${text}"}]`,
      ]);
    const displayed = () =>
      own.kubectl([
        "get",
        "crd/addonmodules.addon-operator.io",
        "-o",
        "jsonpath={.spec.versions[0].additionalPrinterColumns[0].description}",
      ]);
    const start = async (...args: readonly string[]): Promise<void> => {
      const kubeconfigs = { kubeconfig: plane.kubeconfig, admin: plane.kubeconfig };
      const operator = await startOperator({ namespace: NS, modulesDir, ...kubeconfigs, args });
      await operator.waitReady();
      await operator.stop();
    };
    await start();
    const before = await displayed();
    await spoil("spoilt");
    await start("--manage-crds=false");
    expect(await displayed()).toBe("spoilt");
    await start();
    expect(await displayed()).toBe(before);
  });

  test(
    "uninstalled: the modules' releases stay, and a new operator goes on with them",
    { timeout: 240_000 },
    async () => {
      await install("config.values.oneEnabled=true");
      const operator = await operate();
      await operator.waitReady();
      await wait("addonmodule/one", "condition=Ready");
      await operator.stop();
      const release = "sh.helm.release.v1.one.v";
      const before = (await names("secrets")).filter((name) => name.startsWith(release));

      await helm("uninstall", "operator");
      await wait("addonmodule/one", "delete");
      expect(await names("addonoperators")).toEqual([]);
      expect(await names("configmaps")).toEqual(["kube-root-ca.crt", "one"]);
      expect(await names("leases")).toEqual(["addon-operator-addon-operator"]);
      expect(await names("serviceaccounts")).toEqual(["default"]);
      expect(await names("secrets")).toEqual([KEY, ...before]);
      await own.kubectl(["get", ...CRDS]);

      await install("config.values.oneEnabled=true");
      const next = await operate();
      await next.waitReady();
      await wait("addonmodule/one", "condition=Ready");
      expect((await names("secrets")).filter((name) => name.startsWith(release))).toEqual(before);
    },
  );

  test(
    "everything on purpose: modules off, more than the brake allows, then the operator, then the CRDs",
    { timeout: 240_000 },
    async () => {
      await install(...switched("true"));
      const operator = await operate();
      await operator.waitReady();
      for (const name of MODULES) await wait(`addonmodule/${name}`, "condition=Ready");

      await install(...switched("false"));
      const token = await eventually(async () => {
        const holds = await kubectl("get", "addonoperator/addon-operator", "-o", "jsonpath={.status.holds}");
        return /confirm-delete=([0-9a-f]+)/.exec(holds)?.[1] ?? false;
      }, "the hold");
      const confirm = `addon-operator.io/confirm-delete=${token}`;
      await kubectl("annotate", "--overwrite", "addonoperator/addon-operator", confirm);
      await kubectl(
        "wait",
        "addonmodules",
        "--all",
        "--for=jsonpath={.status.state}=Disabled",
        "--timeout=120s",
      );
      await operator.stop();
      await helm("uninstall", "operator");
      await own.kubectl(["delete", ...CRDS]);

      expect(await names("secrets")).toEqual([KEY]);
      await eventually(async () => (await names("configmaps")).join() === "kube-root-ca.crt", "nothing left");
      await expect(own.kubectl(["get", CRDS[0] ?? ""])).rejects.toThrow(/NotFound/);
    },
  );
});
