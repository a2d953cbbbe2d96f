// Runs at night: documentation.
import { expect, test } from "vitest";

import { kubectl } from "../../../scripts/control-plane.mjs";
import { Api } from "../../support/api.ts";
import { cluster, freshNamespace } from "../../support/cluster.ts";
import { withoutKubectl } from "../../support/kubectl.ts";

interface Metadata {
  readonly labels?: object;
  readonly annotations?: object;
  readonly managedFields: readonly { readonly manager: string; readonly fieldsV1: object }[];
}

test("commands done without kubectl print and do what they do with it", async () => {
  const namespace = await freshNamespace("kubectl");
  const { kubeconfig, json } = cluster();
  const api = Api.of(kubeconfig);
  const run = (line: string) => [...line.split(" "), "-n", namespace];
  const short = (line: string) => withoutKubectl(api, run(line));
  const whole = (line: string) => kubectl(cluster(), run(line));
  const both = async (line: string): Promise<string | undefined> => {
    const printed = await short(line);
    expect([line, printed]).toEqual([line, await whole(line)]);
    return printed;
  };
  const metadata = async (name: string) => {
    const all = ["get", "cm", name, "-n", namespace, "--show-managed-fields"];
    const { data, metadata } = await json<{ data: object; metadata: Metadata }>(all);
    const { labels, annotations, managedFields } = metadata;
    const managers = managedFields.map(({ manager, fieldsV1 }) => `${manager} ${JSON.stringify(fieldsV1)}`);
    return { data, labels, annotations, managers: managers.toSorted() };
  };

  await short("create configmap one --from-literal=a=x=1 --from-literal=b=");
  await whole("create configmap two --from-literal=a=x=1 --from-literal=b=");
  expect(await metadata("one")).toEqual(await metadata("two"));
  for (const run of [
    ["label", "k=v", "gone-"],
    ["annotate", "k=v", "example.com/dotted=v"],
    ["patch", "--type=merge", "-p", '{"data":{"a":"2"}}'],
    ["patch", "--type=merge", "--field-manager=other", "-p", '{"data":{"c":"<3"}}'],
  ]) {
    const [verb, ...change] = run;
    await short([verb, "cm/one", ...change].join(" "));
    await whole([verb, "cm/two", ...change].join(" "));
    expect([verb, await metadata("one")]).toEqual([verb, await metadata("two")]);
  }

  expect(await both("get cm one -o jsonpath={.data.a}")).toBe("2");
  expect(await both("get cm one -o jsonpath={.metadata.annotations.example\\.com/dotted}")).toBe("v");
  expect(await both("get cm one -o jsonpath={.data.none}")).toBe("");
  await both("get cm one -o jsonpath={.data}");
  expect(await both("get cm -l k=v -o jsonpath={.items[*].metadata.name}")).toBe("one two");
  expect(await both("get cm --field-selector metadata.name=two -o name")).toBe("configmap/two\n");
  expect(await both("get cm none -o name --ignore-not-found")).toBe("");
  await both("get clusterroles.rbac.authorization.k8s.io -o name");
  const ids = await short("get cm -l k=v -o json");
  expect(JSON.parse(ids ?? "").items).toEqual(JSON.parse(await whole("get cm -l k=v -o json")).items);
  const why = (failed: Promise<unknown>) => failed.then(String, (error: Error) => error.message);
  expect(await why(short("get cm none -o name"))).toBe(await why(whole("get cm none -o name")));

  // Refused, or more than it knows: left to kubectl.
  for (const line of [
    "label cm one k=other",
    "get cm",
    "get cm one -o yaml",
    "delete cm none",
    "delete cm one --force",
  ])
    expect([line, await short(line)]).toEqual([line, undefined]);
  const object = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "held", namespace, finalizers: ["a.b/c"] },
  };
  await cluster().apply(object);
  await short("delete cm held --wait=false");
  const missing = short("delete cm one two held");
  await short('patch cm held --type=merge -p {"metadata":{"finalizers":null}}');
  await missing;
  expect(await both("get cm --field-selector metadata.name!=kube-root-ca.crt -o name")).toBe("");
});
