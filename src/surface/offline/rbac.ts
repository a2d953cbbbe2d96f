/**
 * The RBAC rules that `lint --rbac` prints: those of the operator, or with `--role` those of modules with an account. A
 * `mapper` knows the groups and plurals of kinds, those of the CRDs that it was given among them.
 */

import { makesPods } from "../../kube/health/index.ts";
import { listManifestObjects, parseDocuments } from "../../helm/index.ts";
import type { HookLoader } from "../../hooks/index.ts";
import { oneLine } from "../../base/index.ts";
import { isJsonObject, objectOf, asString, parseAccount } from "../../base/model/index.ts";
import type {
  Account,
  Hook,
  HookFile,
  Json,
  JsonObject,
  Module,
  Problem,
  Tree,
} from "../../base/model/index.ts";
import { findForbiddenWebhooks, listPermissions } from "../../engine/tasks/index.ts";
import type { OfflineCharts } from "./charts.ts";
import { RestMapper, RuleSet } from "./rule-set.ts";

const READ_VERBS = ["get", "list", "watch"];
const WRITE_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];
const WEBHOOK_VERBS = ["create", "delete", "get", "list", "update", "watch"];
const RBAC_GROUP = "rbac.authorization.k8s.io";
const CRDS = "apiextensions.k8s.io/v1";

/** How hooks and charts are read. Those that cannot be read are added to `problems`. */
interface PermissionSources {
  readonly loader: HookLoader;
  readonly charts: OfflineCharts;
  readonly problems: Problem[];
}

/**
 * RBAC rules for objects that bindings watch, modules require and charts contain. They include the rules of roles in
 * charts, because the API server lets nobody create a role with more rights than their own. Object patches of hooks are
 * unknown.
 */
export async function collectRules(trees: readonly Tree[], sources: PermissionSources): Promise<Json[]> {
  const rules = new RuleSet();
  for (const tree of trees) {
    // A hook may watch kinds of the CRDs of any module.
    for (const module of tree.modules) rules.mapper.addCrdFiles(module.crdFiles);
    for (const hook of await loadHooks(tree.globalHookFiles, sources)) addBindings(rules, hook);
    for (const module of tree.modules) {
      for (const hook of await loadHooks(module.hookFiles, sources, module.name)) addBindings(rules, hook);
      addModulePermissions(rules, module);
      addChartPermissions(rules, module, await renderObjects(module, tree, sources));
    }
  }
  return rules.build();
}

/**
 * The ServiceAccounts, roles and bindings for modules with `serviceAccountName`: permissions for the objects of kubernetes
 * bindings and charts, and for helm's release Secrets. Object patches and requests of hooks are unknown. Releases of modules
 * that name no namespace are in `defaultNamespace`.
 */
export async function collectRoles(
  trees: readonly Tree[],
  sources: PermissionSources,
  defaultNamespace: string,
): Promise<JsonObject[]> {
  const objects: JsonObject[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) {
      if (module.serviceAccountName === undefined) continue;
      const namespace = module.namespace ?? defaultNamespace;
      const scopes = { tree, namespace, operatorNamespace: defaultNamespace };
      const rules = await collectModuleRules(module, scopes, sources);
      const account = parseAccount(module.serviceAccountName, namespace);
      const metadata = { name: account.name, namespace: account.namespace };
      objects.push({ apiVersion: "v1", kind: "ServiceAccount", metadata });
      for (const [scope, rulesOfScope] of rules)
        objects.push(...buildRole(`${module.name}-${account.name}`, { account, scope }, rulesOfScope));
    }
  }
  return objects;
}

/** Loads the hooks of files, of a module or global ones. Files that cannot be loaded become problems, and are left out. */
async function loadHooks(
  files: readonly HookFile[],
  { loader, problems }: PermissionSources,
  module?: string,
): Promise<Hook[]> {
  const hooks: Hook[] = [];
  for (const file of files) {
    const loaded = await loader.load(file, module);
    if ("problem" in loaded) problems.push(loaded.problem);
    else hooks.push(...loaded.hooks);
  }
  return hooks;
}

/** Renders the objects of a module's chart, CRDs included; none without a chart, and for one with an error, which becomes a problem. */
async function renderObjects(
  module: Module,
  tree: Tree,
  { charts, problems }: PermissionSources,
): Promise<JsonObject[]> {
  if (module.chart === "none") return [];
  try {
    const manifest = await charts.render(module, tree, { includeCrds: true });
    return listManifestObjects(parseDocuments(manifest));
  } catch (error) {
    problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
    return [];
  }
}

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

/** Adds the permissions for the CRDs and chart objects of a module. */
function addChartPermissions(rules: RuleSet, module: Module, objects: readonly JsonObject[]): void {
  // The account writes the objects of its module (see `collectRoles`); the operator itself only reads them.
  const hasAccount = module.serviceAccountName !== undefined;
  if (module.crdFiles.length > 0 && !hasAccount)
    rules.addVerbs(CRDS, "CustomResourceDefinition", WRITE_VERBS);
  rules.mapper.addCrds(objects);
  for (const object of objects) addObject(rules, object, hasAccount ? READ_VERBS : WRITE_VERBS);
  if (!hasAccount) addBindPermissions(objects, () => rules);
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
  if (verbs === WRITE_VERBS && isRole(object)) addRoleRules(rules, object);
}

/** Adds the rules of a role in a chart: the API server lets nobody create a role with more permissions than their own. */
function addRoleRules(set: RuleSet, object: JsonObject): void {
  const rules = object["rules"];
  if (Array.isArray(rules)) for (const rule of rules) set.addRule(rule);
  // The rules of an aggregated role are unknown here, so the operator needs the verb `escalate`.
  if (isJsonObject(object["aggregationRule"]))
    set.addRule({ apiGroups: [RBAC_GROUP], resources: ["clusterroles"], verbs: ["escalate"] });
}

/**
 * Adds the verb `bind` for each role that the chart's bindings name but the chart does not contain. With `bind`, a subject
 * may create a binding without the permissions that the role grants. `rulesFor` returns the rules for the scope of a binding.
 */
function addBindPermissions(
  objects: readonly JsonObject[],
  rulesFor: (binding: JsonObject) => RuleSet,
): void {
  const rbacObjects = objects.filter(isRbac);
  const rolesInChart = new Set(
    rbacObjects.map(({ kind, metadata }) => `${asString(kind)} ${asString(objectOf(metadata)["name"])}`),
  );
  for (const object of rbacObjects) {
    const { kind, name } = objectOf(object["roleRef"]);
    if (typeof kind !== "string" || typeof name !== "string" || rolesInChart.has(`${kind} ${name}`)) continue;
    const resources = [`${kind.toLowerCase()}s`];
    const rule = { apiGroups: [RBAC_GROUP], resources, verbs: ["bind"], resourceNames: [name] };
    rulesFor(object).addRule(rule);
  }
}

function isRole(object: JsonObject): boolean {
  return isRbac(object) && asString(object["kind"])?.endsWith("Role") === true;
}

function isRbac(object: JsonObject): boolean {
  return asString(object["apiVersion"])?.startsWith(`${RBAC_GROUP}/`) === true;
}

/** The key of cluster-wide rules, beside the names of namespaces. */
const CLUSTER_SCOPE = "";

interface ObjectKind {
  readonly apiVersion: string | undefined;
  readonly kind: string;
}

interface ModuleScopes {
  readonly tree: Tree;
  /** The namespace of the release. */
  readonly namespace: string;
  readonly operatorNamespace: string;
}

/**
 * The rules that the account of a module needs, by namespace; those for cluster-wide kinds at `CLUSTER_SCOPE`. Objects
 * without a namespace are in `namespace`, that of the release.
 */
async function collectModuleRules(
  module: Module,
  { tree, namespace, operatorNamespace }: ModuleScopes,
  sources: PermissionSources,
): Promise<Map<string, RuleSet>> {
  const mapper = new RestMapper();
  const rulesByScope = new Map<string, RuleSet>();
  const rulesOf = (scope: string): RuleSet => {
    const rules = rulesByScope.get(scope) ?? new RuleSet(mapper);
    rulesByScope.set(scope, rules);
    return rules;
  };
  const add = ({ apiVersion, kind }: ObjectKind, verbs: readonly string[], objectScope = namespace): void =>
    rulesOf(mapper.isClusterWide(kind) ? CLUSTER_SCOPE : objectScope).addVerbs(apiVersion, kind, verbs);
  mapper.addCrdFiles(module.crdFiles);
  if (module.crdFiles.length > 0) add({ apiVersion: CRDS, kind: "CustomResourceDefinition" }, WRITE_VERBS);
  const hooks = await loadHooks(module.hookFiles, sources, module.name);
  for (const { scope, ...kind } of hooks.flatMap(listWatchedKinds)) add(kind, READ_VERBS, scope);
  const objectRules = listObjectRules(module, operatorNamespace, mapper);
  for (const [scope, rule] of [...hooks.flatMap(listWebhookRules), ...objectRules])
    rulesOf(scope).addRule(rule);
  // helm stores release records in Secrets.
  if (module.chart !== "none") add({ apiVersion: "v1", kind: "Secret" }, WRITE_VERBS);
  const objects = await renderObjects(module, tree, sources);
  mapper.addCrds(objects);
  const scopeOf = ({ kind, metadata }: JsonObject): string =>
    mapper.isClusterWide(asString(kind) ?? "")
      ? CLUSTER_SCOPE
      : (asString(objectOf(metadata)["namespace"]) ?? namespace);
  for (const object of objects) {
    const { apiVersion, kind } = object;
    if (typeof apiVersion !== "string" || typeof kind !== "string") continue;
    rulesOf(scopeOf(object)).addVerbs(apiVersion, kind, WRITE_VERBS);
    if (isRole(object)) addRoleRules(rulesOf(scopeOf(object)), object);
  }
  addBindPermissions(objects, (binding) => rulesOf(scopeOf(binding)));
  return rulesByScope;
}

/** The kinds that a hook's kubernetes bindings watch, each with the namespace of the objects, or `CLUSTER_SCOPE` for all namespaces. */
function listWatchedKinds({ config }: Hook): (ObjectKind & { readonly scope: string })[] {
  return config.bindings.kubernetes.flatMap(({ apiVersion, kind, namespaces, namespaceLabels }) => {
    if (namespaceLabels === undefined)
      return (namespaces ?? [CLUSTER_SCOPE]).map((scope) => ({ apiVersion, kind, scope }));
    // Which namespaces have the labels is known only in the cluster.
    const namespace = { apiVersion: "v1", kind: "Namespace", scope: CLUSTER_SCOPE };
    return [namespace, { apiVersion, kind, scope: CLUSTER_SCOPE }];
  });
}

/** The rules without which the operator does not register the webhooks of a hook, each with its namespace or `CLUSTER_SCOPE`. */
function listWebhookRules(hook: Hook): [scope: string, rule: JsonObject][] {
  const isForbidden = findForbiddenWebhooks([hook], () => ({ isUnlimited: false })).length > 0;
  if (isForbidden) return [];
  const byKind = Map.groupBy(listPermissions(hook), (permission) =>
    JSON.stringify({ ...permission, verb: undefined }),
  );
  return [...byKind.values()].flatMap((permissions) => {
    const [first] = permissions;
    if (first === undefined) return [];
    const { group, resource, subresource, namespace } = first;
    const resources = [subresource === undefined ? resource : `${resource}/${subresource}`];
    const verbs = permissions.map(({ verb }) => verb).sort();
    return [[namespace || CLUSTER_SCOPE, { apiGroups: [group], resources, verbs }]];
  });
}

/** The rules without which the operator reads neither `requires.objects` nor `valuesFrom`, each with its namespace or `CLUSTER_SCOPE`. */
function listObjectRules(
  { requires, valuesFrom = [] }: Module,
  defaultNamespace: string,
  mapper: RestMapper,
): [scope: string, rule: JsonObject][] {
  const sources = valuesFrom.map((source) => ({ ...source, apiVersion: "v1" }));
  return [...(requires?.objects ?? []), ...sources].map(
    ({ apiVersion, kind, name, namespace = defaultNamespace }) => {
      const { group, plural } = mapper.resolve(kind, apiVersion);
      const rule = { apiGroups: [group], resources: [plural], resourceNames: [name], verbs: ["get"] };
      return [mapper.isClusterWide(kind) ? CLUSTER_SCOPE : namespace, rule];
    },
  );
}

/** The role with these rules and its binding, in a namespace or for the cluster. */
function buildRole(
  name: string,
  { account, scope }: { readonly account: Account; readonly scope: string },
  rules: RuleSet,
): JsonObject[] {
  const isClusterRole = scope === CLUSTER_SCOPE;
  const kind = isClusterRole ? "ClusterRole" : "Role";
  const metadata = isClusterRole ? { name: `${account.namespace}-${name}` } : { name, namespace: scope };
  const apiVersion = `${RBAC_GROUP}/v1`;
  const roleRef = { apiGroup: RBAC_GROUP, kind, name: metadata.name };
  const subjects = [{ kind: "ServiceAccount", name: account.name, namespace: account.namespace }];
  return [
    { apiVersion, kind, metadata, rules: rules.build() },
    { apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects },
  ];
}
