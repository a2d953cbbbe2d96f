/** The RBAC rules that `lint --rbac` prints. It derives groups and plurals of kinds without an API server. */

import { readFile } from "node:fs/promises";

import { makesPods } from "../health/index.ts";
import { bodiesOf, documentsOf } from "../helm/index.ts";
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
export async function rulesOf(
  trees: readonly Tree[],
  loader: HookLoader,
  charts: OfflineCharts,
): Promise<{ rules: Json[]; problems: Problem[] }> {
  const needs = new RuleSet();
  const problems: Problem[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) await needs.mapper.addCrdFiles(module.crdFiles);
    for (const file of tree.globalHookFiles) await addHook(needs, problems, () => loader.load(file));
    for (const module of tree.modules) {
      for (const file of module.hookFiles)
        await addHook(needs, problems, () => loader.load(file, module.name));
      addRequirements(needs, module);
      await addChart(needs, problems, { module, tree, charts });
    }
  }
  return { rules: needs.rules(), problems };
}

/** Collects verbs by group and resource, and complete rules. */
export class RuleSet {
  readonly mapper: RestMapper;
  readonly #verbs = new Map<string, Set<string>>();
  readonly #granted = new Map<string, Json>();

  constructor(mapper = new RestMapper()) {
    this.mapper = mapper;
  }

  add(apiVersion: string | undefined, kind: string, verbs: readonly string[]): void {
    const { group, plural } = this.mapper.resolve(kind, apiVersion);
    const key = `${group}/${plural}`;
    this.#verbs.set(key, new Set([...(this.#verbs.get(key) ?? []), ...verbs]));
  }

  /** Adds a complete rule. */
  grant(rule: Json): void {
    this.#granted.set(JSON.stringify(rule), rule);
  }

  /** Resources of one group with the same verbs share one rule. */
  rules(): Json[] {
    const groups = new Map<string, { group: string; verbs: string[]; resources: string[] }>();
    for (const [key, set] of [...this.#verbs].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const [group = "", plural = ""] = key.split("/");
      const verbs = [...set].sort();
      const id = `${group} ${verbs.join()}`;
      const rule = groups.get(id) ?? { group, verbs, resources: [] };
      rule.resources.push(plural);
      groups.set(id, rule);
    }
    const own = [...groups.values()].map(({ group, verbs, resources }) => ({
      apiGroups: [group],
      resources,
      verbs,
    }));
    return [...own, ...this.#granted.values()];
  }
}

async function addHook(
  needs: RuleSet,
  problems: Problem[],
  load: () => ReturnType<HookLoader["load"]>,
): Promise<void> {
  const answer = await load();
  if ("problem" in answer) problems.push(answer.problem);
  else for (const hook of answer.hooks) addBindings(needs, hook);
}

const WEBHOOK_VERBS = ["create", "delete", "get", "list", "update", "watch"];

function addBindings(needs: RuleSet, hook: Hook): void {
  for (const binding of hook.config.bindings.kubernetes) {
    needs.add(binding.apiVersion, binding.kind, READ_VERBS);
    if (binding.namespaceLabels !== undefined) needs.add("v1", "Namespace", READ_VERBS);
  }
  const { validating, mutating, conversion } = hook.config.bindings;
  const registration = "admissionregistration.k8s.io/v1";
  // The operator looks after both kinds, and for its Service, whichever of them a hook needs.
  if (validating.length + mutating.length + conversion.length > 0) {
    for (const kind of ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
      needs.add(registration, kind, WEBHOOK_VERBS);
    needs.add("v1", "Service", ["get"]);
  }
  for (const { crdName } of conversion) {
    const [apiGroups, resources] = [["apiextensions.k8s.io"], ["customresourcedefinitions"]];
    needs.grant({ apiGroups, resources, resourceNames: [crdName], verbs: [...READ_VERBS, "update"] });
  }
}

/**
 * Adds the rights to read the ConfigMaps and Secrets with values of a module, and the objects that it requires; of a module
 * with a namespace of its own, to create that and to have its release there. With `helm --wait`, helm also reads Pods and
 * ReplicaSets.
 */
function addRequirements(needs: RuleSet, { requires, helm, namespace, valuesFrom = [] }: Module): void {
  if (namespace !== undefined) {
    needs.add("v1", "Namespace", ["create", "get"]);
    // The records of its release.
    needs.add("v1", "Secret", WRITE_VERBS);
  }
  for (const { kind, name } of valuesFrom) {
    const { group, plural } = needs.mapper.resolve(kind, "v1");
    needs.grant({ apiGroups: [group], resources: [plural], resourceNames: [name], verbs: READ_VERBS });
  }
  for (const { apiVersion, kind } of requires?.objects ?? []) needs.add(apiVersion, kind, READ_VERBS);
  if (helm?.wait !== true) return;
  needs.add("apps/v1", "ReplicaSet", READ_VERBS);
  needs.add("v1", "Pod", READ_VERBS);
}

interface ModuleChart {
  readonly module: Module;
  readonly tree: Tree;
  readonly charts: OfflineCharts;
}

/** Adds the rights for CRDs and chart objects of a module. If the chart cannot be rendered, it reports a problem. */
async function addChart(
  needs: RuleSet,
  problems: Problem[],
  { module, tree, charts }: ModuleChart,
): Promise<void> {
  if (module.crdFiles.length > 0 && module.serviceAccountName === undefined)
    needs.add("apiextensions.k8s.io/v1", "CustomResourceDefinition", WRITE_VERBS);
  if (module.chart === "none") return;
  try {
    const manifest = await charts.render(module, tree, { includeCrds: true });
    const objects = bodiesOf(documentsOf(manifest));
    needs.mapper.addCrds(objects);
    // The operator only reads what it writes as the account of the module (`roles.ts`).
    const hasAccount = module.serviceAccountName !== undefined;
    for (const object of objects) addObject(needs, object, hasAccount ? READ_VERBS : WRITE_VERBS);
    if (!hasAccount) addBindingRights(needs, objects);
  } catch (error) {
    problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
  }
}

/** Adds the rights for one object of a chart, for the Pods that it makes, and for the rules of a role. */
function addObject(needs: RuleSet, object: JsonObject, verbs: readonly string[]): void {
  const { apiVersion, kind } = object;
  if (typeof apiVersion !== "string" || typeof kind !== "string") return;
  needs.add(apiVersion, kind, verbs);
  if (makesPods(apiVersion, kind)) {
    needs.add("v1", "Pod", READ_VERBS);
    if (kind === "Deployment") needs.add("apps/v1", "ReplicaSet", READ_VERBS);
  }
  if (verbs === WRITE_VERBS && isRbac(object) && kind.endsWith("Role")) addGrants(needs, object);
}

/** The rules of a role that a chart contains. */
function addGrants(needs: RuleSet, object: JsonObject): void {
  const rules = object["rules"];
  if (Array.isArray(rules)) for (const rule of rules) needs.grant(rule);
  // The rules of an aggregated role are unknown here, so the operator needs the right to escalate.
  if (isJsonObject(object["aggregationRule"]))
    needs.grant({ apiGroups: [RBAC], resources: ["clusterroles"], verbs: ["escalate"] });
}

/** Adds the right to bind a role by its name, for each bound role that is not in the chart. */
function addBindingRights(needs: RuleSet, objects: readonly JsonObject[]): void {
  const inChart = new Set(
    objects.filter(isRbac).map((object) => `${asString(object["kind"])} ${nameOf(object)}`),
  );
  for (const object of objects.filter(isRbac)) {
    const { kind, name } = objectOf(object["roleRef"]);
    if (typeof kind !== "string" || typeof name !== "string" || inChart.has(`${kind} ${name}`)) continue;
    const resources = [`${kind.toLowerCase()}s`];
    needs.grant({ apiGroups: [RBAC], resources, verbs: ["bind"], resourceNames: [name] });
  }
}

const RBAC = "rbac.authorization.k8s.io";

function isRbac(object: JsonObject): boolean {
  return asString(object["apiVersion"])?.startsWith(`${RBAC}/`) === true;
}

function nameOf({ metadata }: JsonObject): string {
  return asString(objectOf(metadata)["name"]) ?? "";
}

/** Group and plural name of a kind. */
interface KindNames {
  readonly group: string;
  readonly plural: string;
}

/** Built-in kinds by group, for bindings without apiVersion. */
const BUILT_IN: Readonly<Record<string, string>> = {
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

const GROUPS = new Map(
  Object.entries(BUILT_IN).flatMap(([group, kinds]) =>
    kinds.split(" ").map((kind) => [kind.toLowerCase(), group] as const),
  ),
);

/** Built-in kinds without a namespace. */
const CLUSTER_WIDE =
  "namespace node persistentvolume ingressclass clusterrole clusterrolebinding csidriver csinode storageclass volumeattachment customresourcedefinition apiservice mutatingwebhookconfiguration validatingadmissionpolicy validatingadmissionpolicybinding validatingwebhookconfiguration certificatesigningrequest priorityclass".split(
    " ",
  );

/** Maps kinds to groups and plurals: built-in kinds, kinds of CRD files, and a guess for others. */
export class RestMapper {
  /** Names from CRDs, by kind and plural in lower case. */
  readonly #fromCrds = new Map<string, KindNames>();
  readonly #clusterWide = new Set(CLUSTER_WIDE);

  /** Adds the CRDs of files; ignores unreadable files. */
  async addCrdFiles(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const text = await readFile(file, "utf8").catch(() => "");
      this.addCrds(bodiesOf(documentsOf(text)));
    }
  }

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
    if (apiVersion !== undefined) return { group: group ?? "", plural: pluralOf(name) };
    return { group: GROUPS.get(name) ?? GROUPS.get(name.replace(/s$/, "")) ?? "", plural: pluralOf(name) };
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

/** The usual plural: that of most CRDs and all built-in kinds. */
function pluralOf(name: string): string {
  // The name is a plural already.
  if (GROUPS.has(name.replace(/s$/, "")) && name.endsWith("s") && !GROUPS.has(name)) return name;
  if (name === "endpoints") return name;
  if (/(s|x|ch|sh)$/.test(name)) return `${name}es`;
  if (/[^aeiou]y$/.test(name)) return `${name.slice(0, -1)}ies`;
  return `${name}s`;
}
