// Run with helm 3 as well.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { RELEASE_LABELS, Releases } from "../../src/helm/index.ts";
import type { ReleaseOutcome, ReleasesOptions } from "../../src/helm/index.ts";
import type { ReconcileRequest } from "../../src/helm/types.ts";
import { connect, WatchHub } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { cluster, deleteNamespace, eventually, freshNamespace, makeNamespace } from "../support/cluster.ts";
import { releasesOptions } from "../support/releases-options.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";

let namespace: string;
let root: string;
let client: KubeClient;
let hub: WatchHub;
let releases: Releases;

async function put(rel: string, text: string): Promise<void> {
  const path = join(root, rel);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

/** A chart of that version; the server refuses its Service. */
async function putChart(version: string, isRefused: boolean): Promise<void> {
  const type = isRefused ? "Unheard" : "ClusterIP";
  await put("m/Chart.yaml", `apiVersion: v2\nname: m\nversion: ${version}\n`);
  await put(
    "m/templates/all.yaml",
    `apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {version: "${version}", a: "{{ .Values.m.a }}", b: "{{ .Values.m.b }}"}
---
apiVersion: v1
kind: Service
metadata: {name: m}
spec: {type: ${type}, ports: [{port: 80}]}
`,
  );
}

type Change = Partial<ReconcileRequest> & { readonly a?: number; readonly b?: number };

function requestOf({ a = 1, b = 1, module, ...change }: Change): ReconcileRequest {
  const own = { name: "m", valuesKey: "m", chartDir: join(root, "m"), chart: "own", ...module } as const;
  return {
    module: { onFailure: "rollback", ...own },
    values: JSON.stringify({ global: {}, m: { a, b } }),
    userValuesDigest: () => String(a),
    signal: AbortSignal.timeout(50_000),
    ...change,
  };
}

async function reconcile(change: Change = {}): Promise<ReleaseOutcome> {
  const outcome = await releases.reconcile(requestOf(change));
  await releases.flushLabels();
  return outcome;
}

/** What came of a run, in words: the outcome, or the first words of the error. */
async function reported(change: Change = {}): Promise<string> {
  const outcome = await reconcile(change).catch((error: unknown) => String(error));
  return typeof outcome === "string" ? "failed" : outcome.action;
}

const data = (): Promise<string> =>
  cluster().kubectl(["get", "cm", "m", "-n", namespace, "-o", "jsonpath={.data}"]);

/** Revisions of the release, oldest first. */
const history = (): string[] =>
  releases.store
    .revisions("m")
    .map(({ revision, status }) => `${revision} ${status}`)
    .reverse();

describe.each(HELMS)("rollback with %s", (which) => {
  const once = isUnderTest(which);
  beforeEach(async () => {
    namespace = await makeNamespace("rollback");
    root = await mkdtemp(join(tmpdir(), "rollback-"));
    const logger = silentLogger;
    client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger });
    hub = new WatchHub({ client, clock: systemClock, logger });
    await start();
  });

  afterEach(async () => {
    releases.close();
    hub.close();
    await client.close();
    await deleteNamespace(namespace);
    await rm(root, { recursive: true, force: true });
  });

  async function start(change: Partial<ReleasesOptions> = {}): Promise<void> {
    const lab = { namespace, root, client, hub };
    releases = new Releases(releasesOptions(lab, cluster().bin[which], { historyMax: 10, ...change }));
    await releases.observed.waitUntilReady();
  }

  async function restart(change: Partial<ReleasesOptions> = {}): Promise<void> {
    releases.close();
    await start(change);
  }

  test("an upgrade that fails three times goes back once, and is not tried again, also after a restart", async () => {
    await putChart("1.0.0", false);
    expect(await reported()).toBe("installed");
    const before = await data();
    await putChart("2.0.0", true);
    expect([await reported(), await reported()]).toEqual(["failed", "failed"]);
    const outcome = await reconcile();
    expect(outcome.action).toBe("rolledBack");
    expect(outcome.rollbackReason).toMatch(
      /^Rolled back to chart 1\.0\.0 \(revision 5\): chart 2\.0\.0, revision 4, failed: .*Unheard/,
    );
    expect(await data()).toBe(before);
    expect(history().at(-1)).toBe("5 deployed");
    expect(await reconcile()).toMatchObject({ action: "unchanged", rollbackReason: outcome.rollbackReason });
    await restart();
    expect(await reconcile()).toMatchObject({ action: "unchanged", rollbackReason: outcome.rollbackReason });
    expect(history().at(-1)).toBe("5 deployed");
    await putChart("2.0.1", false);
    expect(await reconcile()).toMatchObject({ action: "upgraded" });
    expect((await reconcile()).rollbackReason).toBeUndefined();
    expect(await data()).toContain("2.0.1");
    const { labels = {} } = releases.store.get("m") ?? {};
    expect(Object.keys(labels)).not.toContain(RELEASE_LABELS.rejected);
    expect(Object.keys(labels)).not.toContain(RELEASE_LABELS.tries);
  });

  test.runIf(once)(
    "an upgrade for which an answer is missing proves nothing, and is tried again",
    async () => {
      await putChart("1.0.0", false);
      expect(await reported()).toBe("installed");
      await putChart("2.0.0", false);
      const webhook = {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "ValidatingWebhookConfiguration",
        metadata: { name: namespace },
        webhooks: [
          {
            name: "away.example.com",
            clientConfig: { url: "https://127.0.0.1:1/" },
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
            rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["*"] }],
            sideEffects: "None",
            admissionReviewVersions: ["v1"],
          },
        ],
      };
      await cluster().apply(webhook);
      try {
        const outcomes = [await reported(), await reported(), await reported()];
        expect(outcomes).toEqual(["failed", "failed", "failed"]);
        expect(history()).toEqual(["1 deployed", "2 failed", "3 failed", "4 failed"]);
      } finally {
        await cluster().kubectl(["delete", "validatingwebhookconfiguration", namespace]);
      }
      expect(await reported()).toBe("upgraded");
    },
  );

  test("a person goes back by hand, which holds over restarts until people change something", async () => {
    const module = { ...requestOf({}).module, onFailure: "retry" as const };
    for (const version of ["1.0.0", "2.0.0", "3.0.0"]) {
      await putChart(version, false);
      expect(await reported({ module })).toMatch(/installed|upgraded/);
    }
    const { signal } = requestOf({});
    expect(() => releases.findRollbackTarget("m", 9)).toThrow("choose one of 2, 1");
    expect(releases.findRollbackTarget("m", undefined)).toBe(2);
    expect(await releases.rollBack({ ...requestOf({ module }), signal }, 1)).toMatchObject({ revision: 4 });
    expect(await data()).toContain("1.0.0");
    await restart();
    const held = await reconcile({ module });
    expect(held.action).toBe("unchanged");
    expect(held.rollbackReason).toMatch(
      /^Rolled back to chart 1\.0\.0 \(revision 4\): chart 3\.0\.0, revision 3, was rolled back by hand/,
    );
    expect(await reported({ module, b: 2 })).toBe("unchanged");
    expect(history().at(-1)).toBe("4 deployed");
    expect(await reported({ module, a: 2 })).toBe("upgraded");
    expect(await data()).toContain("3.0.0");
    expect((await reconcile({ module, a: 2 })).rollbackReason).toBeUndefined();
  });

  test.runIf(once)("a way back by hand that was interrupted is carried on", async () => {
    await putChart("1.0.0", false);
    await reported();
    await putChart("2.0.0", false);
    await reported();
    let isRecorded = false;
    releases.helm.rollback = () => Promise.reject(new Error(`killed, recorded: ${isRecorded}`));
    const rollBack = releases.rollBack(requestOf({}), undefined, () => (isRecorded = true));
    await expect(rollBack).rejects.toThrow("killed, recorded: true");
    await restart();
    expect(await reported()).toBe("rolledBack");
    expect(await data()).toContain("1.0.0");
  });

  test.runIf(once)("a person's request tries what was rejected again, and counts from one", async () => {
    await putChart("1.0.0", false);
    await reported();
    await putChart("2.0.0", true);
    const module = { ...requestOf({}).module, retries: 2 };
    expect([await reported({ module }), await reported({ module })]).toEqual(["failed", "rolledBack"]);
    expect(await reported({ module, isRequested: true })).toBe("failed");
    expect([await reported({ module }), await reported({ module })]).toEqual(["rolledBack", "unchanged"]);
  });

  test.runIf(once)(
    "what hooks change is tried as often again, then no more; what people change is tried at once",
    async () => {
      await putChart("1.0.0", false);
      await reported();
      await putChart("2.0.0", true);
      const module = { ...requestOf({}).module, retries: 2 };
      expect([await reported({ module }), await reported({ module })]).toEqual(["failed", "rolledBack"]);
      expect(await reported({ module, b: 2 })).toBe("rolledBack");
      expect(await reported({ module, b: 3 })).toBe("rolledBack");
      expect(await reported({ module, b: 4 })).toBe("unchanged");
      expect(history().at(-1)).toBe("8 deployed");
      expect(await reported({ module, a: 2, b: 4 })).toBe("failed");
    },
  );

  test.runIf(once)(
    "the first installation that fails has nothing to go back to, and is tried again",
    async () => {
      await putChart("1.0.0", true);
      const module = { ...requestOf({}).module, retries: 1 };
      await expect(reconcile({ module })).rejects.toThrow("there is no good revision to go back to");
      await expect(reconcile({ module })).rejects.toThrow("there is no good revision to go back to");
      await putChart("1.0.1", false);
      expect(await reported({ module })).toMatch(/installed|upgraded/);
    },
  );

  test("a rollback that was interrupted is done anew, with as few revisions as helm may keep", async () => {
    await restart({ historyMax: 1 });
    await putChart("1.0.0", false);
    await reported();
    const before = await data();
    await putChart("2.0.0", true);
    const { helm } = releases;
    const module = { ...requestOf({}).module, retries: 2 };
    await reported({ module });
    // helm is killed before it begins, after the rejection was written.
    helm.rollback = () => Promise.reject(new Error("killed"));
    expect(await reported({ module })).toBe("failed");
    await restart({ historyMax: 1 });
    expect(await reported({ module })).toBe("rolledBack");
    expect(await data()).toBe(before);
    expect(await reported({ module })).toBe("unchanged");
    // It is killed at the end: its revision has the labels of the good one.
    const newest = releases.store.get("m")!;
    await releases.store.setLabels(newest, { status: "pending-rollback" });
    await restart({ historyMax: 1 });
    expect(await reconcile({ module })).toMatchObject({ action: "rolledBack", wasRecovered: true });
    expect(await reported({ module })).toBe("unchanged");
    expect(await data()).toBe(before);
  });

  test.runIf(once)("a template that fails changes nothing and does not count", async () => {
    await putChart("1.0.0", false);
    await reported();
    await put("m/templates/broken.yaml", '{{ fail "no" }}');
    for (let turn = 0; turn < 4; turn++) expect(await reported()).toBe("failed");
    expect(history()).toEqual(["1 deployed"]);
  });

  test.runIf(once)("without the policy nothing is counted, marked or rolled back", async () => {
    const module = { ...requestOf({}).module, onFailure: "retry" } as const;
    await putChart("1.0.0", false);
    await reported({ module });
    await putChart("2.0.0", true);
    for (let turn = 0; turn < 4; turn++) expect(await reported({ module })).toBe("failed");
    const names = releases.store.revisions("m").flatMap(({ labels }) => Object.keys(labels));
    const ours = [
      RELEASE_LABELS.good,
      RELEASE_LABELS.userInputs,
      RELEASE_LABELS.content,
      RELEASE_LABELS.tries,
      RELEASE_LABELS.rejected,
    ];
    expect(names.filter((name) => ours.some((each) => each === name))).toEqual([]);
  });

  const ILL = { status: "False", message: "Deployment n/web: 0 of 1 replicas available" } as const;

  test.runIf(once)(
    "what is not healthy in time goes back once it is known to be new; what was healthy before stays",
    async () => {
      await putChart("1.0.0", false);
      await reported();
      await putChart("2.0.0", false);
      expect(await reported({ unhealthy: ILL })).toBe("upgraded");
      // The first version was not healthy when it was left: there is nothing to go back to.
      expect(await reconcile({ unhealthy: ILL })).toMatchObject({
        action: "unchanged",
        lacksRollbackTarget: true,
      });
      expect(await reconcile()).not.toHaveProperty("lacksRollbackTarget");
      await releases.goodRevisions.markGood(requestOf({}).module, { status: "True", revision: 2 });
      await putChart("3.0.0", false);
      expect(await reported()).toBe("upgraded");
      const outcome = await reconcile({ unhealthy: ILL });
      expect(outcome).toMatchObject({
        action: "rolledBack",
        rollbackReason: expect.stringContaining(
          "was not healthy in time: Deployment n/web: 0 of 1 replicas available; an edit",
        ),
      });
      expect(await data()).toContain("2.0.0");
      const stays = await reconcile({ unhealthy: ILL });
      expect(stays.action).toBe("unchanged");
      expect(stays).not.toHaveProperty("lacksRollbackTarget");
    },
  );
});

test("the AddonModule says what was rolled back and what is in force, until what people give is mended", async () => {
  const own = await freshNamespace("rolled-back");
  const lab = hookLab("rolled-back");
  onTestFinished(() => rm(lab.dir, { recursive: true, force: true }));
  lab.file("modules/values.yaml", "webEnabled: true\nweb: {type: ClusterIP}\n");
  lab.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
  lab.file("modules/010-web/addon.yaml", "onFailure: rollback\nretries: 2\n");
  lab.file(
    "modules/010-web/templates/all.yaml",
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: {{ .Values.web.type }}, ports: [{port: 80}]}\n",
  );
  const kubectl = (...args: string[]): Promise<string> => cluster().kubectl([...args, "-n", own]);
  await kubectl("create", "configmap", "addon-operator");
  const operator = await startOperator({
    namespace: own,
    modulesDir: lab.modulesDir,
    helm: cluster().bin.helm,
  });
  await operator.waitReady();
  const says = (state: string, words: RegExp): Promise<void> =>
    eventually(async () => {
      const reported =
        "jsonpath={.status.state}/{.status.conditions[*].type}: {.status.conditions[0].message}";
      const text = await kubectl("get", "addonmodule", "web", "-o", reported);
      expect(text.startsWith(`${state}/`)).toBe(true);
      expect(text).toMatch(words);
    }, `web is ${state}`);
  const configure = (type: string): Promise<string> =>
    kubectl(
      "patch",
      "configmap",
      "addon-operator",
      "--type=merge",
      "-p",
      JSON.stringify({ data: { web: `type: ${type}` } }),
    );
  await configure("Unheard");
  const refused =
    /Ready Stalled.*: Rolled back to chart 1\.2\.3 \(revision 4\): chart 1\.2\.3, revision 3, failed: .*Unheard/;
  await says("RolledBack", refused);
  expect(await kubectl("get", "service", "web", "-o", "jsonpath={.spec.type}")).toBe("ClusterIP");
  await eventually(
    async () =>
      expect(await kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")).toContain("RolledBack"),
    "the Event",
  );
  await operator.kill9();
  const next = await startOperator({ namespace: own, modulesDir: lab.modulesDir, helm: cluster().bin.helm });
  await next.waitReady();
  await says("RolledBack", refused);
  await configure("NodePort");
  await says("Ready", /web\.v5 is in place/);
});
