import { expect, onTestFinished, test } from "vitest";

import { FilterEngine } from "../../src/hooks/filter/index.ts";
import * as kube from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { Hook, HookTask, KubernetesBinding } from "../../src/base/model/index.ts";
import { KubeBindings } from "../../src/hooks/bindings/index.ts";
import { Children } from "../../src/base/process/index.ts";
import { cluster, eventually, freshNamespace, kubeconfigOf } from "../support/cluster.ts";
import { binding, hookOf } from "../hooks/build.ts";

const hook = (more: Partial<KubernetesBinding>): Hook =>
  hookOf("h", [
    binding({
      name: "objects",
      keepFullObjects: false,
      jqFilter: ".metadata.name",
      namespaces: undefined,
      ...more,
    }),
  ]);

function lab(kubeConfig = cluster().kubeconfig) {
  const reported: string[] = [];
  const client = kube.connect({ kubeConfig, userAgent: "test", logger: silentLogger });
  const hub = new kube.WatchHub({ client, clock: systemClock, logger: silentLogger });
  const filters = new FilterEngine({
    children: new Children(),
    jqBin: undefined,
    env: process.env,
    clock: systemClock,
    logger: silentLogger,
  });
  const offer = (_: string, { trigger }: HookTask): void => {
    if (trigger.type === "event")
      reported.push(`${trigger.event.watchEvent} ${trigger.event.namespace}/${trigger.event.name}`);
    else reported.push(trigger.type);
  };
  const kinds = new kube.KindFinder({ hub, discovery: new kube.Discovery(client), clock: systemClock });
  const around = { queues: { offer }, clock: systemClock, logger: silentLogger };
  const made = new KubeBindings({ hub, kinds, filters, ...around });
  onTestFinished(async () => {
    made.close();
    hub.close();
    filters.close();
    await client.close();
  });
  const results = (of: Hook): unknown[] =>
    made
      .snapshots(of)
      .byBindingName("objects")
      .map(({ filterResult }) => filterResult);
  return { made, reported, results };
}

const configMap = (namespace: string, name: string, labels: Record<string, string> = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace, labels },
});

test("a kind that does not exist yet is waited for and starts when its CRD comes", async () => {
  const group = `${(await freshNamespace("crd")).replaceAll("-", "")}.example.com`;
  const { made, reported, results } = lab();
  const of = hook({ apiVersion: `${group}/v1`, kind: "Widget" });
  await made.enable(of);
  expect(made.issues()[0]?.message).toContain("Widget");
  const crd = `widgets.${group}`;
  const names = { plural: "widgets", singular: "widget", kind: "Widget" };
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await cluster().apply({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: crd },
    spec: { group, names, scope: "Cluster", versions: [{ name: "v1", served: true, storage: true, schema }] },
  });
  onTestFinished(async () => void (await cluster().kubectl(["delete", "crd", crd, "--wait=false"])));
  await eventually(
    () => expect([reported, made.issues()]).toEqual([["synchronization"], []]),
    "synchronization",
  );
  made.unlock(of);
  await cluster().apply({ apiVersion: `${group}/v1`, kind: "Widget", metadata: { name: "w" } });
  await eventually(() => expect(reported.slice(1)).toEqual(["Added /w"]), "the new kind's event");
  expect(results(of)).toEqual(["w"]);
});

test("missing rights are said, and the binding starts when they are given", async () => {
  const namespace = await freshNamespace("rbac");
  const { made, reported, results } = lab(await kubeconfigOf(namespace, "limited"));
  const of = hook({ namespaces: [namespace] });
  await made.enable(of);
  expect(made.listUnlistedBindings(of)).toEqual(["kubernetes[0]"]);
  expect(made.issues()[0]?.message).toContain("forbidden");
  const role = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" };
  await cluster().apply(configMap(namespace, "one"), {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name: "limited", namespace },
    roleRef: role,
    subjects: [{ kind: "ServiceAccount", name: "limited", namespace }],
  });
  await eventually(
    () => expect([reported, made.issues()]).toEqual([["synchronization"], []]),
    "synchronization",
  );
  expect(results(of)).toContain("one");
});

test("namespaces come and go with their labels, objects with theirs and their fields", async () => {
  const [one, two] = [await freshNamespace("place"), await freshNamespace("place")];
  const label = one;
  const { made, reported, results } = lab();
  await cluster().kubectl(["label", "namespace", one, `place=${label}`]);
  await cluster().apply(
    configMap(one, "a", { on: "1" }),
    configMap(one, "not"),
    configMap(two, "b", { on: "1" }),
  );
  const of = hook({
    namespaceLabels: { matchLabels: { place: label } },
    labelSelector: { matchExpressions: [{ key: "on", operator: "In", values: ["1", "2"] }] },
    fieldSelector: "metadata.name!=never",
  });
  await made.enable(of);
  expect(results(of)).toEqual(["a"]);
  made.unlock(of);
  await cluster().kubectl(["label", "namespace", two, `place=${label}`]);
  await eventually(() => expect(reported).toEqual([`Added ${two}/b`]), "the new namespace's object");
  await cluster().kubectl(["label", "configmap", "-n", one, "a", "on-"]);
  await eventually(() => expect(reported.slice(1)).toEqual([`Deleted ${one}/a`]), "the object that left");
  await cluster().kubectl(["label", "namespace", two, "place-"]);
  await eventually(() => expect(reported.slice(2)).toEqual([`Deleted ${two}/b`]), "the namespace that left");
  await cluster().apply(configMap(one, "never", { on: "1" }), configMap(one, "c", { on: "2" }));
  await eventually(() => expect(reported.slice(3)).toEqual([`Added ${one}/c`]), "the last event");
  expect(results(of)).toEqual(["c"]);
});
