/** The RBAC rules that `lint --rbac` prints. It derives groups and plurals of kinds without an API server. */

import { readFile } from "node:fs/promises";

import { makesPods } from "../health/index.ts";
import { listManifestObjects, parseDocuments } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import { oneLine } from "../lib/index.ts";
import { isJsonObject, objectOf, asString } from "../model/index.ts";
import type { Hook, Json, JsonObject, Module, Problem, Tree } from "../model/index.ts";
import type { OfflineCharts } from "./charts.ts";

export const READ_VERBS = ["get", "list", "watch"];
export const WRITE_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];

/**
 * RBAC rules for objects that bindings watch, modules require and charts contain. They include the rules of roles in
 * charts, because the API server lets nobody create a role with more rights than their own. Object patches of hooks are
 * unknown. Unreadable hooks and charts become problems.
 */
export async function collectRules(
  trees: readonly Tree[],
  loader: HookLoader,
  charts: OfflineCharts,
): Promise<{ rules: Json[]; problems: Problem[] }> {
  const rules = new RuleSet();
  const problems: Problem[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) await rules.mapper.addCrdFiles(module.crdFiles);
    for (const file of tree.globalHookFiles) await addHookFile(rules, problems, () => loader.load(file));
    for (const module of tree.modules) {
      for (const file of module.hookFiles)
        await addHookFile(rules, problems, () => loader.load(file, module.name));
      addModulePermissions(rules, module);
      await addChart(rules, problems, { module, tree, charts });
    }
  }
  return { rules: rules.build(), problems };
}

/** Builds RBAC rules from verbs for kinds, which are merged, and from complete rules. */
export class RuleSet {
  readonly mapper: RestMapper;
  readonly #verbsByResource = new Map<string, Set<string>>();
  readonly #completeRules = new Map<string, Json>();

  constructor(mapper = new RestMapper()) {
    this.mapper = mapper;
  }

  /** Adds verbs for objects of a kind. */
  addVerbs(apiVersion: string | undefined, kind: string, verbs: readonly string[]): void {
    const { group, plural } = this.mapper.resolve(kind, apiVersion);
    const key = `${group}/${plural}`;
    this.#verbsByResource.set(key, new Set([...(this.#verbsByResource.get(key) ?? []), ...verbs]));
  }

  /** Adds a complete rule. */
  addRule(rule: Json): void {
    this.#completeRules.set(JSON.stringify(rule), rule);
  }

  /** Builds the rules. Resources of one group with the same verbs share one rule. */
  build(): Json[] {
    const groups = new Map<string, { group: string; verbs: string[]; resources: string[] }>();
    for (const [key, set] of [...this.#verbsByResource].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const [group = "", plural = ""] = key.split("/");
      const verbs = [...set].sort();
      const id = `${group} ${verbs.join()}`;
      const rule = groups.get(id) ?? { group, verbs, resources: [] };
      rule.resources.push(plural);
      groups.set(id, rule);
    }
    const rules: Json[] = [];
    for (const { group, verbs, resources } of groups.values())
      rules.push({ apiGroups: [group], resources, verbs });
    return [...rules, ...this.#completeRules.values()];
  }
}

/** Loads a hook file and adds the permissions for the bindings of its hooks. An error becomes a problem. */
async function addHookFile(
  rules: RuleSet,
  problems: Problem[],
  loadHook: () => ReturnType<HookLoader["load"]>,
): Promise<void> {
  const loaded = await loadHook();
  if ("problem" in loaded) problems.push(loaded.problem);
  else for (const hook of loaded.hooks) addBindings(rules, hook);
}

const WEBHOOK_VERBS = ["create", "delete", "get", "list", "update", "watch"];

/** Adds the permissions to watch objects for kubernetes bindings, and to register the webhooks of the other bindings. */
function addBindings(rules: RuleSet, hook: Hook): void {
  for (const binding of hook.config.bindings.kubernetes) {
    rules.addVerbs(binding.apiVersion, binding.kind, READ_VERBS);
    if (binding.namespaceLabels !== undefined) rules.addVerbs("v1", "Namespace", READ_VERBS);
  }
  const { validating, mutating, conversion } = hook.config.bindings;
  const registration = "admissionregistration.k8s.io/v1";
  // The operator keeps configurations of both kinds up to date, and reads its Service, for any webhook binding.
  if (validating.length + mutating.length + conversion.length > 0) {
    for (const kind of ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
      rules.addVerbs(registration, kind, WEBHOOK_VERBS);
    rules.addVerbs("v1", "Service", ["get"]);
  }
  const crds = { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"] };
  for (const { crdName } of conversion)
    rules.addRule({ ...crds, resourceNames: [crdName], verbs: [...READ_VERBS, "update"] });
}

/**
 * Adds the permissions that keys of a module's `addon.yaml` need: `namespace` to create it and to store releases there,
 * `valuesFrom` and `requires.objects` to read objects, and `helm.wait` to read Pods and ReplicaSets.
 */
function addModulePermissions(rules: RuleSet, { requires, helm, namespace, valuesFrom = [] }: Module): void {
  if (namespace !== undefined) {
    rules.addVerbs("v1", "Namespace", ["create", "get"]);
    // helm stores release records in Secrets.
    rules.addVerbs("v1", "Secret", WRITE_VERBS);
  }
  for (const { kind, name } of valuesFrom) {
    const { group, plural } = rules.mapper.resolve(kind, "v1");
    rules.addRule({ apiGroups: [group], resources: [plural], resourceNames: [name], verbs: READ_VERBS });
  }
  for (const { apiVersion, kind } of requires?.objects ?? []) rules.addVerbs(apiVersion, kind, READ_VERBS);
  if (helm?.wait !== true) return;
  rules.addVerbs("apps/v1", "ReplicaSet", READ_VERBS);
  rules.addVerbs("v1", "Pod", READ_VERBS);
}

interface ModuleChart {
  readonly module: Module;
  readonly tree: Tree;
  readonly charts: OfflineCharts;
}

/** Adds the permissions for the CRDs and chart objects of a module. A chart that cannot be rendered becomes a problem. */
async function addChart(
  rules: RuleSet,
  problems: Problem[],
  { module, tree, charts }: ModuleChart,
): Promise<void> {
  if (module.crdFiles.length > 0 && module.serviceAccountName === undefined)
    rules.addVerbs("apiextensions.k8s.io/v1", "CustomResourceDefinition", WRITE_VERBS);
  if (module.chart === "none") return;
  try {
    const manifest = await charts.render(module, tree, { includeCrds: true });
    const objects = listManifestObjects(parseDocuments(manifest));
    rules.mapper.addCrds(objects);
    // The operator only reads what it writes as the account of the module (`roles.ts`).
    const hasAccount = module.serviceAccountName !== undefined;
    for (const object of objects) addObject(rules, object, hasAccount ? READ_VERBS : WRITE_VERBS);
    if (!hasAccount) addBindPermissions(rules, objects);
  } catch (error) {
    problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
  }
}

/** Adds the permissions for one object of a chart, for the Pods that it creates, and the rules of a role. */
function addObject(rules: RuleSet, object: JsonObject, verbs: readonly string[]): void {
  const { apiVersion, kind } = object;
  if (typeof apiVersion !== "string" || typeof kind !== "string") return;
  rules.addVerbs(apiVersion, kind, verbs);
  if (makesPods(apiVersion, kind)) {
    rules.addVerbs("v1", "Pod", READ_VERBS);
    if (kind === "Deployment") rules.addVerbs("apps/v1", "ReplicaSet", READ_VERBS);
  }
  if (verbs === WRITE_VERBS && isRbac(object) && kind.endsWith("Role")) addRoleRules(rules, object);
}

/** Adds the rules of a role in a chart: the API server lets nobody create a role with more permissions than their own. */
function addRoleRules(set: RuleSet, object: JsonObject): void {
  const rules = object["rules"];
  if (Array.isArray(rules)) for (const rule of rules) set.addRule(rule);
  // The rules of an aggregated role are unknown here, so the operator needs the verb `escalate`.
  if (isJsonObject(object["aggregationRule"]))
    set.addRule({ apiGroups: [RBAC_GROUP], resources: ["clusterroles"], verbs: ["escalate"] });
}

/** Adds the verb `bind` for each role that the chart's bindings name but the chart does not contain: the operator need not have its rules. */
function addBindPermissions(rules: RuleSet, objects: readonly JsonObject[]): void {
  const rbacObjects = objects.filter(isRbac);
  const inChart = new Set(rbacObjects.map((object) => `${asString(object["kind"])} ${objectName(object)}`));
  for (const object of rbacObjects) {
    const { kind, name } = objectOf(object["roleRef"]);
    if (typeof kind !== "string" || typeof name !== "string" || inChart.has(`${kind} ${name}`)) continue;
    const resources = [`${kind.toLowerCase()}s`];
    rules.addRule({ apiGroups: [RBAC_GROUP], resources, verbs: ["bind"], resourceNames: [name] });
  }
}

const RBAC_GROUP = "rbac.authorization.k8s.io";

function isRbac(object: JsonObject): boolean {
  return asString(object["apiVersion"])?.startsWith(`${RBAC_GROUP}/`) === true;
}

function objectName({ metadata }: JsonObject): string {
  return asString(objectOf(metadata)["name"]) ?? "";
}

/** Group and plural name of a kind. */
interface KindNames {
  readonly group: string;
  readonly plural: string;
}

/** Built-in kinds by group, for bindings without apiVersion. */
const BUILT_IN_KINDS: Readonly<Record<string, string>> = {
  "": "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
  apps: "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
  autoscaling: "HorizontalPodAutoscaler",
  batch: "CronJob Job",
  "networking.k8s.io": "Ingress IngressClass NetworkPolicy",
  policy: "PodDisruptionBudget",
  "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
  "storage.k8s.io": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
  "apiextensions.k8s.io": "CustomResourceDefinition",
  "apiregistration.k8s.io": "APIService",
  "admissionregistration.k8s.io":
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
  "certificates.k8s.io": "CertificateSigningRequest",
  "coordination.k8s.io": "Lease",
  "discovery.k8s.io": "EndpointSlice",
  "scheduling.k8s.io": "PriorityClass",
};

const GROUP_OF_BUILT_IN = new Map(
  Object.entries(BUILT_IN_KINDS).flatMap(([group, kinds]) =>
    kinds.split(" ").map((kind) => [kind.toLowerCase(), group] as const),
  ),
);

/** Built-in kinds without a namespace. */
const CLUSTER_WIDE_KINDS =
  "namespace node persistentvolume ingressclass clusterrole clusterrolebinding csidriver csinode storageclass volumeattachment customresourcedefinition apiservice mutatingwebhookconfiguration validatingadmissionpolicy validatingadmissionpolicybinding validatingwebhookconfiguration certificatesigningrequest priorityclass".split(
    " ",
  );

/** Maps kinds to groups and plurals: built-in kinds, kinds of CRD files, and a guess for others. */
export class RestMapper {
  /** Names from CRDs, by kind and plural in lower case. */
  readonly #fromCrds = new Map<string, KindNames>();
  readonly #clusterWide = new Set(CLUSTER_WIDE_KINDS);

  /** Adds the CRDs of files; ignores unreadable files. */
  async addCrdFiles(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const text = await readFile(file, "utf8").catch(() => "");
      this.addCrds(listManifestObjects(parseDocuments(text)));
    }
  }

  /** Adds the kinds of CRDs among these objects. */
  addCrds(objects: readonly JsonObject[]): void {
    for (const object of objects) this.#addCrd(object);
  }

  /** Whether objects of a kind are in no namespace: built-in kinds, and kinds of CRDs. */
  isClusterWide(kind: string): boolean {
    return this.#clusterWide.has(kind.toLowerCase());
  }

  /** Group and plural of a kind, which may also be given as plural and in any case. A kind of a CRD takes precedence. */
  resolve(kind: string, apiVersion: string | undefined): KindNames {
    const name = kind.toLowerCase();
    const group = apiVersion?.includes("/") === true ? apiVersion.split("/")[0] : undefined;
    const fromCrd = this.#fromCrds.get(name);
    if (fromCrd !== undefined && (apiVersion === undefined || fromCrd.group === group)) return fromCrd;
    if (apiVersion !== undefined) return { group: group ?? "", plural: toPlural(name) };
    const builtInGroup = GROUP_OF_BUILT_IN.get(name) ?? GROUP_OF_BUILT_IN.get(name.replace(/s$/, ""));
    return { group: builtInGroup ?? "", plural: toPlural(name) };
  }

  #addCrd({ spec }: JsonObject): void {
    const { names, group, scope } = objectOf(spec);
    const { kind, plural } = objectOf(names);
    if (typeof kind !== "string" || typeof plural !== "string" || typeof group !== "string") return;
    if (scope === "Cluster") this.#clusterWide.add(kind.toLowerCase());
    this.#fromCrds.set(kind.toLowerCase(), { group, plural });
    this.#fromCrds.set(plural, { group, plural });
  }
}

/** The plural of a kind by the English rules that all built-in kinds and most CRDs follow. Accepts plurals of built-in kinds. */
function toPlural(name: string): string {
  const isPlural = !GROUP_OF_BUILT_IN.has(name) && GROUP_OF_BUILT_IN.has(name.replace(/s$/, ""));
  if (isPlural || name === "endpoints") return name;
  if (/(s|x|ch|sh)$/.test(name)) return `${name}es`;
  if (/[^aeiou]y$/.test(name)) return `${name.slice(0, -1)}ies`;
  return `${name}s`;
}
