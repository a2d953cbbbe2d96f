// Run with helm 3 as well.
// Runs at night: moves and limits that few changes touch.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import {
  managedByDigest,
  locationsSecretName,
  Releases,
  type ReconcileRequest,
} from "../../src/helm/index.ts";
import { connect, Discovery, WatchHub, type KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { Children } from "../../src/base/process/index.ts";
import { cluster, deleteNamespace, freshNamespace, makeNamespace } from "../support/cluster.ts";
import { FaultProxy, type Seen } from "../support/fault-proxy.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";
import { kubeconfigOf } from "../support/kubeconfig-of.ts";

// docs/guides/tenancy.md, "Move a release": objects stay, and a move goes on wherever it was interrupted.

const { kubectl, json } = cluster();

interface Found extends JsonObject {
  readonly metadata: JsonObject & {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

describe.each(HELMS)("a release that moves, with %s", (which) => {
  const once = isUnderTest(which);
  let proxy: FaultProxy;
  let root: string;
  /** The operator's namespace. */
  let home: string;
  let team: string;
  let client: KubeClient;
  let hub: WatchHub;
  let releases: Releases;

  async function start(): Promise<void> {
    releases = new Releases({
      children: new Children(),
      client,
      hub,
      discovery: new Discovery(client),
      namespace: home,
      bin: cluster().bin[which],
      managedBy: managedByDigest(home, "addon-operator"),
      timeoutMs: 60_000,
      historyMax: 2,
      validate: false,
      tmpDir: join(root, "tmp"),
      env: { PATH: process.env["PATH"] ?? "" },
      kubeconfig: kubeconfigOf(client, root),
      logger: silentLogger,
      clock: systemClock,
      purge: "owned",
      adopt: "all",
      moduleNamespaceLabels: { tier: "addons" },
      locationsSecret: locationsSecretName("addon-operator"),
    });
    await releases.observed.waitUntilReady();
  }

  beforeEach(async () => {
    home = await makeNamespace("moving");
    team = `${home}-team`;
    root = await mkdtemp(join(tmpdir(), "moving-test-"));
    proxy = await FaultProxy.open(cluster().kubeconfig);
    client = connect({ kubeConfig: proxy.kubeconfig, userAgent: "test", logger: silentLogger });
    hub = new WatchHub({ client, clock: systemClock, logger: silentLogger });
    await chart();
    await start();
  });

  afterEach(async () => {
    releases.close();
    hub.close();
    await client.close();
    await proxy.close();
    await kubectl(["delete", "clusterrole", home, "--ignore-not-found"]);
    await kubectl(["delete", "namespace", team, "--ignore-not-found", "--wait=false"]);
    await deleteNamespace(home);
    await rm(root, { recursive: true, force: true });
  });

  async function chart(): Promise<void> {
    const text = `apiVersion: v1
kind: ConfigMap
metadata: {name: loose}
data: {at: {{ .Release.Namespace }}, text: "{{ .Values.m.text }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed, namespace: ${home}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ${home}}
rules: []
`;
    const files = { "Chart.yaml": "apiVersion: v2\nname: m\nversion: 1.0.0\n", "templates/all.yaml": text };
    for (const [file, content] of Object.entries(files)) {
      const path = join(root, "m", file);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content);
    }
  }

  const moduleIn = (namespace: string): ReconcileRequest["module"] => ({
    name: "m",
    valuesKey: "m",
    chartDir: join(root, "m"),
    chart: "own",
    namespace,
  });

  function requestOf(namespace: string, text: string): ReconcileRequest {
    const values = JSON.stringify({ global: {}, m: { text } });
    return { module: moduleIn(namespace), values, signal: AbortSignal.timeout(100_000) };
  }

  async function run(namespace: string, text = ""): Promise<void> {
    await releases.reconcile(requestOf(namespace, text));
    await releases.flushLabels();
  }

  /** Checks what is said of a move before it happens. */
  async function expectPreview(from: string, to: string): Promise<void> {
    const request = requestOf(to, "1");
    const why = `the release moves from namespace ${from} to ${to}`;
    expect(await releases.preview(request)).toEqual({ action: "upgrade", why });
    const diff = await releases.diff({ ...request, crds: { files: [] }, redact: (object) => object });
    expect(diff.split("\n").filter((line) => line.startsWith("# "))).toEqual(
      [
        `# rbac.authorization.k8s.io/v1 ClusterRole ${to} ${home}: changes`,
        `# v1 ConfigMap ${home} fixed: changes`,
        `# v1 ConfigMap ${from} loose: is removed`,
        `# v1 ConfigMap ${to} loose: is created`,
      ].toSorted(),
    );
  }

  async function restart(): Promise<void> {
    releases.close();
    await start();
  }

  /** All objects of a kind in both namespaces, and the ClusterRole. */
  async function objects(): Promise<Found[]> {
    const lists = [home, team].map((each) =>
      json<{ items: Found[] }>(["get", "configmaps", "-n", each, "-l", "app.kubernetes.io/managed-by=Helm"]),
    );
    const role = await json<Found>(["get", "clusterrole", home]);
    return [...(await Promise.all(lists)).flatMap(({ items }) => items), role];
  }

  async function records(namespace: string): Promise<string[]> {
    const { items } = await json<{ items: Found[] }>(["get", "secrets", "-n", namespace, "-l", "owner=helm"]);
    return items.map(({ metadata }) => metadata.name);
  }

  /** Checks that the release is in one namespace and nothing of it is left in the other. */
  async function expectIn(namespace: string, uids: ReadonlySet<string>): Promise<void> {
    const found = await objects();
    const names = found.map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`);
    expect(names.toSorted()).toEqual([`/${home}`, `${home}/fixed`, `${namespace}/loose`].toSorted());
    const owners = found.map(({ metadata }) => metadata.annotations?.["meta.helm.sh/release-namespace"]);
    expect(new Set(owners)).toEqual(new Set([namespace]));
    const staying = found.filter(({ metadata }) => metadata.name !== "loose");
    expect(staying.filter(({ metadata }) => !uids.has(metadata.uid))).toEqual([]);
    const other = namespace === home ? team : home;
    expect(await records(other)).toEqual([]);
    expect((await records(namespace)).length).toBeGreaterThan(0);
    expect(releases.observed.get("m")).toMatchObject({ namespace, status: "deployed" });
    const place = await json<{ data?: JsonObject }>([
      "get",
      "secret",
      locationsSecretName("addon-operator"),
      "-n",
      home,
    ]);
    expect(Object.keys(place.data ?? {})).toEqual(namespace === home ? [] : ["m"]);
  }

  const isHelm = ({ agent }: Seen): boolean => agent.startsWith("Helm");
  const isWrite = ({ method, path }: Seen): boolean =>
    method !== "GET" && !path.includes("/authorization.k8s.io/");

  /** Refuses the nth write of the operator from now on, or helm's first one after them; returns whether it came. */
  function refuse(nth: number): () => boolean {
    let left = nth;
    const isNth = (seen: Seen): boolean => {
      if (!isWrite(seen) || left <= 0) return false;
      left = isHelm(seen) ? 0 : left - 1;
      return left === 0;
    };
    proxy.answer(isNth, { status: 403, reason: "Forbidden" }, 1);
    return () => left <= 0;
  }

  test("keeps its objects, there and back", { timeout: 120_000 }, async () => {
    await run(home, "1");
    const uids = new Set((await objects()).map(({ metadata }) => metadata.uid));
    for (const target of [team, home]) {
      await expectPreview(target === team ? home : team, target);
      await run(target, "1");
      await expectIn(target, uids);
    }
  });

  test.runIf(once)("goes on wherever it was interrupted", { timeout: 400_000 }, async () => {
    await run(home, "1");
    await run(home, "2");
    const uids = new Set((await objects()).map(({ metadata }) => metadata.uid));
    let target = team;
    let isHelmReached = false;
    for (let nth = 1; !isHelmReached; nth++) {
      const before = proxy.seen.length;
      const wasInterrupted = refuse(nth);
      await expect(run(target, "2")).rejects.toThrow(/orbidden/);
      expect(wasInterrupted()).toBe(true);
      isHelmReached = proxy.seen.slice(before).some((seen) => isWrite(seen) && isHelm(seen));
      await restart();
      await run(target, "2");
      await expectIn(target, uids);
      target = target === team ? home : team;
    }
    const { metadata } = await json<Found>(["get", "namespace", team]);
    expect(metadata["labels"]).toMatchObject({ tier: "addons" });
  });

  test.runIf(once)("turns around if its module does", { timeout: 200_000 }, async () => {
    await run(home, "1");
    const uids = new Set((await objects()).map(({ metadata }) => metadata.uid));
    // The first has recorded where the release is. A DELETE of what does not exist is sent twice.
    for (const nth of [6, 8, 10]) {
      refuse(nth);
      await expect(run(team, "1")).rejects.toThrow(/Forbidden|forbidden/);
      await restart();
      await run(home, "1");
      await expectIn(home, uids);
    }
  });

  test.runIf(once)(
    "is removed whole when it is interrupted and its module is gone",
    { timeout: 200_000 },
    async () => {
      await run(home, "1");
      const isDelete = ({ method, path }: Seen): boolean => method === "DELETE" && path.includes("/secrets/");
      proxy.answer(isDelete, { status: 403, reason: "Forbidden" }, 1);
      await expect(run(team, "1")).rejects.toThrow(/Forbidden/);
      await restart();
      expect(releases.observed.withoutModule({ modules: [] })).toEqual(["m"]);
      await releases.uninstall({ name: "m" }, AbortSignal.timeout(60_000));
      await releases.forgetRelease("m");
      expect(await records(home)).toEqual([]);
      expect(await records(team)).toEqual([]);
      for (const namespace of [home, team])
        expect(
          await kubectl([
            "get",
            "cm",
            "-n",
            namespace,
            "-l",
            "app.kubernetes.io/managed-by=Helm",
            "-o",
            "name",
          ]),
        ).toBe("");
    },
  );

  test.runIf(once)(
    "does not replace a release of its name there, and records of others do not count",
    { timeout: 120_000 },
    async () => {
      await run(home, "1");
      const other = await freshNamespace("moving-other");
      const labels = {
        owner: "helm",
        name: "m",
        version: "9",
        status: "deployed",
        "addon-operator.io/managed-by": managedByDigest(home, "addon-operator"),
      };
      const forged = {
        apiVersion: "v1",
        kind: "Secret",
        type: "helm.sh/release.v1",
        metadata: { name: "sh.helm.release.v1.m.v9", namespace: other, labels },
      };
      await cluster().apply(forged);
      await restart();
      expect(releases.observed.get("m")).toMatchObject({ namespace: home, revision: 1 });
      await expect(run(other, "1")).rejects.toThrow(
        `release "m" cannot be moved from namespace ${home} to ${other}, which contains a release of this name`,
      );
      expect(releases.observed.get("m")).toMatchObject({ namespace: home, revision: 1 });
    },
  );
});
