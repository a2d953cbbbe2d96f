// Runs at night: faults of files that only helm writes and reads.
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { Releases } from "../../src/helm/index.ts";
import type { ReleaseOutcome } from "../../src/helm/index.ts";
import { connect, WatchHub } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { cluster, deleteNamespace, makeNamespace } from "../support/cluster.ts";
import { crdOfThings } from "../support/crds.ts";
import { releasesOptions } from "../support/releases-options.ts";

interface Lab {
  readonly namespace: string;
  readonly root: string;
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly releases: Releases;
}

let lab: Lab;

/** The files of the discovery cache that all helm processes of an operator share. */
async function cacheFiles(): Promise<string[]> {
  const dir = join(lab.root, "tmp", "helm-home", "kube");
  const names = await readdir(dir, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

async function reconcile(template: string, a: number): Promise<ReleaseOutcome> {
  await writeFile(join(lab.root, "m", "templates", "object.yaml"), template);
  return lab.releases.reconcile({
    module: {
      name: "m",
      valuesKey: "m",
      chartDir: join(lab.root, "m"),
      chart: "own",
      helm: undefined,
      retries: 1,
    },
    values: JSON.stringify({ global: {}, m: { a } }),
    missingObjects: [],
    signal: AbortSignal.timeout(50_000),
  });
}

const CONFIG_MAP = `apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {a: "{{ .Values.m.a }}"}
`;

const data = (): Promise<string> =>
  cluster().kubectl(["get", "cm", "m", "-n", lab.namespace, "-o", "jsonpath={.data.a}"]);

describe("the discovery cache of helm", () => {
  beforeEach(async () => {
    const namespace = await makeNamespace("helm-cache");
    const root = await mkdtemp(join(tmpdir(), "helm-cache-"));
    await mkdir(join(root, "m", "templates"), { recursive: true });
    await writeFile(join(root, "m", "Chart.yaml"), "apiVersion: v2\nname: m\nversion: 1.0.0\n");
    const logger = silentLogger;
    const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger });
    const hub = new WatchHub({ client, clock: systemClock, logger });
    const releases = new Releases(releasesOptions({ namespace, root, client, hub }, cluster().bin.helm));
    lab = { namespace, root, client, hub, releases };
    await releases.observed.waitUntilReady();
    await reconcile(CONFIG_MAP, 1);
  });

  afterEach(async () => {
    lab.releases.close();
    lab.hub.close();
    await lab.client.close();
    await deleteNamespace(lab.namespace);
    await rm(lab.root, { recursive: true, force: true });
  });

  const faults: Record<string, (file: string) => Promise<void>> = {
    "truncated to nothing": (file) => truncate(file, 0),
    "cut in the middle": async (file) => truncate(file, Math.floor((await readFile(file)).length / 2)),
    "of another format": (file) => writeFile(file, '{"kind":"Nothing","resources":"none"}'),
    "a directory in place of a file": async (file) => {
      await rm(file);
      await mkdir(file);
    },
  };
  test.each(Object.entries(faults))("%s", async (_title, spoil) => {
    const files = await cacheFiles();
    expect(files).not.toEqual([]);
    for (const file of files) await spoil(file);
    expect(await reconcile(CONFIG_MAP, 2)).toMatchObject({ action: "upgraded" });
    expect(await data()).toBe("2");
  });

  test("cannot be written", async () => {
    const dir = join(lab.root, "tmp", "helm-home", "kube");
    await rm(dir, { recursive: true });
    await writeFile(dir, "");
    expect(await reconcile(CONFIG_MAP, 2)).toMatchObject({ action: "upgraded" });
    expect(await data()).toBe("2");
  });

  test("written before a kind existed, and after it has gone", async () => {
    const group = `${lab.namespace}.example.com`;
    const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
    const crd = crdOfThings(group, [{ name: "v1", served: true, storage: true, schema }]);
    const file = join(lab.root, "crd.json");
    await writeFile(file, JSON.stringify(crd));
    const { kubectl } = cluster();
    await kubectl(["apply", "-f", file]);
    await kubectl(["wait", "--for=condition=Established", "--timeout=30s", `crd/things.${group}`]);
    const thing = `---\napiVersion: ${group}/v1\nkind: Thing\nmetadata: {name: m}\n`;
    expect(await reconcile(CONFIG_MAP + thing, 2)).toMatchObject({ action: "upgraded" });
    expect(await kubectl(["get", `things.${group}`, "-n", lab.namespace, "-o", "name"])).toContain("/m");
    await kubectl(["delete", "--wait", `crd/things.${group}`]);
    expect(await reconcile(CONFIG_MAP, 3)).toMatchObject({ action: "upgraded" });
    expect(await data()).toBe("3");
  });
});
