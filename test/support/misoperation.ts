/** What people do wrong with an operator: by a seed, from the contract of the ConfigMap, the schemas, and the objects that the operator writes. */

import { MODULE_SETTINGS } from "../../src/values/config/config-map.ts";
import { eventually } from "./cluster.ts";
import { converge } from "./scene-addons.ts";
import { list, MODULES, OWN_CRDS, OWN_GROUP, SCHEMA, writeFiles } from "./misoperation-world.ts";
import type { ApiObject, World } from "./misoperation-world.ts";
import { violate, violateAddon } from "./violate.ts";
import type { Dice, Schema } from "./violate.ts";

export interface Mistake {
  readonly title: string;
  /** What one message must contain, if the operator has to refuse it. */
  readonly names?: readonly string[];
  /** Modules whose objects may be deleted and created again. */
  readonly touches?: readonly string[];
  /** The operator may end because of it, in good order. */
  readonly ends?: boolean;
  readonly apply: () => Promise<unknown>;
  /** Does what a person does who notices: writes what was there before. */
  readonly undo: () => Promise<unknown>;
}

type Kind = (world: World, dice: Dice) => Mistake;

const nothing = (): Promise<void> => Promise.resolve();

/** Texts that are no YAML, and values of every type. */
const BROKEN = ["{a", "a: b: c", "\t- x", "*a", "a: 1\na: 2\n", "'", "- a\nb: c\n", "%TAG", "a: &x [*y]"];
const TYPES = [
  "5",
  "-1.5",
  "true",
  "'text'",
  "[1]",
  "[{}]",
  "{a: 1}",
  "null",
  "",
  "~",
  "1e999",
  "2026-01-01",
];
const SECTION = ["5", "'text'", "true x", "1.5"];
const NO_FLAG = ["5", "[1]", "{a: 1}", "maybe", "1.5"];
const NO_SIZE = [
  "size: text",
  "size: [1]",
  "size: {a: 1}",
  "size: -1",
  "size: 1.5",
  "size: null\nother: 1",
  "unknown: 1",
];

function configMistake(world: World, { pick, below }: Dice): Mistake {
  const module = pick(MODULES);
  const settings = MODULE_SETTINGS.map(({ ending }) => ending);
  const rows: readonly (() => [string, string, readonly string[] | undefined])[] = [
    () => [
      pick([module, "global", `${module}Enabled`, ...settings.map((each) => `${module}${each}`)]),
      pick(BROKEN),
      [],
    ],
    () => [pick([module, "global"]), pick(SECTION), []],
    () => [pick([`${module}Enabled`, `${module}Protected`]), pick(NO_FLAG), []],
    () => ["base", pick(NO_SIZE), []],
    () => [
      pick(["maintenance", `${module}Maintenance`, `${module}Drift`]),
      pick(["5", "[1]", "'x'", "{a: 1}"]),
      [],
    ],
    () => [
      `${module}ValuesFrom`,
      pick(["5", "{a: 1}", "[1]", "[{kind: Pod, name: a}]", "[{kind: Secret}]"]),
      [],
    ],
    () => [`${module}ValuesFrom`, "[{kind: Secret, name: none}]", undefined],
    // These may be right: they only must not harm.
    () => [
      pick([`${module}Enabled`, module, "global", `${module}Drift`, "unknownKey", "-"]),
      pick(TYPES),
      undefined,
    ],
    () => [module, `{deep: ${"[".repeat(below(300))}${"]".repeat(below(300))}}`, undefined],
    () => [pick([`${module}Maintenance`, "maintenance"]), "NoResourceReconciliation", undefined],
    () => [`${module}Protected`, "true", undefined],
  ];
  const [key, text, names] = pick(rows)();
  const { data } = saved(world, "configmaps", "addon-operator");
  const set = (value: string | null): Promise<unknown> => world.pageState.configure({ [key]: value });
  // Only false, as a flag or in the place of a section, asks for a removal.
  const isOff = /^['"]?(false|no|off)?['"]?$/i.test(text.trim());
  return {
    title: `ConfigMap, ${key} = ${JSON.stringify(text).slice(0, 60)}`,
    ...(names && { names: ["ConfigMap addon-operator", key] }),
    ...(isOff && { touches: [module] }),
    apply: () => set(text),
    undo: () => set(data[key] ?? null),
  };
}

/** The objects as they were at rest, by plural and name. */
type Saved = { readonly data: Readonly<Record<string, string>> };
const rest = new Map<string, Saved>();

const keyOf = ({ namespace }: World, plural: string, name: string): string =>
  `${namespace} ${plural} ${name}`;

/** Remembers the ConfigMaps and Secrets of the namespace at rest, which an undo writes again. */
export async function remember(world: World): Promise<void> {
  for (const plural of ["configmaps", "secrets"])
    for (const { metadata, data = {} } of await list(world, `api/v1/namespaces/${world.namespace}/${plural}`))
      rest.set(keyOf(world, plural, metadata.name), { data });
}

function saved(world: World, plural: string, name: string): Saved {
  return rest.get(keyOf(world, plural, name)) ?? { data: {} };
}

/** Writes a file, or removes it, and asks for a converge; the undo writes all files again. */
function fileMistake(world: World, path: string, text?: string): Mistake {
  const { pageState, team, group } = world;
  const ask = (): Promise<unknown> => converge(pageState).catch(() => {});
  return {
    title: `file ${path}: ${text === undefined ? "removed" : JSON.stringify(text).slice(0, 100)}`,
    apply: () => {
      if (text === undefined) pageState.remove(path);
      else pageState.file(path, text);
      return ask();
    },
    undo: () => {
      if (text !== undefined) pageState.remove(path);
      writeFiles(pageState, team, group);
      return ask();
    },
  };
}

function addonMistake(world: World, dice: Dice): Mistake {
  const { value, key = "" } = violateAddon(dice);
  return {
    ...fileMistake(world, "modules/030-base/addon.yaml", JSON.stringify(value)),
    names: ["addon.yaml", key],
  };
}

function schemaMistake(world: World, { pick }: Dice): Mistake {
  const wrong = pick([
    { type: 5 },
    { type: "nothing" },
    { properties: [] },
    { properties: { size: { minimum: "low" } } },
    { properties: { size: { pattern: "(" } } },
    { $ref: "#/nowhere" },
    { $ref: "none.yaml" },
    { required: "size" },
    { "x-extend": { schema: "none.yaml" } },
    { properties: { size: { type: "string" } } },
  ]);
  const text = pick([JSON.stringify({ ...SCHEMA, ...wrong }), "{", "5", "", "[]"]);
  return fileMistake(world, "modules/030-base/openapi/config-values.yaml", text);
}

const GARBAGE = [
  "",
  "{",
  "5",
  "\0\0",
  "a: b: c\n",
  "[]",
  "name: [1]\nversion: {}\n",
  "apiVersion: v2\n",
  "{{",
];

function moduleFileMistake(world: World, { pick }: Dice): Mistake {
  const rows: readonly (() => Mistake)[] = [
    () => fileMistake(world, "modules/030-base/Chart.yaml", pick(GARBAGE)),
    () =>
      fileMistake(
        world,
        "modules/030-base/values.yaml",
        pick(["{", "5", "base: 5\n", "[]", "baseEnabled: [1]\n"]),
      ),
    () => fileMistake(world, "modules/values.yaml", pick(["{", "5", "[]", "global: 5\n"])),
    () =>
      fileMistake(
        world,
        "modules/030-base/templates/more.yaml",
        pick(["{{", "kind: [1]\n", "5", "{{ fail `no` }}", "a: b: c", "{{ .Values.a.b.c }}"]),
      ),
    () => ({ ...fileMistake(world, "modules/030-base/templates"), touches: ["base"] }),
    () =>
      fileMistake(
        world,
        "modules/020-app/enabled",
        pick([
          "#!/bin/sh\nexit 1\n",
          "",
          "#!/none\n",
          "#!/bin/sh\necho maybe > $MODULE_ENABLED_RESULT\n",
          "#!/bin/sh\n",
        ]),
      ),
    () =>
      fileMistake(
        world,
        pick([
          "modules/020-app/hooks/beforeHelm.sh",
          "global-hooks/beforeAll.sh",
          "modules/020-app/hooks/new.sh",
          "global-hooks/admit.sh",
        ]),
        pick([
          "#!/none\n",
          "#!/bin/sh\necho {\n",
          "#!/bin/sh\necho 5\n",
          "#!/bin/sh\nexit 3\n",
          "",
          `#!/bin/sh\necho '{"configVersion":"v9"}'\n`,
          `#!/bin/sh\n[ "$1" = --config ] || exit 7\necho '{"configVersion":"v1","beforeHelm":1}'\n`,
        ]),
      ),
    () => ({
      ...fileMistake(world, pick(["modules/020-app", "modules/030-base"])),
      touches: ["app", "base"],
    }),
    () => fileMistake(world, "modules/031-base/Chart.yaml", "apiVersion: v2\nname: base\nversion: 1.0.0\n"),
    () => fileMistake(world, "modules/999-Not_A_Name/Chart.yaml", "x"),
    () =>
      fileMistake(
        world,
        "modules/050-kinds/crds/things.yaml",
        pick(["{", "5", "kind: CustomResourceDefinition\n", "kind: Pod\n"]),
      ),
    () =>
      fileMistake(
        world,
        "modules/060-fed/addon.yaml",
        pick(["{", "5", "valuesFrom: 5\n", "serviceAccountName: nobody\n", "namespace: Not_A_Name\n"]),
      ),
  ];
  return pick(rows)();
}

interface Target {
  readonly path: string;
  readonly title: string;
  readonly change: "delete" | object;
}

/** Changes or deletes one object; the operator repairs it, or a person does. */
function objectMistake(world: World, { path, title, change }: Target, more: Partial<Mistake> = {}): Mistake {
  const what = change === "delete" ? "deleted" : JSON.stringify(change).slice(0, 100);
  return {
    title: `${title}: ${what}`,
    undo: nothing,
    ...more,
    apply: async () => {
      const body = change === "delete" ? {} : { body: change };
      await world.api.request(change === "delete" ? "DELETE" : "PATCH", path, body.body);
    },
  };
}

const encode = (text: string): string => Buffer.from(text).toString("base64");
const JUNK = ["", "{", "5", "null", "[]", "{}", "not base64 !", "\0", '{"a":1}'];

/** All records of a release, or one of them, deleted or made unreadable. */
function recordMistake(world: World, { pick }: Dice): Mistake {
  const module = pick(MODULES);
  const where = module === "team" ? world.team : world.namespace;
  const root = `api/v1/namespaces/${where}/secrets`;
  const change = pick<"delete" | object>([
    "delete",
    { data: { release: encode(pick(JUNK)) } },
    { data: null },
    {
      metadata: {
        labels: { status: pick(["failed", "pending-upgrade", "uninstalling", "superseded", "x"]) },
      },
    },
    { metadata: { labels: { name: "other" } } },
    { metadata: { labels: { owner: null } } },
    { metadata: { labels: { version: pick(["x", "0", "99", null]) } } },
    { metadata: { labels: { "addon-operator.io/inputs": pick([null, "junk", "v1-0"]) } } },
    { metadata: { labels: { "addon-operator.io/managed-by": pick([null, "junk"]) } } },
  ]);
  const records = async () =>
    (await list(world, root)).filter(
      ({ metadata: { labels } }) => labels?.["owner"] === "helm" && labels["name"] === module,
    );
  const request = (name: string, body: "delete" | object): Promise<unknown> =>
    world.api.request(
      body === "delete" ? "DELETE" : "PATCH",
      `/${root}/${name}`,
      body === "delete" ? undefined : body,
    );
  let before: Awaited<ReturnType<typeof records>> = [];
  return {
    title: `records of ${module}: ${JSON.stringify(change).slice(0, 100)}`,
    touches: [module],
    apply: async () => {
      before = await records();
      for (const { metadata } of before) await request(metadata.name, change);
    },
    // Deleted records and changed labels of status come back by themselves or not at all; text is written again.
    undo: async () => {
      if (change === "delete") return;
      for (const { metadata, data } of before)
        await request(metadata.name, { data, metadata: { labels: metadata.labels } });
    },
  };
}

/** The ConfigMaps and Secrets that the operator, or a person for it, has written. */
function storeMistake(world: World, { pick, below }: Dice): Mistake {
  const [plural, name, key] = pick([
    ["configmaps", "addon-operator-modules", "web"],
    ["secrets", "addon-operator-addon-operator-redaction", undefined],
    ["secrets", "addon-operator-addon-operator-releases", undefined],
    ["secrets", "addon-operator-addon-operator-webhooks", "tls.crt"],
    ["secrets", "addon-operator-addon-operator-webhooks", "tls.key"],
    ["configmaps", "addon-operator-keys", "ci.pub"],
    ["secrets", "fed", "values.yaml"],
    ["configmaps", "addon-operator", undefined],
    ["configmaps", "seed", undefined],
  ] as const);
  const { data } = saved(world, plural, name);
  const path = `/api/v1/namespaces/${world.namespace}/${plural}/${name}`;
  const code = plural === "secrets" ? encode : (text: string) => text;
  const at = key ?? pick([...Object.keys(data), "x"]);
  const kind = plural === "secrets" ? "Secret" : "ConfigMap";
  const byPeople = ["addon-operator-keys", "fed", "addon-operator", "seed"].includes(name);
  // The ConfigMap of the operator has its own mistakes.
  const options: ("delete" | object)[] = [
    { data: { [at]: code(pick(JUNK)) } },
    { data: { [at]: null } },
    { data: { added: code("x") } },
  ];
  const change = name === "addon-operator" || name === "seed" || below(3) === 0 ? "delete" : pick(options);
  const junk = { added: null, ...(at in data ? {} : { [at]: null }) };
  const undo = async (): Promise<void> => {
    // The operator reads its own Secrets when it starts.
    if (plural === "secrets" && !byPeople) {
      if (change !== "delete") await world.api.request("PATCH", path, { data: junk });
      return world.restart();
    }
    const metadata = { name, namespace: world.namespace };
    const created = { apiVersion: "v1", kind, metadata, data };
    const { status } = await world.api.request("POST", path.slice(0, -name.length - 1), created);
    if (status === 409) await world.api.request("PATCH", path, { data: { ...junk, ...data } });
  };
  return objectMistake(
    world,
    { path, title: `${kind} ${name}`, change },
    {
      undo,
      // Without the keys nothing of the source counts; that removes nothing.
      touches: name === "fed" ? ["fed"] : [],
    },
  );
}

const own = (world: World, plural: string, name: string): string =>
  `/apis/${OWN_GROUP}/v1alpha1/namespaces/${world.namespace}/${plural}/${name}`;

/** Our resources: deleted, their status and annotations edited. */
function statusMistake(world: World, { pick }: Dice): Mistake {
  const [plural, name] = pick([
    ...MODULES.map((module) => ["addonmodules", module] as const),
    ["addonoperators", "addon-operator"] as const,
    ["addonoperators", "addon-operator"] as const,
  ]);
  const path = own(world, plural, name);
  const prefix = pick([
    "reconcile.addon-operator.io/requestedAt",
    "addon-operator.io/confirm-delete",
    "addon-operator.io/confirm-crds",
    "addon-operator.io/approve",
    "addon-operator.io/confirm-takeover",
  ]);
  const change = pick<"delete" | object>([
    "delete",
    { metadata: { annotations: { [prefix]: pick(["", "x", "{}", "1".repeat(300)]) } } },
    { metadata: { labels: { "addon-operator.io/managed-by": pick([null, "junk"]) } } },
    { metadata: { ownerReferences: null } },
    { metadata: { finalizers: ["example.com/keep"] } },
    { spec: { x: 1 } },
  ]);
  const status = pick([{ state: "Nonsense" }, { conditions: [] }, { conditions: null }, null, { state: 5 }]);
  const title = `${plural} ${name}`;
  const clean = (): Promise<unknown> =>
    world.api.request("PATCH", path, { metadata: { finalizers: null, annotations: { [prefix]: null } } });
  return pick([
    () => objectMistake(world, { path, title, change }, { undo: clean }),
    () => objectMistake(world, { path: `${path}/status`, title, change: { status } }),
  ])();
}

/** Our kinds and those of a module: deleted or changed. */
function crdMistake(world: World, { pick, below }: Dice): Mistake {
  const isOwn = below(2) === 0;
  const name = isOwn ? `${pick(OWN_CRDS)}.${OWN_GROUP}` : `things.${world.group}`;
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;
  const change = pick<"delete" | object>([
    "delete",
    { metadata: { labels: { x: "y" } } },
    { metadata: { annotations: { "helm.sh/resource-policy": null } } },
  ]);
  return objectMistake(
    world,
    { path, title: `CRD ${name}`, change },
    {
      touches: ["kinds", "thing"],
      undo: async () => {
        await world.furnish();
        // A person who has deleted a kind of a module asks for it again.
        await world.api.request("PATCH", path, { metadata: { labels: { x: null } } });
        if (!isOwn) await converge(world.pageState).catch(() => {});
      },
    },
  );
}

/** The namespace and the account of a module. */
function accountMistake(world: World, { pick }: Dice): Mistake {
  const { team } = world;
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces`;
  const [title, path] = pick([
    ["Namespace", `/api/v1/namespaces/${team}`],
    ["ServiceAccount", `/api/v1/namespaces/${team}/serviceaccounts/deployer`],
    ["ServiceAccount", `/api/v1/namespaces/${team}/serviceaccounts/deployer`],
    ["RoleBinding", `${rbac}/${team}/rolebindings/deployer`],
    ["Role", `${rbac}/${world.namespace}/roles/deployer`],
  ] as const);
  const undo = async (): Promise<void> => {
    // Whatever is created in a namespace that is being deleted goes with it.
    const isGone = async (): Promise<boolean> => {
      const { body } = await world.api.request("GET", path);
      return (body as Partial<ApiObject>).metadata?.deletionTimestamp === undefined;
    };
    await eventually(isGone, `${path} is deleted`);
    await world.furnish();
  };
  const target: Target = { path, title: `${title} of the team`, change: "delete" };
  return objectMistake(world, target, { touches: ["team"], undo });
}

/** The Lease: deleted, or taken by somebody. */
function leaseMistake(world: World, { pick }: Dice): Mistake {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${world.namespace}/leases/addon-operator-addon-operator`;
  const change = pick<"delete" | object>([
    "delete",
    { spec: null },
    { spec: { holderIdentity: "" } },
    { spec: { renewTime: null } },
    { spec: { leaseDurationSeconds: 1 } },
    { spec: { renewTime: "1970-01-01T00:00:00.000000Z" } },
    { spec: { holderIdentity: "somebody", leaseDurationSeconds: 2 } },
    { metadata: { annotations: { "addon-operator.io/address": "none" } } },
  ]);
  return objectMistake(world, { path, title: "Lease", change }, { ends: true });
}

/** The registration of webhooks. */
function webhookMistake(world: World, { pick }: Dice): Mistake {
  const name = `addon-operator-${world.namespace}-addon-operator-hooks`;
  const path = `/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/${name}`;
  const change = pick<"delete" | object>([
    "delete",
    { webhooks: null },
    { webhooks: [] },
    { metadata: { labels: { x: "y" } } },
  ]);
  return objectMistake(world, { path, title: "ValidatingWebhookConfiguration", change });
}

/** What charts create. */
function chartObjectMistake(world: World, { pick }: Dice): Mistake {
  const module = pick(MODULES);
  const where = module === "team" ? world.team : world.namespace;
  const path =
    module === "kinds"
      ? `/apis/${world.group}/v1/namespaces/${where}/things/thing`
      : `/api/v1/namespaces/${where}/configmaps/${module}`;
  const change = pick<"delete" | object>([
    "delete",
    { metadata: { labels: { "app.kubernetes.io/managed-by": null } } },
    { metadata: { annotations: { "meta.helm.sh/release-name": pick([null, "other"]) } } },
    { metadata: { finalizers: ["example.com/keep"] } },
    ...(module === "kinds" ? [] : [{ data: { a: "changed", size: "9" } }, { data: null }]),
  ]);
  const before = { "app.kubernetes.io/managed-by": "Helm" };
  const annotations = { "meta.helm.sh/release-name": module };
  return objectMistake(
    world,
    { path, title: `object of ${module}`, change },
    {
      touches: [module, ...(module === "kinds" ? ["thing"] : [])],
      undo: async () => {
        await world.api.request("PATCH", path, {
          metadata: { finalizers: null, labels: before, annotations },
        });
        // Drift is only reported by default: a person asks for the module's run.
        if (change !== "delete" && "data" in change) await world.api.request("DELETE", path);
      },
    },
  );
}

const sourceSchema = {
  properties: {
    registry: { type: "string", pattern: "^oci" },
    plainHttp: { type: "boolean" },
    interval: { type: "string", pattern: "^[0-9]" },
    suspend: { type: "boolean" },
    verify: { type: "object", properties: { keys: { type: "array", items: { type: "string" } } } },
    modules: {
      type: "object",
      properties: {
        web: {
          type: "object",
          properties: {
            version: { type: "string" },
            order: { type: "integer", minimum: 0 },
            enabled: { type: "boolean" },
          },
        },
      },
    },
  },
} satisfies Schema;

/** The spec of the source of modules. Most of it the API server refuses by our schema. */
function sourceMistake(world: World, dice: Dice): Mistake {
  const { pick, below } = dice;
  const path = own(world, "modulesources", "platform");
  const spec = {
    registry: "oci://127.0.0.1:1/none",
    plainHttp: true,
    interval: "30s",
    suspend: false,
    verify: { keys: ["ci.pub"] },
    modules: { web: { version: "1.4.2", order: 10, enabled: true } },
  };
  const changes: readonly object[] = [
    { registry: "oci://127.0.0.1:1/none" },
    { plainHttp: false },
    { suspend: true },
    { secret: "none" },
    { verify: { keys: ["none"] } },
    { modules: { web: { version: pick(["9.9.9", ">=2", "1.x"]) } } },
    { modules: { web: { digest: `sha256:${"0".repeat(64)}` } } },
    { modules: { base: { version: "1.0.0", enabled: true } } },
    { modules: { other: { version: "1.0.0", enabled: true } } },
    { ca: "no certificate" },
    { interval: "1h" },
  ];
  const change = below(2) === 0 ? pick(changes) : (violate(spec, sourceSchema, dice).value as object);
  const undo = async (): Promise<void> => {
    await world.api.request("PATCH", path, {
      spec: {
        suspend: null,
        secret: null,
        verify: null,
        ca: null,
        modules: { base: null, other: null, web: { digest: null } },
      },
    });
    await world.furnish();
  };
  return objectMistake(
    world,
    { path, title: "ModuleSource platform", change: { spec: change } },
    { undo, touches: ["web"] },
  );
}

function eventMistake(world: World): Mistake {
  const path = `/api/v1/namespaces/${world.namespace}/events`;
  return objectMistake(world, { path, title: "all Events", change: "delete" });
}

/** Each kind as often as it is here. */
const KINDS: readonly Kind[] = [
  configMistake,
  configMistake,
  configMistake,
  addonMistake,
  addonMistake,
  schemaMistake,
  moduleFileMistake,
  moduleFileMistake,
  recordMistake,
  recordMistake,
  storeMistake,
  storeMistake,
  statusMistake,
  statusMistake,
  crdMistake,
  accountMistake,
  leaseMistake,
  webhookMistake,
  chartObjectMistake,
  sourceMistake,
  sourceMistake,
  eventMistake,
];

export function mistake(world: World, dice: Dice): Mistake {
  return dice.pick(KINDS)(world, dice);
}
