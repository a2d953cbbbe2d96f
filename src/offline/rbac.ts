/** The rules that `lint --rbac` prints. */

import { makesPods } from "../health/index.ts";
import { bodiesOf, documentsOf } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import { oneLine } from "../lib/index.ts";
import { isJsonObject, objectOf, textOf } from "../model/index.ts";
import type { Hook, Json, JsonObject, Module, Problem, Tree } from "../model/index.ts";
import type { OfflineCharts } from "./charts.ts";
import { RestMapper } from "./rest-mapper.ts";

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
  else addBindings(needs, answer.hook);
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
  if (makesPods(apiVersion, kind)) needs.add("v1", "Pod", WATCHED);
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
