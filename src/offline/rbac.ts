/** The rules that `lint --rbac` prints, with the groups and plurals of kinds as they are known without a server. */

import { readFile } from "node:fs/promises";

import { makesPods } from "../health/index.ts";
import { bodiesOf, documentsOf } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import { oneLine } from "../lib/index.ts";
import { isJsonObject, objectOf, textOf } from "../model/index.ts";
import type { Hook, Json, JsonObject, Module, Problem, Tree } from "../model/index.ts";
import type { OfflineCharts } from "./charts.ts";

const WATCHED = ["get", "list", "watch"];
const MANAGED = ["create", "delete", "get", "list", "patch", "update", "watch"];

/**
 * RBAC rules for what hooks' bindings watch, modules require and charts hold. The operator must also hold what roles inside charts
 * grant, or it could not create them. Object patches of hooks cannot be known. What could not be read is a problem.
 */
export async function rulesOf(
  trees: readonly Tree[],
  loader: HookLoader,
  charts: OfflineCharts,
): Promise<{ rules: Json[]; problems: Problem[] }> {
  const needs = new Needs();
  const problems: Problem[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) await needs.mapper.learn(module.crdFiles);
    for (const file of tree.globalHookFiles) await addHook(needs, problems, () => loader.load(file));
    for (const module of tree.modules) {
      for (const file of module.hookFiles)
        await addHook(needs, problems, () => loader.load(file, module.name));
      addTerms(needs, module);
      await addChart(needs, problems, { module, tree, charts });
    }
  }
  return { rules: needs.rules(), problems };
}

/** Verbs by group and resource, and rules that are taken over as they are. */
class Needs {
  readonly mapper = new RestMapper();
  readonly #verbs = new Map<string, Set<string>>();
  readonly #granted = new Map<string, Json>();

  add(apiVersion: string | undefined, kind: string, verbs: readonly string[]): void {
    const { group, plural } = this.mapper.resolve(kind, apiVersion);
    const key = `${group}/${plural}`;
    this.#verbs.set(key, new Set([...(this.#verbs.get(key) ?? []), ...verbs]));
  }

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
  needs: Needs,
  problems: Problem[],
  load: () => ReturnType<HookLoader["load"]>,
): Promise<void> {
  const answer = await load();
  if ("problem" in answer) problems.push(answer.problem);
  else for (const hook of answer.hooks) addBindings(needs, hook);
}

function addBindings(needs: Needs, hook: Hook): void {
  for (const binding of hook.config.bindings.kubernetes) {
    needs.add(binding.apiVersion, binding.kind, WATCHED);
    if (binding.namespaceLabels !== undefined) needs.add("v1", "Namespace", WATCHED);
  }
}

/** Objects that the module requires; a helm that waits for a Deployment looks at what that has made. */
function addTerms(needs: Needs, { requires, helm }: Module): void {
  for (const { apiVersion, kind } of requires?.objects ?? []) needs.add(apiVersion, kind, WATCHED);
  if (helm?.wait !== true) return;
  needs.add("apps/v1", "ReplicaSet", WATCHED);
  needs.add("v1", "Pod", WATCHED);
}

interface ChartOf {
  readonly module: Module;
  readonly tree: Tree;
  readonly charts: OfflineCharts;
}

async function addChart(needs: Needs, problems: Problem[], { module, tree, charts }: ChartOf): Promise<void> {
  if (module.crdFiles.length > 0) needs.add("apiextensions.k8s.io/v1", "CustomResourceDefinition", MANAGED);
  if (module.chart === "none") return;
  try {
    const manifest = await charts.render(module, tree, { includeCrds: true });
    const objects = bodiesOf(documentsOf(manifest));
    needs.mapper.learnFrom(objects);
    for (const object of objects) addObject(needs, object);
    addBindingRights(needs, objects);
  } catch (error) {
    problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
  }
}

function addObject(needs: Needs, object: JsonObject): void {
  const { apiVersion, kind } = object;
  if (typeof apiVersion !== "string" || typeof kind !== "string") return;
  needs.add(apiVersion, kind, MANAGED);
  if (makesPods(apiVersion, kind)) {
    needs.add("v1", "Pod", WATCHED);
    if (kind === "Deployment") needs.add("apps/v1", "ReplicaSet", WATCHED);
  }
  if (!isRbac(object) || !kind.endsWith("Role")) return;
  const rules = object["rules"];
  if (Array.isArray(rules)) for (const rule of rules) needs.grant(rule);
  // What such a role will grant is not known here: the API server asks for the right to escalate.
  if (isJsonObject(object["aggregationRule"]))
    needs.grant({ apiGroups: [RBAC], resources: ["clusterroles"], verbs: ["escalate"] });
}

/**
 * Without the rights that a role grants, the operator needs the right to bind it by name: for roles that this chart
 * does not contain.
 */
function addBindingRights(needs: Needs, objects: readonly JsonObject[]): void {
  const brought = new Set(
    objects.filter(isRbac).map((object) => `${textOf(object["kind"])} ${nameOf(object)}`),
  );
  for (const object of objects.filter(isRbac)) {
    const { kind, name } = objectOf(object["roleRef"]);
    if (typeof kind !== "string" || typeof name !== "string" || brought.has(`${kind} ${name}`)) continue;
    const resources = [`${kind.toLowerCase()}s`];
    needs.grant({ apiGroups: [RBAC], resources, verbs: ["bind"], resourceNames: [name] });
  }
}

const RBAC = "rbac.authorization.k8s.io";

function isRbac(object: JsonObject): boolean {
  return textOf(object["apiVersion"])?.startsWith(`${RBAC}/`) === true;
}

function nameOf({ metadata }: JsonObject): string {
  return textOf(objectOf(metadata)["name"]) ?? "";
}

/** Group and plural name of a kind. */
interface KindNames {
  readonly group: string;
  readonly plural: string;
}

/** Kinds that every cluster has, by group, for bindings that give no apiVersion. */
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

/** Names of kinds without a server: built-in ones, those of CRD files, and a guess for the rest. */
class RestMapper {
  /** Of CRD files, by kind in lower case. */
  readonly #own = new Map<string, KindNames>();

  /** Adds the CRDs of files; what cannot be read is left out. */
  async learn(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const text = await readFile(file, "utf8").catch(() => "");
      this.learnFrom(bodiesOf(documentsOf(text)));
    }
  }

  /** Takes in those that are CRDs. */
  learnFrom(objects: readonly JsonObject[]): void {
    for (const object of objects) this.#learnOne(object);
  }

  /** Bindings may name a kind in any case, or by its plural. */
  resolve(kind: string, apiVersion: string | undefined): KindNames {
    const name = kind.toLowerCase();
    const group = apiVersion?.includes("/") === true ? apiVersion.split("/")[0] : undefined;
    const own = this.#own.get(name);
    if (own !== undefined && (apiVersion === undefined || own.group === group)) return own;
    if (apiVersion !== undefined) return { group: group ?? "", plural: pluralOf(name) };
    return { group: GROUPS.get(name) ?? GROUPS.get(name.replace(/s$/, "")) ?? "", plural: pluralOf(name) };
  }

  #learnOne({ spec }: JsonObject): void {
    const { names, group } = objectOf(spec);
    const { kind, plural } = objectOf(names);
    if (typeof kind !== "string" || typeof plural !== "string" || typeof group !== "string") return;
    this.#own.set(kind.toLowerCase(), { group, plural });
    this.#own.set(plural, { group, plural });
  }
}

/** The usual plural: that of most CRDs and all built-in kinds. */
function pluralOf(name: string): string {
  if (GROUPS.has(name.replace(/s$/, "")) && name.endsWith("s") && !GROUPS.has(name)) return name;
  if (name === "endpoints") return name;
  if (/(s|x|ch|sh)$/.test(name)) return `${name}es`;
  if (/[^aeiou]y$/.test(name)) return `${name.slice(0, -1)}ies`;
  return `${name}s`;
}
