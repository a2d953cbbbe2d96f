// Runs at night: faults.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Temporary files".

test.each(["main", "own"])(
  "a temp directory that was emptied is filled again for hooks and helm, with modules in the queue %s",
  async (queues) => {
    const { kubectl } = cluster();
    const namespace = await freshNamespace("temp");
    const lab = hookLab("temp-dir");
    lab.file("modules/site/Chart.yaml", "apiVersion: v2\nname: site\nversion: 1.0.0\n");
    lab.file(
      "modules/site/templates/map.yaml",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {size: {{ .Values.site.size | quote }}}\n",
    );
    lab.file("modules/site/values.yaml", "siteEnabled: true\nsite:\n  size: 1\n");
    lab.hook("modules/site/hooks/before.sh", { configVersion: "v1", beforeHelm: 1 });
    const { modulesDir } = lab;
    const operator = await startOperator({ namespace, modulesDir, args: [`--module-queues=${queues}`] });
    await operator.waitReady();
    const runs = lab.runs("before").length;
    rmSync(join(operator.dir, "tmp"), { recursive: true });
    const patch = JSON.stringify({ data: { site: "size: 2\n" } });
    const edit = ["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch];
    await kubectl(edit);
    const read = ["get", "configmap", "site", "-n", namespace, "-o", "jsonpath={.data.size}"];
    await eventually(async () => expect(await kubectl(read)).toBe("2"), "the edit arrives", {
      context: () => operator.log().slice(-2000),
    });
    expect(lab.runs("before").length).toBeGreaterThan(runs);
  },
);
