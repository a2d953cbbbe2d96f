import { readFileSync } from "node:fs";

import { onTestFinished, describe, expect, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import * as kube from "../../src/kube/index.ts";
import { createLogger, silentLogger, systemClock, type Clock } from "../../src/base/index.ts";
import { OwnCertificate, Webhooks, type AdmissionWebhook } from "../../src/webhooks/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";

// The webhook server and its registration, without hooks, against the real API server.

const { kubectl, json, apply } = cluster();

function access(namespace: string, clock: Clock = systemClock) {
  const client = kube.connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  onTestFinished(() => client.close());
  const hub = new kube.WatchHub({ client, clock, logger: silentLogger });
  onTestFinished(() => hub.close());
  return { client, hub, clock, logger: silentLogger, namespace };
}

interface Started {
  readonly webhooks: Webhooks;
  readonly issues: string[];
  readonly name: string;
  readonly namespace: string;
  readonly source: OwnCertificate;
  /** Requests that changed something. */
  readonly writes: () => number;
}

async function start(
  given: Partial<Started> & { port?: number; clock?: Clock; service?: string; owner?: string } = {},
): Promise<Started> {
  const [free = 0] = await freePorts(1);
  const { namespace = await freshNamespace("webhook"), port = free } = given;
  const issues: string[] = [];
  const own = access(namespace, given.clock);
  let writes = 0;
  own.client.onRequest(({ verb }) => (writes += verb === "GET" ? 0 : 1));
  const name = given.name ?? `test-${namespace}`;
  const source = new OwnCertificate({
    ...own,
    secret: "webhooks",
    hosts: ["127.0.0.1"],
    mayWrite: () => true,
  });
  const webhooks = new Webhooks({
    ...own,
    hasReplicas: false,
    readOwnUser: () => Promise.resolve(undefined),
    owner: given.owner,
    name,
    source,
    listen: { address: "127.0.0.1", port },
    target:
      given.service === undefined
        ? { url: `https://127.0.0.1:${port}` }
        : { service: { namespace, name: given.service } },
    findLeader: () => Promise.resolve(undefined),
    report: {
      webhookRequested: () => {},
      webhookIssuesChanged: (list) => void issues.splice(0, Infinity, ...list),
    },
    onError: () => {},
  });
  onTestFinished(() => webhooks.close());
  await webhooks.open();
  await webhooks.becomeLeader();
  onTestFinished(async () => {
    for (const kind of ["validating", "mutating"])
      for (const group of ["hooks", "operator"])
        await kubectl(["delete", `${kind}webhookconfiguration`, `${name}-${group}`, "--ignore-not-found"]);
  });
  return { webhooks, issues, name, namespace, source, writes: () => writes };
}

const webhook = (covered: string, more: Partial<AdmissionWebhook> = {}): AdmissionWebhook => ({
  type: "validating",
  name: "maps.example.com",
  path: "/maps",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  failurePolicy: "Fail",
  sideEffects: "None",
  timeoutSeconds: 5,
  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": covered } },
  ...more,
});

const create = (name: string, namespace: string) => kubectl(["create", "configmap", name, "-n", namespace]);

test("the configurations are deleted with their owner, and stay away while it is missing", async () => {
  const owner = `owner-${await freshNamespace("webhook")}`;
  await kubectl(["create", "clusterrolebinding", owner, "--clusterrole=view", "--user=nobody"]);
  onTestFinished(async () => {
    await kubectl(["delete", "clusterrolebinding", owner, "--ignore-not-found"]);
  });
  const { webhooks, name, issues } = await start({ owner });
  webhooks.registrar.set("one", { group: "hooks", admission: [webhook("none")] });
  await webhooks.registrar.flush();
  const object = ["get", "validatingwebhookconfiguration", `${name}-hooks`, "--ignore-not-found", "-o"];
  expect(await kubectl([...object, "jsonpath={.metadata.ownerReferences[*].name}"])).toBe(owner);
  await kubectl(["delete", "clusterrolebinding", owner]);
  await eventually(async () => (await kubectl([...object, "name"])) === "", "it is deleted");
  await webhooks.registrar.flush();
  expect(await kubectl([...object, "name"])).toBe("");
  expect(issues).toEqual([
    `ClusterRoleBinding ${owner} does not exist, so no webhook is added: create it, or correct --webhook-owner`,
  ]);
});

describe("another client changes a webhook", () => {
  const change = (name: string, field: string, value: unknown) =>
    kubectl([
      "patch",
      "validatingwebhookconfiguration",
      `${name}-hooks`,
      "--type=json",
      "--field-manager=enforcer",
      "-p",
      JSON.stringify([{ op: "add", path: `/webhooks/0/${field}`, value }]),
    ]);
  const first = async (name: string): Promise<{ failurePolicy: string; namespaceSelector: unknown }> =>
    (
      await json<{ webhooks: { failurePolicy: string; namespaceSelector: unknown }[] }>([
        "get",
        "validatingwebhookconfiguration",
        `${name}-hooks`,
      ])
    ).webhooks[0] ?? { failurePolicy: "", namespaceSelector: {} };

  test("what it adds to a selector stays, until the operator itself changes the webhook", async () => {
    const { webhooks, name, writes, issues } = await start();
    const covered = await freshNamespace("covered");
    const { registrar } = webhooks;
    registrar.set("one", { group: "hooks", admission: [webhook(covered)] });
    await registrar.flush();
    const addition = { key: "control-plane", operator: "NotIn", values: ["true"] };
    const add = () => change(name, "namespaceSelector/matchExpressions/-", addition);
    for (let round = 0; round < 2; round += 1) {
      await add();
      const before = writes();
      await registrar.flush();
      expect(writes()).toBe(before);
      expect(JSON.stringify((await first(name)).namespaceSelector)).toContain("control-plane");
      registrar.set("one", { group: "hooks", admission: [webhook(covered, { timeoutSeconds: 6 + round })] });
      await registrar.flush();
      expect(JSON.stringify((await first(name)).namespaceSelector)).not.toContain("control-plane");
    }
    expect(issues).toEqual([]);
  });

  test("what it changes is reverted, after a few times with a delay and a message that names the client", async () => {
    const { webhooks, name, issues } = await start();
    const covered = await freshNamespace("covered");
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered)] });
    await webhooks.registrar.flush();
    let reverted = 0;
    for (let round = 0; round < 6; round += 1) {
      await change(name, "failurePolicy", "Ignore");
      await webhooks.registrar.flush();
      if ((await first(name)).failurePolicy === "Fail") reverted += 1;
      else break;
    }
    expect(reverted).toBeGreaterThanOrEqual(3);
    expect(reverted).toBeLessThan(6);
    expect(issues).toEqual([
      `ValidatingWebhookConfiguration ${name}-hooks is changed by the field manager enforcer again and again, so the operator reverts the changes with a growing delay: change the settings of the other program`,
    ]);
    await eventually(async () => (await first(name)).failurePolicy === "Fail", "it is reverted later");
  });
});

describe("the API server calls", () => {
  test("a handler at its path, which denies, warns and patches; and the object is deleted with the last webhook", async () => {
    const { webhooks, name } = await start();
    const covered = await freshNamespace("covered");
    const seen: unknown[] = [];
    webhooks.addAdmissionRoute("/maps", async (request) => {
      seen.push(request);
      return { allowed: request.name !== "bad", message: "it is bad", warnings: ["take care"] };
    });
    const patch = Buffer.from(JSON.stringify([{ op: "add", path: "/data", value: { a: "1" } }]));
    webhooks.addAdmissionRoute("/change", async () => ({ allowed: true, patch: patch.toString("base64") }));
    const mutating = webhook(covered, { type: "mutating", path: "/change" });
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered), mutating] });
    await webhooks.registrar.flush();
    await eventually(async () => {
      await expect(create("bad", covered)).rejects.toThrow(/denied the request: it is bad/);
    }, "the webhook is in force");
    await create("good", covered);
    const made = await json<{ data: unknown }>(["get", "configmap", "good", "-n", covered]);
    expect(made.data).toEqual({ a: "1" });
    expect(seen.at(-1)).toMatchObject({ operation: "CREATE", namespace: covered, oldObject: null });
    webhooks.registrar.markComplete();
    webhooks.registrar.remove("one");
    await webhooks.registrar.flush();
    await expect(kubectl(["get", "validatingwebhookconfiguration", `${name}-hooks`])).rejects.toThrow(
      /not found/,
    );
  });

  test("nothing of the operator's own namespace, whatever the selector", async () => {
    const { webhooks, namespace } = await start();
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(namespace)] });
    await webhooks.registrar.flush();
    await create("anything", namespace);
  });
});

describe("registration", () => {
  test("repairs what others change, and keeps unknown webhooks until everything is known", async () => {
    const { webhooks, name } = await start();
    const covered = await freshNamespace("covered");
    const other = webhook(covered, { name: "other.example.com", path: "/other" });
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered)] });
    webhooks.registrar.set("two", { group: "hooks", admission: [other] });
    await webhooks.registrar.flush();
    webhooks.registrar.remove("two");
    await webhooks.registrar.flush();
    const names = async (): Promise<string[]> => {
      const found = await json<{ webhooks: { name: string }[] }>([
        "get",
        "validatingwebhookconfiguration",
        `${name}-hooks`,
      ]);
      return found.webhooks.map((each) => each.name);
    };
    expect(await names()).toEqual(["maps.example.com", "other.example.com"]);
    webhooks.registrar.markComplete();
    await webhooks.registrar.flush();
    expect(await names()).toEqual(["maps.example.com"]);
    await kubectl(["delete", "validatingwebhookconfiguration", `${name}-hooks`]);
    await eventually(async () => expect(await names()).toEqual(["maps.example.com"]), "it is back");
  });

  test("one webhook that the API server refuses does not stop the others", async () => {
    const { webhooks, issues, name } = await start();
    const covered = await freshNamespace("covered");
    const broken = webhook(covered, {
      name: "broken.example.com",
      matchConditions: [{ name: "x", expression: "this is no CEL" }],
    });
    webhooks.registrar.set("one", { group: "hooks", admission: [broken, webhook(covered)] });
    await webhooks.registrar.flush();
    expect(issues).toEqual([expect.stringContaining("broken.example.com")]);
    await kubectl(["get", "validatingwebhookconfiguration", `${name}-hooks`]);
  });
});

describe("a Service that does not exist", () => {
  test("nothing is added, and the reason is told; afterwards it is", async () => {
    const { webhooks, issues, name, namespace } = await start({ service: "late" });
    const covered = await freshNamespace("covered");
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered)] });
    await webhooks.registrar.flush();
    expect(issues).toEqual([expect.stringContaining(`Service ${namespace}/late does not exist`)]);
    const get = ["get", "validatingwebhookconfiguration", `${name}-hooks`];
    await expect(kubectl(get)).rejects.toThrow(/not found/);
    await kubectl(["create", "service", "clusterip", "late", "--tcp=443:443", "-n", namespace]);
    await webhooks.registrar.flush();
    expect(issues).toEqual([]);
    const { webhooks: items } = await json<{ webhooks: unknown[] }>(get);
    expect(items).toMatchObject([{ clientConfig: { service: { namespace, name: "late", path: "/maps" } } }]);
  });
});

test("what is as wanted is not written again", async () => {
  const { webhooks, writes } = await start();
  const covered = await freshNamespace("covered");
  const bare = webhook(covered, { name: "bare.example.com", rules: [], namespaceSelector: undefined });
  const changing = webhook(covered, { type: "mutating" });
  webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered), bare, changing] });
  await webhooks.registrar.flush();
  const before = writes();
  await webhooks.registrar.flush();
  await webhooks.registrar.flush();
  expect(writes()).toBe(before);
});

describe("a conversion", () => {
  const crdName = "things.conversion.example.com";
  const version = (name: string, storage: boolean) => ({
    name,
    served: true,
    storage,
    schema: { openAPIV3Schema: { type: "object" } },
  });

  test("is withdrawn only when all objects are stored as one version, also by the next process", async () => {
    const { webhooks, issues, namespace } = await start();
    webhooks.registrar.set("one", { group: "hooks", conversions: [{ crdName, path: "/c" }] });
    await webhooks.registrar.flush();
    expect(issues).toEqual([expect.stringContaining("does not exist yet")]);
    await apply({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: crdName },
      spec: {
        group: "conversion.example.com",
        scope: "Namespaced",
        names: { plural: "things", singular: "thing", kind: "Thing" },
        versions: [version("v1", true), version("v2", false)],
      },
    });
    onTestFinished(async () => void (await kubectl(["delete", "crd", crdName, "--wait=false"])));
    const strategy = async (): Promise<string> => {
      const crd = await json<{ spec: { conversion: { strategy: string } } }>(["get", "crd", crdName]);
      return crd.spec.conversion.strategy;
    };
    const store = (...storedVersions: string[]) =>
      kubectl([
        "patch",
        "crd",
        crdName,
        "--subresource=status",
        "--type=merge",
        "-p",
        JSON.stringify({ status: { storedVersions } }),
      ]);
    await eventually(
      async () => expect(await strategy()).toBe("Webhook"),
      "it is registered when the CRD appears",
    );
    await store("v1", "v2");
    webhooks.registrar.remove("one");
    await webhooks.registrar.flush();
    expect(await strategy()).toBe("Webhook");
    expect(issues).toEqual([expect.stringContaining("objects may be stored as v1, v2")]);
    await webhooks.close();
    const next = await start({ namespace });
    await next.webhooks.registrar.flush();
    expect(next.issues).toEqual([]);
    // Its hook may not be loaded before.
    next.webhooks.registrar.markComplete();
    await next.webhooks.registrar.flush();
    expect(next.issues).toEqual([expect.stringContaining("objects may be stored as v1, v2")]);
    await store("v1");
    await eventually(async () => expect(await strategy()).toBe("None"), "it is withdrawn");
    await eventually(() => expect(next.issues).toEqual([]), "nothing is wrong");
  });

  test("that an operator has left behind is found and removed with the commands of the guide", async () => {
    const guide = readFileSync("docs/guides/webhooks.md", "utf8");
    const [, template] = /^kubectl get crds -o (jsonpath='[^']*')$/m.exec(guide) ?? [];
    const [, patch] = /^kubectl patch crd \S+ --type=merge -p '([^']*)'$/m.exec(guide) ?? [];
    const name = "leftovers.conversion.example.com";
    await apply({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name, annotations: { "addon-operator.io/conversion": "uninstalled" } },
      spec: {
        group: "conversion.example.com",
        scope: "Namespaced",
        names: { plural: "leftovers", singular: "leftover", kind: "Leftover" },
        versions: [version("v1", true), version("v2", false)],
        conversion: {
          strategy: "Webhook",
          webhook: { clientConfig: { url: "https://127.0.0.1:1/c" }, conversionReviewVersions: ["v1"] },
        },
      },
    });
    onTestFinished(async () => void (await kubectl(["delete", "crd", name, "--wait=false"])));
    const list = () => kubectl(["get", "crds", "-o", template?.replaceAll("'", "") ?? ""]);
    await eventually(async () => expect(await list()).toContain(`${name} ["v1"]`), "it is listed");
    await kubectl(["patch", "crd", name, "--type=merge", "-p", patch ?? ""]);
    expect(await list()).not.toContain(name);
    const crd = await json<{ spec: { conversion: unknown } }>(["get", "crd", name]);
    expect(crd.spec.conversion).toEqual({ strategy: "None" });
  });
});

describe("the certificate", () => {
  test("two replicas that start at once use the same one", async () => {
    const namespace = await freshNamespace("webhook");
    const source = () =>
      new OwnCertificate({
        ...access(namespace),
        secret: "webhooks",
        hosts: ["127.0.0.1"],
        mayWrite: () => true,
      });
    const [one, two] = await Promise.all([source().read(), source().read()]);
    expect(one?.cert).toBeDefined();
    expect(two?.cert).toBe(one?.cert);
  });

  test("a malformed Secret is replaced; another host gets another certificate by the same CA", async () => {
    const { source, namespace } = await start();
    const before = await source.read();
    const own = { ...access(namespace), secret: "webhooks", mayWrite: () => true };
    const other = await new OwnCertificate({ ...own, hosts: ["127.0.0.1", "localhost"] }).read();
    expect(other?.ca).toBe(before?.ca);
    expect(other?.cert).not.toBe(before?.cert);
    await kubectl(["patch", "secret", "webhooks", "-n", namespace, "-p", '{"data":{"tls.crt":"eA=="}}']);
    const after = await source.read();
    expect(after?.ca).not.toBe(before?.ca);
  });

  test("a Secret that is deleted or changed is repaired by the next check, within minutes", async () => {
    const due = new Map<number, () => unknown>();
    const setTimer: Clock["setTimer"] = (ms, fn) => {
      // Since the delay was chosen, a moment has passed.
      due.set(Math.round(ms / 1000) * 1000, fn);
      return systemClock.setTimer(ms, fn);
    };
    const { namespace, source, webhooks } = await start({ clock: { ...systemClock, setTimer } });
    expect(source.checkMs).toBeLessThanOrEqual(300_000);
    const covered = await freshNamespace("covered");
    webhooks.addAdmissionRoute("/maps", async () => ({ allowed: false, message: "it is answered" }));
    webhooks.registrar.set("one", { group: "hooks", admission: [webhook(covered)] });
    const stored = async (): Promise<string> => {
      const { data } = await json<{ data: Record<string, string> }>([
        "get",
        "secret",
        "webhooks",
        "-n",
        namespace,
      ]);
      return Buffer.from(data["tls.crt"] ?? "", "base64").toString();
    };
    const spoil = [
      ["delete", "secret", "webhooks"],
      ["patch", "secret", "webhooks", "-p", '{"data":{"tls.crt":"eA=="}}'],
    ];
    for (const command of spoil) {
      await kubectl([...command, "-n", namespace]);
      due.get(source.checkMs)?.();
      await eventually(async () => expect(await stored()).toContain("BEGIN CERTIFICATE"), "it is repaired");
      await eventually(async () => {
        await expect(create("any", covered)).rejects.toThrow(/it is answered/);
      }, "the API server trusts the new certificate");
    }
  });

  test("a clock that is years off makes a certificate of the API server's time, and says so", async () => {
    const years = 10 * 365 * 86_400_000;
    const lines: string[] = [];
    const clock = { ...systemClock, now: () => Date.now() - years };
    const namespace = await freshNamespace("webhook");
    const logger = createLogger({
      clock: systemClock,
      level: () => "info",
      write: (line: string) => lines.push(line),
    } as never);
    const own = { ...access(namespace, clock), logger, secret: "webhooks", mayWrite: () => true };
    const made = await new OwnCertificate({ ...own, hosts: ["127.0.0.1"] }).read();
    const { X509Certificate } = await import("node:crypto");
    const certificate = new X509Certificate(made?.cert ?? "");
    expect(certificate.validToDate.getTime()).toBeGreaterThan(Date.now());
    expect(certificate.validFromDate.getTime()).toBeLessThan(Date.now());
  });
});
