// Run with helm 3 as well.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// Objects of a release that go, or never came, under a running operator.

const CHART = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
const map = (name: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n---\n`;
const SECRET = `apiVersion: v1
kind: Secret
metadata: {name: made}
data: {password: "{{ randAlphaNum 20 | b64enc }}"}
---
`;
const ROLE = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}"}
rules: []
---
`;

interface Status {
  readonly state?: string;
  readonly absent?: readonly string[];
  readonly failures?: number;
  readonly release?: {
    readonly revision: number;
    readonly lastDeployed: string;
    readonly chartVersion?: string;
  };
}

/** A namespace and one module, `web`, whose hook waits as long as the file `held` is there. */
async function prepare(prefix: string, template: string) {
  const namespace = await freshNamespace(prefix);
  const lab = hookLab(prefix);
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  const held = join(lab.dir, "held");
  lab.file("modules/values.yaml", "webEnabled: true\nweb: {size: 1}\n");
  lab.file("modules/010-web/Chart.yaml", CHART);
  lab.file("modules/010-web/templates/all.yaml", template);
  lab.hook(
    "modules/010-web/hooks/before.sh",
    { configVersion: "v1", beforeHelm: 1 },
    `wait_until [ ! -e ${held} ]`,
  );
  const own = (...args: readonly string[]) => cluster().kubectl([...args, "-n", namespace]);
  await own("create", "configmap", "addon-operator");
  const status = async (): Promise<Status> =>
    (await cluster().json<{ status?: Status }>(["get", "addonmodule", "web", "-n", namespace])).status ?? {};
  const start = () => startOperator({ namespace, modulesDir: lab.modulesDir, helm: helmUnderTest() });
  return {
    namespace,
    lab,
    own,
    status,
    start,
    hold: () => writeFileSync(held, ""),
    let: () => rmSync(held),
    edit: (data: object) =>
      own("patch", "configmap", "addon-operator", "--type=merge", "-p", JSON.stringify({ data })),
    ready: () => eventually(async () => (await status()).state === "Ready", "web is ready"),
  };
}

/** Lines of the log that tell of objects which are not there. */
const reported = (log: string): string[] =>
  log.split("\n").filter((line) => /of a release are missing|were never created/.test(line));

test("what goes is put back with the module's hooks: no new revision, the same password", async () => {
  const { namespace, lab, own, status, start, ready } = await prepare(
    "heals",
    `${SECRET}${ROLE}${map("beside")}`,
  );
  const operator = await start();
  await operator.waitReady();
  await ready();
  const password = () => own("get", "secret", "made", "-o", "jsonpath={.data.password}");
  const before = await password();
  const runs = lab.runs("before").length;
  for (const object of ["configmap/beside", "secret/made", `clusterrole/${namespace}`]) {
    await own("delete", object);
    await eventually(async () => void (await own("get", object)), `${object} is back`);
    await ready();
  }
  expect(await password()).toBe(before);
  expect(lab.runs("before").length).toBe(runs + 3);
  expect((await status()).release?.revision).toBe(1);
  const missing = reported(operator.log());
  expect(missing).toHaveLength(3);
  for (const name of [
    `${namespace}/ConfigMap/beside`,
    `${namespace}/Secret/made`,
    `ClusterRole/${namespace}`,
  ])
    expect(missing.filter((line) => line.includes(name))).toHaveLength(1);
  expect(missing.join()).not.toContain(`/ClusterRole/${namespace}`);
  await eventually(
    async () =>
      expect(await own("get", "events", "-o", "name", "--field-selector", "reason=Healed")).not.toBe(""),
    "an Event tells of it",
  );
});

test("what an upgrade drops is not missed, and what goes meanwhile is not brought back twice", async () => {
  const {
    lab,
    own,
    status,
    start,
    edit,
    hold,
    let: proceed,
    ready,
  } = await prepare(
    "drops",
    `${map("stays")}{{ if lt (int .Values.web.size) 2 }}${map("dropped")}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: sized}
data: {size: "{{ .Values.web.size }}"}
`,
  );
  const operator = await start();
  await operator.waitReady();
  await ready();
  hold();
  const runs = lab.runs("before").length;
  await edit({ web: "size: 2\n" });
  await eventually(() => lab.runs("before").length > runs, "the run is under way");
  // An upgrade brings it back on its own.
  await own("delete", "configmap", "stays");
  proceed();
  await eventually(async () => (await status()).release?.revision === 2, "the upgrade is done");
  await own("get", "configmap", "stays");
  await expect(own("get", "configmap", "dropped")).rejects.toThrow("not found");
  // Its turn comes after whatever else is to be told.
  await own("delete", "configmap", "sized");
  await eventually(async () => void (await own("get", "configmap", "sized")), "sized is back");
  await ready();
  expect(lab.runs("before").length).toBe(runs + 2);
  expect((await status()).release?.revision).toBe(2);
  expect(reported(operator.log())).toHaveLength(1);
  expect(reported(operator.log())[0]).toContain("ConfigMap/sized");
});

test("version and time of a release are reported after an upgrade and after a restart", async () => {
  const { status, start, edit, ready } = await prepare(
    "times",
    `${map("m")}# {{ .Values.web.size }}\n${SECRET}`,
  );
  const first = await start();
  await first.waitReady();
  await eventually(async () => (await status()).release?.chartVersion === "1.2.3", "the version is told");
  const before = (await status()).release;
  // Times of releases are told in whole seconds.
  const nextSecond = Date.parse(before?.lastDeployed ?? "") + 1000;
  await eventually(() => Date.now() >= nextSecond, "the second of the first revision is over");
  await edit({ web: "size: 2\n" });
  await eventually(async () => {
    const { release } = await status();
    expect(release).toMatchObject({ revision: 2, chartVersion: "1.2.3" });
    expect(Date.parse(release?.lastDeployed ?? "")).toBeGreaterThanOrEqual(
      Date.parse(before?.lastDeployed ?? ""),
    );
    expect(release?.lastDeployed).not.toBe(before?.lastDeployed);
  }, "the second revision is told");
  await ready();
  // Two renderings of this chart differ: its checksum may be that of the one that was compared.
  const { revision, chartVersion, lastDeployed } = (await status()).release ?? {};
  await first.stop();
  const second = await start();
  await second.waitReady();
  await ready();
  await eventually(
    async () => expect((await status()).release).toMatchObject({ revision, chartVersion, lastDeployed }),
    "it is told again",
  );
});

test("what a first release never had is reported as such, until it can be created", async () => {
  const { namespace, own, status, start, edit, ready } = await prepare(
    "never",
    `${map("refused")}apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: taken}\n`,
  );
  await cluster().apply({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: namespace },
    webhooks: [
      {
        name: "refuse.example.com",
        clientConfig: { url: "https://127.0.0.1:1/" },
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] }],
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
      },
    ],
  });
  const accept = () => own("delete", "validatingwebhookconfiguration", namespace, "--ignore-not-found");
  onTestFinished(async () => void (await accept()));
  await eventually(
    async () => expect(own("create", "cm", "probe", "--dry-run=server")).rejects.toThrow("webhook"),
    "the webhook is at work",
  );
  // As part of the first reload it would be looked at half a minute later.
  await edit({ webEnabled: "false" });
  const operator = await start();
  await operator.waitReady();
  await edit({ webEnabled: "true" });
  await eventually(async () => (await status()).state === "Retrying", "it is refused");
  await eventually(() => reported(operator.log()).length > 0, "it is told");
  expect(await status()).not.toHaveProperty("absent");
  await accept();
  await ready();
  await own("get", "configmap", "refused");
  expect(reported(operator.log()).filter((line) => !line.includes("were never created"))).toEqual([]);
  expect(reported(operator.log()).filter((line) => !line.includes("ConfigMap/refused"))).toEqual([]);
});

test("a CRD of the module that goes is applied again, and its objects are put back", async () => {
  const { namespace, lab, own, start, ready } = await prepare("heals-crd", map("beside"));
  const group = `${namespace}.example.org`;
  lab.file(
    "modules/010-web/crds/widgets.yaml",
    JSON.stringify({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `widgets.${group}` },
      spec: {
        group,
        names: { kind: "Widget", plural: "widgets" },
        scope: "Namespaced",
        versions: [
          { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
        ],
      },
    }),
  );
  lab.file(
    "modules/010-web/templates/widget.yaml",
    `apiVersion: ${group}/v1\nkind: Widget\nmetadata: {name: one}\n`,
  );
  const operator = await start();
  await operator.waitReady();
  await ready();
  await own("delete", "crd", `widgets.${group}`);
  await eventually(async () => void (await own("get", `widgets.${group}`, "one")), "the object is back");
  await ready();
});
