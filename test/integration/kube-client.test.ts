import { readFileSync, writeFileSync } from "node:fs";
import { onTestFinished, describe, expect, test } from "vitest";

import * as kube from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { cluster, freshNamespace, kubeconfigOf } from "../support/cluster.ts";

function client(kubeConfig = cluster().kubeconfig): kube.KubeClient {
  const made = kube.connect({ kubeConfig, userAgent: "test", logger: silentLogger });
  onTestFinished(() => made.close());
  return made;
}

const configMap = (name: string, data: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});

interface Written {
  readonly data?: Readonly<Record<string, string>>;
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly managedFields: readonly { readonly manager: string; readonly operation: string }[];
  };
}

describe("verbs", () => {
  test("write as one field manager, with conflicts told apart", async () => {
    const api = client();
    const at = { resource: kube.CONFIG_MAPS, namespace: await freshNamespace("kube") };
    const one = { ...at, name: "one" };
    const created = await kube.create<Written>(api, at, { body: configMap("one", { a: "1" }) });
    const again: unknown = await kube
      .create(api, at, { body: configMap("one") })
      .catch((error: unknown) => error);
    expect(kube.isAlreadyExists(again)).toBe(true);
    const merged = await kube.mergePatch<Written>(api, one, { body: { data: { a: null, b: "2" } } });
    expect(merged.data).toEqual({ b: "2" });
    const { resourceVersion } = created.metadata;
    const late: unknown = await kube
      .mergePatch(api, one, { body: { metadata: { resourceVersion }, data: { b: "3" } } })
      .catch((error: unknown) => error);
    expect(kube.isConflict(late)).toBe(true);
    const patched = await kube.jsonPatch<Written>(api, one, {
      body: [{ op: "add", path: "/data/c", value: "3" }],
    });
    expect(patched.data).toEqual({ b: "2", c: "3" });
    await kube.serverSideApply(api, one, { body: configMap("one", { d: "4" }), force: true, dryRun: true });
    const final = await kube.get<Written>(api, one);
    expect(final.data).toEqual({ b: "2", c: "3" });
    expect(final.metadata.managedFields.map(({ manager }) => manager)).toEqual(["addon-operator"]);
    await kube.remove(api, one, { propagationPolicy: "Background" });
    expect(kube.isNotFound(await kube.get(api, one).catch((error: unknown) => error))).toBe(true);
  });

  test("a list of metadata is complete, and nothing else", async () => {
    const api = client();
    const at = { resource: kube.CONFIG_MAPS, namespace: await freshNamespace("kube") };
    const names = Array.from({ length: 7 }, (_, index) => `cm-${index}`);
    await Promise.all(names.map((name) => kube.create(api, at, { body: configMap(name, { a: "1" }) })));
    const fieldSelector = "metadata.name!=kube-root-ca.crt";
    const { items, resourceVersion } = await kube.listMetadata(api, at, { fieldSelector });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(names);
    expect(items.some(({ data }) => data !== undefined)).toBe(false);
    expect(Number(resourceVersion)).toBeGreaterThan(0);
  });
});

test("discovery knows what kubectl knows, and a CRD once it is there", async () => {
  const discovery = new kube.Discovery(client());
  const lines = (await cluster().kubectl(["api-resources", "--no-headers", "-o", "name"])).trim().split("\n");
  const known = await Promise.all(lines.map((line) => discovery.resolve(line)));
  expect(known.map((found) => found && [found.plural, found.group].filter(Boolean).join("."))).toEqual(lines);
  expect(await discovery.resolve("deploy")).toMatchObject({ group: "apps", kind: "Deployment" });
  const name = "gadgets.test.addon-operator.io";
  await cluster().apply({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name },
    spec: {
      group: "test.addon-operator.io",
      scope: "Namespaced",
      names: { plural: "gadgets", singular: "gadget", kind: "Gadget", shortNames: ["gdg"] },
      versions: [
        { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
      ],
    },
  });
  onTestFinished(async () => void (await cluster().kubectl(["delete", "crd", name, "--wait=false"])));
  await cluster().kubectl(["wait", "--for=condition=Established", `crd/${name}`]);
  discovery.invalidate();
  await expect.poll(() => discovery.resolve("gdg")).toMatchObject({ kind: "Gadget" });
});

test("a service account without rights: what is missing is named", async () => {
  const namespace = await freshNamespace("kube");
  const limited = client(await kubeconfigOf(namespace, "nobody"));
  const right: kube.Permission = { verb: "list", group: "", resource: "secrets", namespace };
  expect(await kube.findMissingPermissions(limited, [right])).toEqual([right]);
  expect(await kube.findMissingPermissions(client(), [right])).toEqual([]);
  const refused: unknown = await kube
    .listMetadata(limited, { resource: kube.SECRETS }, {})
    .catch((error: unknown) => error);
  expect(kube.isForbidden(refused)).toBe(true);
});

test("a wrong CA is a problem that names file, server and remedy", async () => {
  const namespace = await freshNamespace("kube");
  const file = await kubeconfigOf(namespace, "nobody");
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace(/ *certificate-authority(-data)?: .*\n/, ""));
  await expect(kube.checkConnection(client(file))).rejects.toMatchObject({
    problems: [{ file, remedy: expect.stringContaining("certificate-authority") as string }],
  });
});

test("a Lease is held by one, given back, and shown by kubectl", async () => {
  const namespace = await freshNamespace("kube");
  const events: string[] = [];
  const contend = (pod: string): kube.Lease => {
    const identity = { ...kube.readOwnIdentity(pod), bootId: pod };
    return new kube.Lease({
      client: client(),
      clock: systemClock,
      logger: silentLogger,
      namespace,
      name: "guard",
      identity,
      times: { durationMs: 40_000, renewDeadlineMs: 30_000, retryMs: 500 },
      events: {
        onFailing: () => {},
        onHeld: () => {},
        onLost: (reason) => events.push(reason),
        onWaiting: (holder) => events.push(holder),
      },
    });
  };
  const one = contend("one");
  const two = contend("two");
  await one.acquire();
  const second = two.acquire();
  await expect.poll(() => events).toHaveLength(1);
  expect(events[0]).toMatch(/^one\//);
  await one.release();
  await second;
  expect([one.isHeld, two.isHeld]).toEqual([false, true]);
  const lease = await cluster().json<{ spec: { holderIdentity: string } }>([
    "get",
    "lease",
    "guard",
    "-n",
    namespace,
  ]);
  expect(lease.spec.holderIdentity).toMatch(/^two\//);
  await two.release();
});

test("a webhook that prevents the Lease is named with its configuration, until it is gone", async () => {
  const namespace = await freshNamespace("kube");
  const name = `policy-${namespace}`;
  // The selector holds for namespaced kinds only: without the scope, each request of other tests fails, too.
  const rule = {
    apiGroups: ["*"],
    apiVersions: ["*"],
    resources: ["*/*"],
    operations: ["*"],
    scope: "Namespaced",
  };
  await cluster().apply({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name },
    webhooks: [
      {
        name: `${namespace}.example.com`,
        clientConfig: { url: "https://127.0.0.1:1/" },
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        rules: [rule],
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
      },
    ],
  });
  const remove = ["delete", "validatingwebhookconfiguration", name, "--ignore-not-found"];
  onTestFinished(() => void cluster().kubectl(remove));
  const issues: (string | undefined)[] = [];
  const lease = new kube.Lease({
    client: client(),
    clock: systemClock,
    logger: silentLogger,
    namespace,
    name: "guard",
    identity: kube.readOwnIdentity("one"),
    times: { durationMs: 40_000, renewDeadlineMs: 30_000, retryMs: 500 },
    events: {
      onFailing: (issue) => void issues.push(issue),
      onHeld: () => {},
      onLost: () => {},
      onWaiting: () => {},
    },
  });
  const acquired = lease.acquire();
  await expect.poll(() => issues.length, { timeout: 20_000 }).toBeGreaterThan(0);
  expect(issues[0]).toContain(
    "The Lease guard cannot be written: Internal error occurred: failed calling webhook",
  );
  expect(issues[0]).toContain(
    `webhook ${namespace}.example.com of ValidatingWebhookConfiguration ${name} must not cover Leases of the operator`,
  );
  expect(issues[0]).toContain(`kubectl delete validatingwebhookconfiguration ${name}`);
  await cluster().kubectl(remove);
  await acquired;
  expect(issues.at(-1)).toBeUndefined();
  await lease.release();
});
