import type { Environment, Settings } from "../config.ts";
import { Helm, documentsOf, renderOffline } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import { oneLine, silentLogger, systemClock } from "../lib/index.ts";
import { isJsonObject } from "../model/index.ts";
import type { Hook, Json, Module, Problem, Tree } from "../model/index.ts";
import { compileSchemas, effective } from "../values/index.ts";
import { hookEnvironment } from "./base.ts";
import { Kinds } from "./rbac-kinds.ts";

/** How charts are rendered. */
interface Means {
  readonly settings: Settings;
  readonly env: Environment;
}

const WATCHED = ["get", "list", "watch"];
const MANAGED = ["create", "delete", "get", "list", "patch", "update", "watch"];

/**
 * RBAC rules for what the bindings of hooks watch and charts hold (with what their own roles grant, which the operator
 * must hold to create them). Object patches of hooks cannot be known. What could not be looked at is a problem.
 */
export async function rulesOf(
  trees: readonly Tree[],
  loader: HookLoader,
  means: Means,
): Promise<{ rules: Json[]; problems: Problem[] }> {
  const needs = new Needs();
  const problems: Problem[] = [];
  for (const tree of trees) {
    for (const module of tree.modules) await needs.kinds.learn(module.crdFiles);
    for (const file of tree.globalHookFiles) await addHook(needs, problems, () => loader.load(file));
    for (const module of tree.modules) {
      for (const file of module.hookFiles)
        await addHook(needs, problems, () => loader.load(file, module.name));
      await addChart(needs, problems, { module, tree, means });
    }
  }
  return { rules: needs.rules(), problems };
}

/** Verbs by group and resource, and rules taken over as they are. */
class Needs {
  readonly kinds = new Kinds();
  readonly #verbs = new Map<string, Set<string>>();
  readonly #granted = new Map<string, Json>();

  add(apiVersion: string | undefined, kind: string, verbs: readonly string[]): void {
    const { group, plural } = this.kinds.resolve(kind, apiVersion);
    const key = `${group}/${plural}`;
    this.#verbs.set(key, new Set([...(this.#verbs.get(key) ?? []), ...verbs]));
  }

  grant(rule: Json): void {
    this.#granted.set(JSON.stringify(rule), rule);
  }

  /** Resources of one group with the same verbs stand in one rule. */
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
  for (const binding of hook.config.kubernetes) {
    needs.add(binding.apiVersion, binding.kind, WATCHED);
    if (binding.namespaceLabels !== undefined) needs.add("v1", "Namespace", WATCHED);
  }
}

interface ChartOf {
  readonly module: Module;
  readonly tree: Tree;
  readonly means: Means;
}

async function addChart(needs: Needs, problems: Problem[], { module, tree, means }: ChartOf): Promise<void> {
  if (module.crdFiles.length > 0) needs.add("apiextensions.k8s.io/v1", "CustomResourceDefinition", MANAGED);
  if (module.chart === "none") return;
  try {
    const manifest = await renderOffline(toolsOf(means), {
      module,
      values: valuesOf(module, tree),
      signal: new AbortController().signal,
    });
    for (const document of documentsOf(manifest)) addObject(needs, document);
  } catch (error) {
    problems.push({ file: module.dir, message: `its chart could not be rendered: ${oneLine(error)}` });
  }
}

function toolsOf({ settings, env }: Means): Parameters<typeof renderOffline>[0] {
  const { tmpDir, helmBin: bin, helmTimeoutMs: timeoutMs, helmHistoryMax: historyMax } = settings;
  const helm = new Helm({
    bin,
    namespace: settings.namespace ?? "default",
    managedBy: "",
    timeoutMs,
    historyMax,
    validate: false,
    tmpDir,
    env: hookEnvironment(env),
    logger: silentLogger,
    clock: systemClock,
  });
  return { helm, tmpDir, clock: systemClock };
}

/** What files and schema defaults alone come to. */
function valuesOf(module: Module, tree: Tree): string {
  const global = effective({ schemas: compileSchemas(tree.globalSchemas), common: tree.globalValues });
  const { schemas, common, own } = module;
  const section = { common: common.section, own: own.section };
  const values = effective({ schemas: compileSchemas(schemas), ...section });
  return JSON.stringify({ global: global.helmValues, [module.valuesKey]: values.helmValues });
}

function addObject(needs: Needs, document: Json): void {
  if (!isJsonObject(document)) return;
  const { apiVersion, kind } = document;
  if (typeof apiVersion !== "string" || typeof kind !== "string") return;
  const items = document["items"];
  if (kind.endsWith("List") && Array.isArray(items)) return items.forEach((item) => addObject(needs, item));
  needs.add(apiVersion, kind, MANAGED);
  const isRole = apiVersion.startsWith("rbac.authorization.k8s.io/") && kind.endsWith("Role");
  const rules = isRole ? document["rules"] : undefined;
  if (Array.isArray(rules)) for (const rule of rules) needs.grant(rule);
}
