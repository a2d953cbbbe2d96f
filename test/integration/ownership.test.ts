import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { managedByDigest, Releases } from "../../src/helm/index.ts";
import type { ReleasesOptions } from "../../src/helm/index.ts";
import { connect, Discovery, WatchHub } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/lib/index.ts";
import { cluster, deleteNamespace, eventually, freshNamespace, makeNamespace } from "../support/cluster.ts";
import { kubeconfigOf } from "../support/kubeconfig-of.ts";
import { hookLab } from "../support/hook-files.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";
import { startOperator } from "../support/operator.ts";

// docs/RUNNING.md, "What outlives a release": an object goes with the release that its marks name, and with no other.

interface Lab {
  readonly namespace: string;
  readonly root: string;
  readonly client: KubeClient;
  readonly hub: WatchHub;
}

const { kubectl } = cluster();

const map = (name: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`;

describe.each(["helm", "helm3"] as const)("objects of releases, with %s", (which) => {
  let lab: Lab;
  let releases: Releases;
  let logged: LoggedLine[];

  function open(change: Partial<ReleasesOptions> = {}): Releases {
    const { namespace, root, client, hub } = lab;
    return new Releases({
      client,
      hub,
      discovery: new Discovery(client),
      namespace,
      bin: cluster().bin[which],
      managedBy: managedByDigest(namespace, "addon-operator"),
      timeoutMs: 60_000,
      historyMax: 3,
      validate: false,
      tmpDir: join(root, "tmp"),
      env: { PATH: process.env["PATH"] ?? "" },
      kubeconfig: kubeconfigOf(client, root),
      logger: keepLog(logged),
      clock: systemClock,
      purge: "owned",
      adopt: "all",
      ...change,
    });
  }

  beforeEach(async () => {
    logged = [];
    const namespace = await makeNamespace("owners");
    const root = await mkdtemp(join(tmpdir(), "owners-test-"));
    const logger = silentLogger;
    const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger });
    lab = { namespace, root, client, hub: new WatchHub({ client, clock: systemClock, logger }) };
    releases = open();
    await releases.ready();
  });

  afterEach(async () => {
    releases.close();
    lab.hub.close();
    await lab.client.close();
    await deleteNamespace(lab.namespace);
    await rm(lab.root, { recursive: true, force: true });
  });

  async function chart(name: string, ...objects: readonly string[]): Promise<void> {
    const files = {
      "Chart.yaml": `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`,
      "templates/all.yaml": objects.join("---\n"),
    };
    for (const [file, text] of Object.entries(files)) {
      const path = join(lab.root, name, file);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }

  const moduleOf = (name: string) =>
    ({ name, valuesKey: name, chartDir: join(lab.root, name), chart: "own" }) as const;

  /** `terms`: what a person allows. */
  async function bring(
    name: string,
    values: object = {},
    terms: { readonly takeOwnership?: boolean; readonly confirmedTakeover?: string } = {},
  ): Promise<void> {
    const { takeOwnership = false, confirmedTakeover } = terms;
    const module = { ...moduleOf(name), helm: { takeOwnership } };
    const signal = AbortSignal.timeout(50_000);
    await releases.reconcile({ module, values: JSON.stringify(values), confirmedTakeover, signal });
    await releases.flushLabels();
  }

  /** The token by which a person allows what the release is refused. */
  async function tokenOf(name: string): Promise<string> {
    const { message } = await bring(name).then(
      () => expect.unreachable("nothing was refused"),
      (error: Error) => error,
    );
    return /confirm-takeover=(\w+)/.exec(message)?.[1] ?? message;
  }

  async function remove(name: string): Promise<void> {
    await releases.uninstall({ name }, AbortSignal.timeout(50_000));
    await releases.forget(name);
  }

  const warnings = () =>
    logged.filter(([level]) => level === "warn").map(([, message, fields]) => ({ message, fields }));

  const uid = (object: string): Promise<string> =>
    kubectl(["get", object, "-n", lab.namespace, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found"]);

  test("what another release took over stays when a release goes, also cluster-wide", async () => {
    const role = `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ${lab.namespace}}\n`;
    const list = `apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: listed}}]\n`;
    await chart("a", map("own"), map("shared"), role, list);
    await chart("b", map("shared"), role, list);
    const shared = ["cm/shared", `clusterrole/${lab.namespace}`, "secret/listed"];
    await bring("a");
    const before = await Promise.all(shared.map(uid));
    await bring("b");
    await remove("a");
    expect(await uid("cm/own")).toBe("");
    expect(await Promise.all(shared.map(uid))).toEqual(before);
    await remove("b");
    expect(await Promise.all(shared.map(uid))).toEqual(["", "", ""]);
  });

  const space = (name: string): string => `apiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}}\n`;

  test("an object that somebody made stays as it is until a person allows the release to have it, and outlives it", async () => {
    const data = (text: string): string => `${map("hand")}data: {key: ${text}}\n`;
    const read = (path: string): Promise<string> =>
      kubectl(["get", "cm/hand", "-n", lab.namespace, "-o", `jsonpath={${path}}`]);
    await kubectl(["apply", "-n", lab.namespace, "-f", "-"], data("theirs"));
    await chart("a", map("own"), data("ours"));
    const token = await tokenOf("a");
    expect(await read(".data.key")).toBe("theirs");
    expect(await uid("cm/own")).toBe("");
    const before = await uid("cm/hand");
    await bring("a", {}, { confirmedTakeover: token });
    expect(await read(".data.key")).toBe("ours");
    expect(await uid("cm/hand")).toBe(before);
    // Neither an upgrade that drops it nor the removal deletes it.
    await chart("a", map("own"));
    await bring("a");
    expect(await uid("cm/hand")).toBe(before);
    await chart("a", map("own"), data("again"));
    await bring("a");
    await remove("a");
    expect(await uid("cm/hand")).toBe(before);
    expect(await uid("cm/own")).toBe("");
  });

  test("an upgrade neither takes over what somebody made meanwhile", async () => {
    await chart("a", map("own"));
    await bring("a");
    await kubectl(["create", "configmap", "later", "-n", lab.namespace]);
    await chart("a", map("own"), map("later"));
    await expect(bring("a")).rejects.toThrow("ConfigMap/later of no release");
    expect(releases.get("a")).toMatchObject({ revision: 1, status: "deployed" });
    await bring("a", {}, { takeOwnership: true });
    expect(releases.get("a")).toMatchObject({ revision: 2, status: "deployed" });
  });

  test("namespaces and CRDs that were there before outlive the release, others go with it", async () => {
    const [mine, theirs] = [`${lab.namespace}-mine`, `${lab.namespace}-theirs`];
    const definition = crd(`${lab.namespace}.example.com`);
    onTestFinished(async () => {
      for (const name of [mine, theirs]) await deleteNamespace(name);
      await kubectl(["delete", "crd", `things.${lab.namespace}.example.com`, "--ignore-not-found"]);
    });
    await kubectl(["create", "namespace", theirs]);
    await kubectl(["apply", "-f", "-"], definition);
    await chart("a", map("own"), space(mine), space(theirs), definition);
    await bring("a", {}, { takeOwnership: true });
    await bring("a");
    const policy = String.raw`jsonpath={.metadata.annotations.helm\.sh/resource-policy}`;
    expect(await kubectl(["get", "ns", theirs, "-o", policy])).toBe("keep");
    expect(await kubectl(["get", "ns", mine, "-o", policy])).toBe("");
    const objects = [
      `Namespace/${theirs} of no release`,
      `CustomResourceDefinition/things.${lab.namespace}.example.com of no release`,
    ];
    const message = "Existing objects are taken over, and kept when the module goes";
    expect(warnings()).toEqual([{ message, fields: { module: "a", objects } }]);
    await remove("a");
    expect(await uid("cm/own")).toBe("");
    const phase = (name: string): Promise<string> =>
      kubectl([
        "get",
        "ns",
        name,
        "--ignore-not-found",
        "-o",
        "jsonpath={.metadata.deletionTimestamp}/{.status.phase}",
      ]);
    expect(await phase(mine)).not.toMatch(/^\/Active/);
    expect(await phase(theirs)).toBe("/Active");
    expect(await uid(`crd/things.${lab.namespace}.example.com`)).not.toBe("");
  });

  test("a namespace that comes into a chart later, from values, is kept too", async () => {
    const theirs = `${lab.namespace}-later`;
    onTestFinished(() => deleteNamespace(theirs));
    await kubectl(["create", "namespace", theirs]);
    const extra = "{{- range .Values.a.extra }}\n---\n{{ toYaml . }}\n{{- end }}\n";
    await chart("a", map("own"), extra);
    await bring("a", { a: { extra: [] } });
    const metadata = { name: theirs };
    const withSpace = [{ apiVersion: "v1", kind: "Namespace", metadata }];
    await bring("a", { a: { extra: withSpace } }, { takeOwnership: true });
    expect(await kubectl(["get", "ns", theirs, "-o", "jsonpath={.metadata.annotations}"])).toContain(
      `"meta.helm.sh/release-name":"a"`,
    );
    await bring("a", { a: { extra: [] } });
    await remove("a");
    const left = ["get", "ns", theirs, "-o", "jsonpath={.metadata.deletionTimestamp}/{.status.phase}"];
    expect(await kubectl(left)).toBe("/Active");
  });

  test("a namespace goes over from one module to another with its release", async () => {
    const name = `${lab.namespace}-moved`;
    onTestFinished(() => deleteNamespace(name));
    await chart("a", space(name));
    await chart("b", space(name));
    await bring("a");
    await bring("b");
    await remove("a");
    const left = ["get", "ns", name, "-o", "jsonpath={.metadata.deletionTimestamp}/{.status.phase}"];
    expect(await kubectl(left)).toBe("/Active");
    await remove("b");
    const ending = ["get", "ns", name, "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
    expect(await kubectl(ending)).not.toBe("Active");
  });

  test("an upgrade that leaves an object out does not delete what another release took over", async () => {
    await chart("a", map("own"), map("dropped"), map("shared"));
    await chart("b", map("shared"));
    await bring("a");
    const before = await uid("cm/shared");
    await bring("b");
    await chart("a", map("own"));
    await bring("a");
    expect(await uid("cm/dropped")).toBe("");
    expect(await uid("cm/shared")).toBe(before);
  });

  test("neither an upgrade nor a removal deletes what the chart of a module that runs later has now", async () => {
    const spelled = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved, namespace: ${lab.namespace}}\n`;
    await chart("a", map("own"), map("dropped"), map("moved"));
    await bring("a");
    const before = await uid("cm/moved");
    await chart("a", map("own"));
    await chart("b", spelled);
    await chart("broken", "{{ fail }}");
    const upcoming = (name: string) => ({
      name,
      input: () => ({ module: moduleOf(name), values: "{}" }),
      hasFinalValues: false,
    });
    releases.announce(["a", "broken", "b"].map(upcoming));
    await bring("a");
    expect(await uid("cm/dropped")).toBe("");
    await bring("b");
    expect(await uid("cm/moved")).toBe(before);
    await chart("c", map("moved"));
    releases.announce([upcoming("c")]);
    await remove("b");
    await bring("c");
    expect(await uid("cm/moved")).toBe(before);
    releases.announce([]);
    await chart("c", map("other"));
    await bring("c");
    expect(await uid("cm/moved")).toBe("");
  });

  test("what is annotated to be kept stays", async () => {
    await chart("a", map("own"), map("kept"));
    await bring("a");
    await kubectl(["annotate", "cm/kept", "-n", lab.namespace, "helm.sh/resource-policy=keep"]);
    await remove("a");
    expect(await uid("cm/own")).toBe("");
    expect(await uid("cm/kept")).not.toBe("");
  });

  test("what is taken over from nobody or another release is reported, and what is its own is not", async () => {
    const role = `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ${lab.namespace}}\n`;
    const told: string[][] = [];
    releases.close();
    const tookOver = (release: string, objects: readonly string[]) => void told.push([release, ...objects]);
    releases = open({ recorder: { tookOver, ran: () => {}, adopted: () => {}, reconciled: () => {} } });
    await releases.ready();
    await kubectl(["create", "configmap", "nobodys", "-n", lab.namespace]);
    await chart("a", role, map("shared"), map("nobodys"));
    await bring("a", {}, { takeOwnership: true });
    await chart("a", role, map("shared"), map("nobodys"), map("more"));
    await bring("a");
    expect(told.splice(0)).toEqual([["a", "ConfigMap/nobodys of no release"]]);
    logged.length = 0;
    await chart("b", role, map("shared"), map("other"));
    await bring("b");
    const from = `of ${lab.namespace}/a`;
    expect(told).toEqual([["b", `ConfigMap/shared ${from}`, `ClusterRole/${lab.namespace} ${from}`]]);
    const fields = { module: "b", objects: told[0]?.slice(1) };
    expect(warnings()).toEqual([{ message: "Objects of other releases are taken over", fields }]);
    const owner = String.raw`jsonpath={.metadata.annotations.meta\.helm\.sh/release-name}`;
    expect(await kubectl(["get", "clusterrole", lab.namespace, "-o", owner])).toBe("b");
  });

  test("nothing goes while it cannot be told whose it is", async () => {
    await chart("a", map("own"));
    await bring("a");
    releases.close();
    releases = open({ discovery: { resolve: () => Promise.reject(new Error("no answer")) } });
    await releases.ready();
    await expect(remove("a")).rejects.toThrow("cannot tell whose ConfigMap/own is: no answer");
    expect(await uid("cm/own")).not.toBe("");
  });

  test("a release whose removal was begun takes its objects back when its module runs again", async () => {
    await chart("a", map("own"), map("shared"));
    await chart("b", map("shared"));
    await bring("a");
    await bring("b");
    releases.close();
    releases = open({ bin: "/nowhere/helm" });
    await releases.ready();
    await expect(remove("a")).rejects.toThrow("/nowhere/helm");
    releases.close();
    releases = open();
    await releases.ready();
    await bring("a");
    const owner = String.raw`jsonpath={.metadata.annotations.meta\.helm\.sh/release-name}`;
    expect(await kubectl(["get", "cm/shared", "-n", lab.namespace, "-o", owner])).toBe("a");
  });
});

function crd(group: string): string {
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.${group}}
spec:
  group: ${group}
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`;
}

test("a module whose directory is renamed keeps its objects", { timeout: 120_000 }, async () => {
  const namespace = await freshNamespace("renamed");
  const lab = hookLab("renamed");
  lab.file("modules/010-a/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n");
  lab.file("modules/010-a/templates/map.yaml", map("data"));
  const get = (path: string): Promise<string> =>
    kubectl(["get", "cm/data", "-n", namespace, "-o", `jsonpath={.metadata${path}}`]);
  await kubectl(
    ["apply", "-n", namespace, "-f", "-"],
    JSON.stringify({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator" },
      data: { aEnabled: "true", bEnabled: "true" },
    }),
  );
  const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  await operator.waitReady();
  const uid = await get(".uid");
  renameSync(join(lab.modulesDir, "010-a"), join(lab.modulesDir, "010-b"));
  await kubectl([
    "patch",
    "cm",
    "addon-operator",
    "-n",
    namespace,
    "-p",
    `{"data":{"global":"{reload: 1}"}}`,
  ]);
  await eventually(() => operator.log().includes("Release purged"), "the purge", {
    context: () => operator.log(),
  });
  expect(await get(".uid")).toBe(uid);
  expect(await get(String.raw`.annotations.meta\.helm\.sh/release-name`)).toBe("b");
});
