/** The ServiceAccounts, roles and bindings of modules that `lint --rbac --role` prints. */

import { listManifestObjects, parseDocuments } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import { oneLine } from "../lib/index.ts";
import { resolveAccount, objectOf, asString } from "../model/index.ts";
import type { Account, Hook, JsonObject, Module, Problem, Tree } from "../model/index.ts";
import type { OfflineCharts } from "./charts.ts";
import { READ_VERBS, RestMapper, RuleSet, WRITE_VERBS } from "./rbac.ts";

const GROUP = "rbac.authorization.k8s.io";
/** The key of cluster-wide rules, beside the names of namespaces. */
const CLUSTER_SCOPE = "";

const CRDS = "apiextensions.k8s.io/v1";

interface ObjectKind {
  readonly apiVersion: string | undefined;
  readonly kind: string;
}

interface RoleSources {
  readonly loader: HookLoader;
  readonly charts: OfflineCharts;
  /** Namespace of releases whose module names none. */
  readonly namespace: string;
}

/**
 * The ServiceAccounts, roles and bindings for modules with `serviceAccountName`: permissions for the objects of kubernetes
 * bindings and charts, and for helm's release Secrets. Object patches and requests of hooks are unknown. Hooks and charts that
 * cannot be read become problems.
 */
export async function collectRoles(
  trees: readonly Tree[],
  sources: RoleSources,
): Promise<{ objects: JsonObject[]; problems: Problem[] }> {
  const objects: JsonObject[] = [];
  const problems: Problem[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) {
      if (module.serviceAccountName === undefined) continue;
      const permissions = await ModulePermissions.collect(module, tree, { ...sources, problems });
      objects.push(...permissions.objects(resolveAccount(module.serviceAccountName, permissions.namespace)));
    }
  }
  return { objects, problems };
}

/** The permissions that one module needs, by namespace. */
class ModulePermissions {
  readonly namespace: string;
  readonly #module: Module;
  readonly #mapper = new RestMapper();
  readonly #rulesByNamespace = new Map<string, RuleSet>();

  private constructor(module: Module, namespace: string) {
    this.#module = module;
    this.namespace = module.namespace ?? namespace;
  }

  /** Collects the permissions for the CRDs, hooks and chart of a module. */
  static async collect(
    module: Module,
    tree: Tree,
    { loader, charts, namespace, problems }: RoleSources & { readonly problems: Problem[] },
  ): Promise<ModulePermissions> {
    const permissions = new ModulePermissions(module, namespace);
    await permissions.#mapper.addCrdFiles(module.crdFiles);
    if (module.crdFiles.length > 0)
      permissions.#addRule({ apiVersion: CRDS, kind: "CustomResourceDefinition" }, WRITE_VERBS);
    for (const file of module.hookFiles) {
      const loaded = await loader.load(file, module.name);
      if ("problem" in loaded) problems.push(loaded.problem);
      else for (const hook of loaded.hooks) permissions.#addHook(hook);
    }
    if (module.chart !== "none") await permissions.#addChart(tree, charts, problems);
    return permissions;
  }

  /** Adds the permissions for the chart's objects and for helm's release records. */
  async #addChart(tree: Tree, charts: OfflineCharts, problems: Problem[]): Promise<void> {
    const module = this.#module;
    // Helm stores release records in Secrets.
    this.#addRule({ apiVersion: "v1", kind: "Secret" }, WRITE_VERBS);
    try {
      const manifest = await charts.render(module, tree, { includeCrds: true });
      const objects = listManifestObjects(parseDocuments(manifest));
      this.#mapper.addCrds(objects);
      for (const { apiVersion, kind, metadata } of objects)
        if (typeof apiVersion === "string" && typeof kind === "string")
          this.#addRule({ apiVersion, kind }, WRITE_VERBS, asString(objectOf(metadata)["namespace"]));
    } catch (error) {
      problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
    }
  }

  /** Adds the permissions to watch the objects of the hook's kubernetes bindings, in their namespaces. */
  #addHook({ config }: Hook): void {
    for (const { apiVersion, kind, namespaces, namespaceLabels } of config.bindings.kubernetes) {
      if (namespaceLabels !== undefined) this.#addRule({ apiVersion: "v1", kind: "Namespace" }, READ_VERBS);
      // Which namespaces have the labels is known only in the cluster.
      const scopes = namespaceLabels === undefined ? (namespaces ?? [CLUSTER_SCOPE]) : [CLUSTER_SCOPE];
      for (const scope of scopes) this.#addRule({ apiVersion, kind }, READ_VERBS, scope);
    }
  }

  /** Adds verbs for a kind in a namespace; for a cluster-wide kind, in the cluster. */
  #addRule({ apiVersion, kind }: ObjectKind, verbs: readonly string[], namespace = this.namespace): void {
    const scope = this.#mapper.isClusterWide(kind) ? CLUSTER_SCOPE : namespace;
    const rules = this.#rulesByNamespace.get(scope) ?? new RuleSet(this.#mapper);
    this.#rulesByNamespace.set(scope, rules);
    rules.addVerbs(apiVersion, kind, verbs);
  }

  /** The account, and a role and a binding for each namespace and for the cluster. */
  objects(account: Account): JsonObject[] {
    const metadata = { name: account.name, namespace: account.namespace };
    const roles = [...this.#rulesByNamespace].flatMap(([scope, rules]) =>
      this.#buildRole(account, scope, rules),
    );
    return [{ apiVersion: "v1", kind: "ServiceAccount", metadata }, ...roles];
  }

  /** The role and its binding for a namespace, or for the cluster. */
  #buildRole(account: Account, scope: string, rules: RuleSet): JsonObject[] {
    const prefix = scope === CLUSTER_SCOPE ? "Cluster" : "";
    const name = `${this.#module.name}-${account.name}`;
    const metadata =
      scope === CLUSTER_SCOPE ? { name: `${account.namespace}-${name}` } : { name, namespace: scope };
    const apiVersion = `${GROUP}/v1`;
    const roleRef = { apiGroup: GROUP, kind: `${prefix}Role`, name: metadata.name };
    const subjects = [{ kind: "ServiceAccount", name: account.name, namespace: account.namespace }];
    return [
      { apiVersion, kind: `${prefix}Role`, metadata, rules: rules.build() },
      { apiVersion, kind: `${prefix}RoleBinding`, metadata, roleRef, subjects },
    ];
  }
}
