// Runs at night: compatibility.
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/commands.md: `module diff` and `wait`.

const { kubectl } = cluster();

const MAP = (name: string, size: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {size: ${size}}\n`;
const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example/web:1"}]}
`;

test(
  "diff reports what drifted and what a run would change, wait how long it takes",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("diff");
    const lab = hookLab("diff");
    lab.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    lab.file("modules/010-web/values.yaml", "webEnabled: true\n");
    lab.file("modules/010-web/templates/deployment.yaml", DEPLOYMENT);
    lab.file("modules/010-web/templates/same.yaml", MAP("same", '"1"'));
    lab.file("modules/010-web/templates/other.yaml", MAP("other", '"1"'));
    lab.file("modules/010-web/templates/old.yaml", MAP("old", '"1"'));
    await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    const cli = async (line: string): Promise<{ code: number | null; stdout: string }> => {
      const { code, stdout } = await operator.cli(line.split(" "));
      return { code, stdout };
    };
    await operator.waitReady();
    const ready = await cli("wait web --timeout 30s");
    expect(ready).toEqual({ code: 0, stdout: "web: Ready: Release web.v1 is in place\n" });
    expect(await cli("module diff web")).toEqual({ code: 0, stdout: "No differences\n" });

    await kubectl(["set", "image", "deployment/web", "web=registry.example/web:2", "-n", namespace]);
    const drifted = await cli("module diff web");
    expect(drifted.code).toBe(10);
    expect(drifted.stdout).toContain(`# apps/v1 Deployment ${namespace} web: drifted\n`);
    expect(drifted.stdout).toContain('-        - image: "registry.example/web:2"'.replaceAll('"', ""));
    expect(drifted.stdout).toContain("+        - image: registry.example/web:1");
    expect(drifted.stdout).not.toContain("same");

    lab.file("modules/010-web/templates/other.yaml", MAP("other", '"2"'));
    lab.file("modules/010-web/templates/old.yaml", "");
    lab.file("modules/010-web/templates/new.yaml", MAP("new", '"1"'));
    await kubectl(["label", "configmap", "same", "by=others", "-n", namespace]);
    const { stdout } = await cli("module diff web");
    expect(stdout.split("\n").filter((line) => line.startsWith("#"))).toEqual([
      `# apps/v1 Deployment ${namespace} web: drifted`,
      `# v1 ConfigMap ${namespace} new: is created`,
      `# v1 ConfigMap ${namespace} old: is removed`,
      `# v1 ConfigMap ${namespace} other: changes`,
    ]);
    // A dry run leaves no trace.
    const image = "jsonpath={.spec.template.spec.containers[0].image}";
    expect(await kubectl(["get", "deployment", "web", "-n", namespace, "-o", image])).toBe(
      "registry.example/web:2",
    );

    const late = await cli("wait web --for=healthy --timeout=1s");
    expect([late.code, late.stdout.split("\n").at(-2)]).toEqual([1, "web: not healthy within the timeout"]);
    expect(await cli("wait nobody")).toEqual({ code: 1, stdout: "module not found: nobody\n" });
    await eventually(async () => (await cli("wait web")).code === 0, "the module stays Ready");
  },
);
