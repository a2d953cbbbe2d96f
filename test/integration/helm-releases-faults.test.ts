// Run with helm 3 as well.
// Runs at night: faults.
import { describe, beforeEach, afterEach, expect, test, vi } from "vitest";

import type { HelmHook, ReleaseOutcome } from "../../src/helm/index.ts";
import { connect, Discovery } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { cluster, eventually } from "../support/cluster.ts";
import { crdOfThings } from "../support/crds.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";
import { kubeconfigOf } from "../support/kubeconfig-of.ts";
import {
  CONFIG_MAP,
  kubectl,
  lab,
  listen,
  putChart,
  reconcile,
  releases,
  requestOf,
  restart,
  useLab,
  type Change,
} from "../support/releases-lab.ts";

const VERSION = {
  name: "v1",
  served: true,
  storage: true,
  schema: { openAPIV3Schema: { type: "object" } },
};

describe.each(HELMS)("faults of releases with %s", (which) => {
  useLab(cluster().bin[which]);

  test("an aggregated API that is down is no API that was removed", async () => {
    const group = `${lab.namespace}.example.com`;
    await cluster().apply(crdOfThings(group, [VERSION]));
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    const client = connect({ kubeConfig: proxy.kubeconfig, userAgent: "test", logger: silentLogger });
    /** The operator starts again, and knows nothing of the time before. */
    const restartBehindProxy = (): Promise<void> =>
      restart({ client, discovery: new Discovery(client), kubeconfig: kubeconfigOf(client, lab.root) });
    /** As the API server reports an API whose server is down. */
    const takeDown = () =>
      proxy.rewrite(
        ({ path }) => path === "/apis",
        (body) => {
          const list = JSON.parse(body) as { items?: { metadata: { name: string }; versions: object[] }[] };
          const down = list.items?.find(({ metadata }) => metadata.name === group);
          if (down !== undefined) down.versions = [{ version: "v1", freshness: "Stale" }];
          // The chart does not mention this one, so that no message names it.
          const other = {
            metadata: { name: "a.example.net" },
            versions: [{ version: "v1", freshness: "Stale" }],
          };
          list.items?.unshift(other);
          return JSON.stringify(list);
        },
      );
    try {
      const extra = (condition: string, name: string): string =>
        `---\n{{ if .Capabilities.APIVersions.Has "${group}/${condition}" }}\n${CONFIG_MAP.replace("{{ .Release.Name }}", name)}{{ end }}\n`;
      // Random content differs in each rendering, and blocks nothing.
      const random = `---\n${CONFIG_MAP.replace("{{ .Release.Name }}", "random").replace(".Values.m.a", "randAlphaNum 9")}`;
      await putChart(`${CONFIG_MAP}${random}${extra("v1", "extra")}${extra("v1/Thing", "kind")}`);
      await restartBehindProxy();
      const discovered = async () =>
        expect(await new Discovery(client).resolve("Thing", `${group}/v1`)).toBeDefined();
      await eventually(discovered, "the kind is served");
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "installed" });
      const remaining = () => kubectl("get", "cm", "extra", "kind", "-o", "jsonpath={.items[*].data.a}");
      expect(await remaining()).toBe("1 1");
      const bringBack = takeDown();
      // Nothing changes by the API alone, also after a restart, which forgets the kinds of the API.
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
      await restartBehindProxy();
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
      // An edit waits, and says why.
      await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(
        `waits for the API ${group}/v1, which does not answer: without it, the chart would delete or change ConfigMap/extra, ConfigMap/kind; see kubectl describe apiservice v1.${group}`,
      );
      expect(await remaining()).toBe("1 1");
      bringBack();
      expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
      expect(await remaining()).toBe("2 2");
      // The API goes down while helm runs, after the operator has compared the manifest.
      const goDown = vi.fn<() => () => void>(takeDown);
      const onDecision = (text: string): void => {
        if (text === "Decided on a release" && goDown.mock.calls.length === 0) goDown();
      };
      const logger = { ...silentLogger, debug: onDecision };
      await restart({
        client,
        discovery: new Discovery(client),
        kubeconfig: kubeconfigOf(client, lab.root),
        logger,
      });
      const lost = "without it, the chart has deleted or changed ConfigMap/extra, ConfigMap/kind";
      await expect(reconcile({ m: { a: 3 } })).rejects.toThrow(lost);
      await expect(reconcile({ m: { a: 3 } })).rejects.toThrow(lost);
      const bringBackAgain = goDown.mock.results[0]?.value as () => void;
      bringBackAgain();
      expect(await reconcile({ m: { a: 3 } })).toMatchObject({ action: "upgraded" });
      expect(await remaining()).toBe("3 3");
      // What is installed while the API is down is completed by a run after it.
      await releases.uninstall({ name: "m" }, AbortSignal.timeout(30_000));
      // Without random content: other tests add kinds to the server, which count as an input of this chart.
      await putChart(`${CONFIG_MAP}${extra("v1", "extra")}${extra("v1/Thing", "kind")}`);
      const bringBackLast = takeDown();
      const same = /^(unchanged|labelled)$/;
      expect(await reconcile({ m: { a: 4 } })).toMatchObject({ action: "installed" });
      expect((await reconcile({ m: { a: 4 } })).action).toMatch(same);
      bringBackLast();
      expect(await reconcile({ m: { a: 4 } })).toMatchObject({ action: "upgraded" });
      expect(await remaining()).toBe("4 4");
      expect((await reconcile({ m: { a: 4 } })).action).toMatch(same);
      // An API that does not affect the chart blocks nothing, and one that is gone is gone.
      await putChart(`${CONFIG_MAP}${random}${extra("v2", "extra")}`);
      takeDown();
      expect(await reconcile({ m: { a: 5 } })).toMatchObject({ action: "upgraded" });
      expect(await kubectl("get", "cm", "-o", "name")).not.toContain("extra");
    } finally {
      releases.close();
      await client.close();
      await proxy.close();
      await cluster().kubectl(["delete", "crd", `things.${group}`]);
    }
  });

  test("while an aggregated API is down, a chart that fails without its lookup is upgraded, unless objects would go", async () => {
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    const client = connect({ kubeConfig: proxy.kubeconfig, userAgent: "test", logger: silentLogger });
    const group = "down.example.net";
    proxy.rewrite(
      ({ path }) => path === "/apis",
      (body) => {
        const list = JSON.parse(body) as { items?: object[] };
        list.items?.unshift({ metadata: { name: group }, versions: [{ version: "v1", freshness: "Stale" }] });
        return JSON.stringify(list);
      },
    );
    try {
      const kubeconfig = kubeconfigOf(client, lab.root);
      await restart({ client, discovery: new Discovery(client), kubeconfig });
      const found = `lookup "v1" "ConfigMap" .Release.Namespace "m"`;
      const fails = `{{ if and .Release.IsUpgrade (not (${found})) }}{{ fail "give the current password" }}{{ end }}\n`;
      const asks = `{{ if .Capabilities.APIVersions.Has "${group}/v1" }}{{ fail "unexpected" }}{{ end }}\n`;
      const extra = `---\n{{ if .Values.m.extra }}\n${CONFIG_MAP.replace("{{ .Release.Name }}", "extra")}{{ end }}\n`;
      await putChart(`${fails}${asks}${CONFIG_MAP}${extra}`);
      expect(await reconcile({ m: { a: 1, extra: true } })).toMatchObject({ action: "installed" });
      expect(await reconcile({ m: { a: 1, extra: true } })).toMatchObject({ action: "unchanged" });
      expect(await reconcile({ m: { a: 2, extra: true } })).toMatchObject({ action: "upgraded" });
      await expect(reconcile({ m: { a: 2, extra: false } })).rejects.toThrow(
        `waits for the API ${group}/v1, which does not answer: without it, the chart would delete or change ConfigMap/extra;`,
      );
      // An upgrade that failed is tried again with other inputs.
      const bad = `---\n{{ if .Values.m.bad }}kind: ConfigMap\napiVersion: v1\nmetadata: {name: A_}{{ end }}`;
      await putChart(`${fails}${asks}${CONFIG_MAP}${extra}${bad}`);
      await expect(reconcile({ m: { a: 3, extra: true, bad: true } })).rejects.toThrow("A_");
      expect(await reconcile({ m: { a: 3, extra: true } })).toMatchObject({ action: "upgraded" });
    } finally {
      releases.close();
      await client.close();
      await proxy.close();
    }
  });

  describe("the Job of a hook", () => {
    const job = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}}
`;
    const pods = async (): Promise<string[]> => {
      const names = await kubectl("get", "pods", "--field-selector=status.phase=Pending", "-o", "name");
      return names.split("\n").filter((name) => name !== "");
    };
    /** Upgrades, and ends the Job once its Pod exists. */
    const upgrade = async (
      a: number,
      end: () => Promise<unknown>,
      change: Change = {},
    ): Promise<ReleaseOutcome> => {
      let isOver = false;
      const outcome = reconcile({ m: { a } }, change).finally(() => (isOver = true));
      // The caller handles its failure.
      outcome.catch(() => {});
      await eventually(async () => expect(isOver || (await pods()).length > 0).toBe(true), "a Pod");
      if (!isOver) await end();
      return outcome;
    };
    const succeed = async (): Promise<void> => {
      const status = JSON.stringify({ status: { phase: "Succeeded" } });
      for (const pod of await pods()) await kubectl("patch", pod, "--subresource=status", "-p", status);
    };

    beforeEach(async () => {
      await restart({ onFailure: "rollback", timeoutMs: 5000 });
      await putChart(`${CONFIG_MAP}---\n${job}`);
      await reconcile({ m: { a: 1 } });
      await upgrade(2, succeed);
    });

    test("that a finalizer keeps is named, and does not count towards a rollback", async () => {
      const keep = (finalizers: readonly string[] | null): Promise<string> =>
        kubectl("patch", "job/migrate", "--type=merge", "-p", JSON.stringify({ metadata: { finalizers } }));
      await keep(["example.org/keep"]);
      const reason = /Job\/migrate \(finalizer example\.org\/keep\)/;
      await expect(upgrade(3, succeed)).rejects.toThrow(reason);
      await keep(null);
      expect(await upgrade(3, succeed)).toMatchObject({ action: "upgraded" });
    });

    // helm 3 takes a Job that was deleted for one that has ended.
    test.runIf(which === "helm")("that was deleted too early does not count towards a rollback", async () => {
      const remove = (): Promise<string> => kubectl("delete", "job/migrate");
      const waits: (string | undefined)[] = [];
      const change = { helm: { timeout: "11s" }, onWait: (hook?: HelmHook) => void waits.push(hook?.name) };
      await expect(upgrade(3, remove, change)).rejects.toThrow("deleted before helm saw that it completed");
      expect(waits).toContain("Job/migrate (pre-upgrade; the object does not exist)");
      expect(await upgrade(3, succeed)).toMatchObject({ action: "upgraded" });
    });
  });

  test("a change of fields that cannot change is refused with the object and the remedy", async () => {
    const pod = (image: string): string =>
      `{metadata: {labels: {a: a}}, spec: {restartPolicy: RESTART, containers: [{name: a, image: ${image}}]}}`;
    const objects = (changed = ""): string => {
      const [image, service, role, size] = ["Job", "StatefulSet", "RoleBinding", "PersistentVolumeClaim"].map(
        (kind) => (kind === changed ? "b" : "a"),
      );
      return `apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec: {template: ${pod(image ?? "").replace("RESTART", "Never")}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x}
spec: {replicas: 0, serviceName: ${service}, selector: {matchLabels: {a: a}}, template: ${pod("a").replace("RESTART", "Always")}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: x}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${role}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: x}
spec: {storageClassName: ${size}, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`;
    };
    await putChart(objects());
    await reconcile({});
    const commands: Readonly<Record<string, string>> = {
      Job: "delete job.batch x",
      StatefulSet: "delete statefulset.apps x",
      RoleBinding: "delete rolebinding.rbac.authorization.k8s.io x",
    };
    for (const [kind, command] of Object.entries(commands)) {
      await putChart(objects(kind));
      const option = kind === "StatefulSet" ? " --cascade=orphan" : "";
      const remedy = `; ${kind}/x has fields that cannot change: undo the change, or run "kubectl ${command} -n ${lab.namespace}${option}"`;
      await expect(reconcile({})).rejects.toThrow(remedy);
    }
    await putChart(objects("PersistentVolumeClaim"));
    await expect(reconcile({})).rejects.toThrow("because its deletion can delete data");
    await kubectl("delete", "rolebinding.rbac.authorization.k8s.io", "x");
    await putChart(objects("RoleBinding"));
    expect(await reconcile({})).toMatchObject({ action: "upgraded" });
  });

  describe("a kind that is not served any more", () => {
    let group: string;
    let forgotten: readonly string[];
    const serve = (...names: string[]): Promise<string> => {
      const versions = names.map((name) => ({ ...VERSION, name, storage: name === "v1" }));
      const crd = JSON.stringify(crdOfThings(group, versions));
      return cluster().kubectl(["apply", "-f", "-"], crd);
    };
    const thing = (name: string, apiVersion: string): string =>
      `---\napiVersion: ${group}/${apiVersion}\nkind: Thing\nmetadata: {name: ${name}}\n`;
    const things = (): Promise<string> => kubectl("get", `things.${group}`, "-o", "name");

    beforeEach(async () => {
      group = `${lab.namespace}.example.org`;
      const heard = listen();
      forgotten = heard.forgotten;
      await restart({ report: heard.report });
      await serve("v1", "v1beta1");
      await cluster().kubectl(["wait", "--for=condition=Established", `crd/things.${group}`]);
      await putChart(thing("old", "v1beta1") + thing("both", "v1beta1"));
      await reconcile({ m: { a: 1 } });
    });
    afterEach(() => kubectl("delete", "crd", `things.${group}`, "--ignore-not-found"));

    test("stops no upgrade to a chart without it, and no rollback", async () => {
      await serve("v1");
      await putChart(thing("both", "v1"));
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
      expect((await things()).trim()).toBe(`thing.${group}/both`);
      expect(forgotten).toContain(`Thing/old of ${group}/v1beta1: read as ${group}/v1`);
      await releases.rollBack(requestOf({ m: { a: 1 } }), 1);
      expect(await things()).toContain("/old");
      // Others may have written an object in a version that has gone since.
      await serve("v1", "v1beta2");
      await cluster().kubectl(["label", `things.v1beta2.${group}`, "both", "a=b", "-n", lab.namespace]);
      await serve("v1");
      await putChart(thing("both", "v1").replace("both", "both, labels: {c: d}"));
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
      await cluster().kubectl(["delete", "crd", `things.${group}`]);
      await putChart(thing("both", "v1") + thing("new", "v1"));
      await expect(reconcile({ m: { a: 1 } })).rejects.toThrow(/no matches for kind "Thing"/);
      await putChart();
      expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
      expect(forgotten).toContain(`Thing/both of ${group}/v1: the kind does not exist any more`);
      await releases.rollBack(requestOf({ m: { a: 2 } }), undefined);
      expect(releases.store.get("m")?.status).toBe("deployed");
    });

    test("stops no removal: objects in another version are removed, too", async () => {
      await serve("v1");
      await releases.uninstall({ name: "m" }, AbortSignal.timeout(30_000));
      expect(await things()).toBe("");
    });
  });

  test.runIf(isUnderTest(which))(
    "absent objects that are refused are reported in one error, a few of each kind; the others come back",
    async () => {
      const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
      const maps = names.map((name) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`);
      const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: account}\n";
      await putChart([...maps, account].join("---\n"));
      await reconcile({ m: { a: 1 } });
      await kubectl("delete", "sa/account", ...names.map((name) => `configmap/${name}`));
      const refuse = {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "ValidatingWebhookConfiguration",
        metadata: { name: lab.namespace },
        webhooks: [
          {
            name: "refuse.example.com",
            clientConfig: { url: "https://127.0.0.1:1/" },
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": lab.namespace } },
            rules: [
              { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] },
            ],
            admissionReviewVersions: ["v1"],
            sideEffects: "None",
          },
        ],
      };
      await cluster().apply(refuse);
      const absent = [...names.map((name) => `ConfigMap/${name}`), "ServiceAccount/account"];
      const run = () =>
        reconcile({ m: { a: 1 } }, { missingObjects: absent.map((name) => `${lab.namespace}/${name}`) });
      try {
        await eventually(
          async () => expect(kubectl("create", "cm", "probe", "--dry-run=server")).rejects.toThrow("webhook"),
          "the webhook is at work",
        );
        const failure = String(await run().catch((error: unknown) => error));
        expect(failure).toContain("cannot bring back");
        expect(failure).toContain("refuse.example.com");
        expect(failure.match(/ConfigMap\/c/g)?.length).toBeLessThan(8);
        await kubectl("get", "sa", "account");
      } finally {
        await kubectl("delete", "validatingwebhookconfiguration", lab.namespace);
      }
      await eventually(async () => void (await kubectl("create", "cm", "probe")), "the webhook is gone");
      expect(await run()).toMatchObject({ action: "restored", release: { revision: 1 } });
      expect(await releases.observed.readLastingRefs("m")).toHaveLength(21);
      await kubectl("get", "cm", ...names);
    },
  );
});
