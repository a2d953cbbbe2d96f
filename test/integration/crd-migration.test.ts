// Runs at night: compatibility.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../src/helm/index.ts";
import { connect } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { ownCluster } from "../support/cluster.ts";

// docs/reference/modules.md, "CRDs that change": the cluster's own StorageVersionMigration.

const GATE = "--feature-gates=StorageVersionMigrator=true";
const NAME = "things.example.org";

const definition = (versions: readonly string[], stored: string): string =>
  JSON.stringify({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: NAME },
    spec: {
      group: "example.org",
      names: { plural: "things", kind: "Thing" },
      scope: "Cluster",
      versions: versions.map((name) => ({
        name,
        served: true,
        storage: name === stored,
        schema: { openAPIV3Schema: { type: "object" } },
      })),
    },
  });

test(
  "a confirmed CRD may drop a stored version: the cluster migrates the objects first",
  { timeout: 180_000 },
  async (context) => {
    const plane = await ownCluster({
      controllerManager: false,
      apiServerArgs: [GATE, "--runtime-config=api/beta=true"],
      controllerManagerArgs: [GATE],
    });
    const { kubectl } = plane;
    if (!(await kubectl(["api-versions"])).includes("storagemigration.k8s.io/v1beta1"))
      return context.skip("this Kubernetes has no StorageVersionMigration beyond alpha");
    const dir = mkdtempSync(join(tmpdir(), "crds-"));
    const client = connect({ kubeConfig: plane.kubeconfig, userAgent: "test", logger: silentLogger });
    onTestFinished(async () => {
      await client.close();
      rmSync(dir, { recursive: true });
    });
    const file = join(dir, "crd.yaml");
    const reported: string[] = [];
    const apply = (text: string, confirmed?: string): Promise<string[]> => {
      writeFileSync(file, text);
      const onProgress = (line: string): void => void reported.push(line);
      return ensureCrds([file], { client, clock: systemClock, confirmed, onProgress });
    };
    await apply(definition(["v1", "v2"], "v1"));
    const object = { apiVersion: "example.org/v1", kind: "Thing", metadata: { name: "kept" } };
    await kubectl(["create", "-f", "-"], JSON.stringify(object));
    await plane.startControllerManager();

    const refusal = String(await apply(definition(["v2"], "v2")).catch(String));
    const token = /confirm-crds=([0-9a-f]+)/.exec(refusal)?.[1];
    const done = new AbortController();
    const applied = apply(definition(["v2"], "v2"), token).finally(() => done.abort());
    // The controller waits until its watch has seen later changes of the kind: without any, that takes a minute.
    for (let turn = 0; !done.signal.aborted; turn += 1)
      await kubectl(["annotate", "--overwrite", "thing/kept", `turn=${turn}`]);
    expect(await applied).toEqual([NAME]);

    expect(reported).toEqual([
      expect.stringContaining("Waits for StorageVersionMigration things.example.org-"),
    ]);
    const path = "jsonpath={.status.storedVersions} {.spec.versions[*].name}";
    expect(await kubectl(["get", "crd", NAME, "-o", path])).toBe('["v2"] v2');
    expect(await kubectl(["get", "things.v2.example.org", "-o", "name"])).toBe("thing.example.org/kept\n");
    expect(await kubectl(["get", "storageversionmigrations"])).toBe("");
  },
);
