/** One operator with a module of each kind, whose whole state is compared before and after each mistake of a person. */

import { createHash } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { startOperator } from "../../scripts/operator.mjs";
import type { OperatorProcess } from "../../scripts/operator.mjs";
import { moduleDir, registryLab } from "../sources/registry/artifact/lab.ts";
import type { Lab } from "../sources/registry/artifact/lab.ts";
import { Api } from "./api.ts";
import { eventually, ownCluster } from "./cluster.ts";
import type { ControlPlane } from "./cluster.ts";
import { crdOfThings } from "./crds.ts";
import { addons, seed } from "./scene-addons.ts";
import { openScene } from "./scene.ts";
import { ADDON } from "./violate.ts";
import type { PageState } from "./scene.ts";

export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly type?: string;
  readonly webhooks?: readonly { readonly name: string; readonly rules?: unknown }[];
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Everything that is compared; `uids` are those of the objects of charts. */
export interface Overview {
  readonly state: Readonly<Record<string, unknown>>;
  readonly uids: Readonly<Record<string, string>>;
}

export interface World {
  readonly pageState: PageState;
  readonly api: Api;
  readonly namespace: string;
  /** The namespace of the module `team`, whose account the module uses. */
  readonly team: string;
  /** The group of the kind that the module `kinds` brings. */
  readonly group: string;
  operator: OperatorProcess;
  /** Stops the operator, if it has not ended, and starts one over the same directories. */
  readonly restart: () => Promise<void>;
  /** Creates whatever a person has created in the cluster, or what of it is missing. */
  readonly furnish: () => Promise<void>;
  readonly look: () => Promise<Overview>;
}

export const MODULES = ["app", "base", "fed", "kinds", "team", "web"] as const;
export const OWN_GROUP = "addon-operator.io";
export const OWN_CRDS = ["addonmodules", "addonoperators", "modulesources"] as const;
const CRDS = new URL("../../crds/", import.meta.url).pathname;
const OWN = `apis/${OWN_GROUP}/v1alpha1`;

export const SCHEMA = {
  type: "object",
  properties: {
    size: { type: "integer", minimum: 0 },
    tags: { type: "array", items: { type: "string" } },
    nested: { type: "object", required: ["a"], properties: { a: { type: "boolean" } } },
  },
};

const map = (name: string, data: object, namespace?: string): string =>
  JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data });

const chart = (name: string): string => `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`;

const crdOf = (group: string): object => {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return crdOfThings(group, [{ name: "v1", served: true, storage: true, schema }]);
};

/** All files, as they were before any mistake; a mistake is undone by writing them again. */
export function writeFiles(pageState: PageState, team: string, group: string): void {
  const { file } = pageState;
  addons(pageState);
  file("modules/030-base/addon.yaml", JSON.stringify(ADDON));
  file("modules/030-base/openapi/config-values.yaml", JSON.stringify(SCHEMA));
  for (const [dir, name] of [
    ["040-team", "team"],
    ["050-kinds", "kinds"],
    ["060-fed", "fed"],
  ] as const) {
    file(`modules/${dir}/Chart.yaml`, chart(name));
    file(`modules/${dir}/values.yaml`, `${name}Enabled: true\n${name}: {}\n`);
  }
  file("modules/040-team/addon.yaml", `namespace: ${team}\nserviceAccountName: deployer\n`);
  file("modules/040-team/templates/map.yaml", map("team", { a: "b" }));
  file("modules/050-kinds/crds/things.yaml", JSON.stringify(crdOf(group)));
  file(
    "modules/050-kinds/templates/thing.yaml",
    `apiVersion: ${group}/v1\nkind: Thing\nmetadata: {name: thing}\n`,
  );
  const sources = [{ kind: "Secret", name: "fed" }];
  file("modules/060-fed/addon.yaml", JSON.stringify({ valuesFrom: sources }));
  file("modules/060-fed/templates/map.yaml", map("fed", { eaten: "{{ .Values.fed.eaten }}" }));
  const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["DELETE"] }];
  const only = { labelSelector: { matchLabels: { "kubernetes.io/metadata.name": team } } };
  const kubernetesValidating = [
    { name: "maps.example.com", rules, namespace: only, failurePolicy: "Ignore" },
  ];
  const config = JSON.stringify({ configVersion: "v1", kubernetesValidating });
  file(
    "global-hooks/admit.sh",
    `#!/bin/sh\nif [ "$1" = --config ]; then echo '${config}'; exit 0; fi\necho '{"allowed":true}' >"$ADMISSION_RESPONSE_PATH"\n`,
  );
}

/** What a person has created: CRDs, the account of a module, the Secret with values, the source of modules. */
function objectsOfPeople({ namespace }: PageState, team: string, lab: Lab): object[] {
  const account = { name: "deployer", namespace: team };
  const rbac = "rbac.authorization.k8s.io";
  const grant = (where: string): object[] => [
    {
      apiVersion: `${rbac}/v1`,
      kind: "Role",
      metadata: { name: "deployer", namespace: where },
      rules: [{ apiGroups: [""], resources: ["configmaps", "secrets"], verbs: ["*"] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "RoleBinding",
      metadata: { name: "deployer", namespace: where },
      roleRef: { apiGroup: rbac, kind: "Role", name: "deployer" },
      subjects: [{ kind: "ServiceAccount", ...account }],
    },
  ];
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: team } },
    { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
    ...grant(team),
    ...grant(namespace),
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "fed", namespace },
      stringData: { "values.yaml": "eaten: bread\n" },
    },
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator-keys", namespace },
      data: { "ci.pub": lab.key.publicPem },
    },
    {
      apiVersion: `${OWN_GROUP}/v1alpha1`,
      kind: "ModuleSource",
      metadata: { name: "platform", namespace },
      spec: sourceSpec(lab.registry.host),
    },
  ];
}

const sourceSpec = (host: string): Record<string, unknown> => ({
  registry: `oci://${host}/modules`,
  plainHttp: true,
  interval: "30s",
  modules: { web: { version: "1.4.2", order: 10, enabled: true } },
});

let plane: ControlPlane | undefined;

/** One world after the other on one control plane. */
export async function openWorld(): Promise<World> {
  plane ??= await ownCluster();
  const pageState = await openScene("mis", plane);
  const { namespace } = pageState;
  const { kubectl } = plane;
  const [team, group] = [`${namespace}-team`, `${namespace}.example.com`];
  const lab = await registryLab({ hasReferrers: true });
  await lab.push("1.4.2", {
    dir: moduleDir({
      "Chart.yaml": chart("web").replace("1.0.0", "1.4.2"),
      "templates/map.yaml": map("web", { a: "b" }),
    }),
  });
  const api = Api.of(plane.kubeconfig);
  const furnish = async (): Promise<void> => {
    await kubectl(["apply", "--server-side", "--force-conflicts", "-f", CRDS]);
    const names = OWN_CRDS.map((plural) => `crd/${plural}.${OWN_GROUP}`);
    await eventually(() => kubectl(["wait", "--for=condition=Established", ...names]), "the CRDs serve");
    const items = objectsOfPeople(pageState, team, lab);
    const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
    const apply = () => kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], list);
    await eventually(apply, "what people create is there", { intervalMs: 300 });
  };
  await furnish();
  await seed(pageState);
  writeFiles(pageState, team, group);
  const start = await starter(pageState);
  const world: World = {
    pageState,
    api,
    namespace,
    team,
    group,
    operator: await start(),
    restart: async () => {
      await world.operator.stop();
      world.operator = await start();
    },
    furnish,
    look: () => look(world),
  };
  onTestFinished(() => void world.operator.kill9());
  return world;
}

async function starter(pageState: PageState): Promise<() => Promise<OperatorProcess>> {
  const { dir, namespace, cluster } = pageState;
  const [port] = await freePorts(1);
  return () =>
    startOperator({
      kubeconfig: cluster.kubeconfig,
      namespace,
      modulesDir: join(dir, "modules"),
      globalHooksDir: join(dir, "global-hooks"),
      helm: join(dir, "helm"),
      args: [
        `--tmp-dir=${join(dir, "tmp")}`,
        "--sources",
        `--sources-dir=${join(dir, "sources")}`,
        "--service-account-namespaces=*",
        "--watch-dirs",
        `--webhook-url=https://127.0.0.1:${port}`,
        `--webhook-port=${port}`,
        "--webhook-listen-address=127.0.0.1",
      ],
      env: {
        SCENE: dir,
        REAL_HELM: cluster.bin.helm,
        RETRY_DELAY_MIN: "50ms",
        RETRY_DELAY_MAX: "500ms",
        LOG_TYPE: "text",
        TMPDIR: mkdtempSync(join(tmpdir(), "mis-")),
      },
    });
}

/** All objects of a resource, none if it is not served. */
export async function list({ api }: Pick<World, "api">, path: string): Promise<ApiObject[]> {
  const { status, body } = await api.request("GET", `/${path}`);
  if (status === 404) return [];
  if (status !== 200) throw new Error(`${path}: ${status}`);
  return (body as { readonly items: ApiObject[] }).items;
}

async function look(world: World): Promise<Overview> {
  const { namespace, team, group } = world;
  const state: Record<string, unknown> = {};
  const uids: Record<string, string> = {};
  const each = async (path: string, describe: (object: ApiObject) => unknown): Promise<void> => {
    for (const object of await list(world, path)) {
      const found = describe(object);
      if (found === undefined) continue;
      const { name, deletionTimestamp } = object.metadata;
      state[`${path} ${name}`.replaceAll(namespace, "NS")] =
        deletionTimestamp === undefined ? found : "leaves";
    }
  };
  const within = (root: string, plural: string, where = namespace): string =>
    `${root}/namespaces/${where}/${plural}`;
  for (const where of [namespace, team]) {
    await each(within("api/v1", "configmaps", where), ({ metadata, data = {} }) => {
      if (metadata.labels?.["app.kubernetes.io/managed-by"] === "Helm")
        uids[metadata.name] = metadata.uid ?? "";
      return metadata.name === "kube-root-ca.crt" ? undefined : data;
    });
    await each(within("api/v1", "secrets", where), ({ metadata: { labels = {} }, type, data = {} }) =>
      labels["owner"] === "helm" ? undefined : [type, Object.keys(data).toSorted()],
    );
    const versionOf = ({ metadata }: ApiObject): number => Number(metadata.labels?.["version"]);
    const secrets = await list(world, within("api/v1", "secrets", where));
    for (const { metadata } of secrets.toSorted((a, b) => versionOf(a) - versionOf(b)))
      if (metadata.labels?.["owner"] === "helm")
        state[`release ${metadata.labels["name"]}`] = metadata.labels["status"];
  }
  const things = within(`apis/${group}/v1`, "things");
  await each(things, ({ metadata }) => ((uids[metadata.name] = metadata.uid ?? ""), "there"));
  for (const plural of OWN_CRDS) await each(within(OWN, plural), describeStatus);
  await each(within("apis/coordination.k8s.io/v1", "leases"), ({ spec }) => spec?.["holderIdentity"] !== "");
  for (const kind of ["validating", "mutating"])
    await each(
      `apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations`,
      ({ metadata, webhooks = [] }) =>
        metadata.name.includes(namespace) ? webhooks.map(({ name, rules }) => [name, rules]) : undefined,
    );
  await each("apis/apiextensions.k8s.io/v1/customresourcedefinitions", ({ metadata, spec }) =>
    metadata.name.includes("mis-") && !metadata.name.includes(namespace)
      ? undefined
      : createHash("sha256").update(JSON.stringify(spec)).digest("hex").slice(0, 10),
  );
  return { state, uids };
}

function describeStatus({ status = {} }: ApiObject): unknown {
  // Whether a registry answers is unknown until a check needs it.
  const known = (status.conditions ?? []).filter(({ type }) => type !== "Reachable");
  const conditions = known.map(({ type, status: value }) => `${type}=${value}`);
  return [status.state, ...conditions.toSorted()].join(" ");
}
