/**
 * Checks new content of a module with the values in force, before it replaces what runs: values, requirements, the configuration
 * of hooks, CRDs, and the chart. Of the module's code, it only runs hooks with `--config`, as the operator does.
 */

import { mkdtemp, rm, symlink } from "node:fs/promises";
import { join } from "node:path";

import { findFileProblems, isChartFault } from "../../helm/index.ts";
import { isInRange, oneLine, releaseNumbersOf } from "../../base/index.ts";
import {
  collect,
  describeProblem,
  type Hook,
  type Module,
  type Problem,
  type Tree,
} from "../../base/model/index.ts";
import { findCycleProblem } from "../../engine/plan/index.ts";
import { findDuplicateWebhooks } from "../../engine/tasks/index.ts";
import {
  buildHelmInput,
  checkConfig,
  compileSchemas,
  explainInvalidValues,
  ValuesStore,
} from "../../values/index.ts";
import type { SourcesContext } from "../context.ts";
import { toLinkName } from "../disk/module-links.ts";

/** Longest time to render a chart before it is used. */
const RENDER_TIMEOUT_MS = 60_000;

/** Unpacked content of a module, which is checked before it is used. */
interface NewContent {
  readonly name: string;
  readonly order: number | undefined;
  readonly dir: string;
}

/** Why the content must not replace what runs, in one line; undefined if nothing is wrong. */
export async function describeContentProblem(
  context: SourcesContext,
  content: NewContent,
): Promise<string | undefined> {
  const parent = await mkdtemp(join(context.blobStore.scratchDir, "check-"));
  try {
    // Reads the content as the one module of a modules directory.
    await symlink(content.dir, join(parent, toLinkName(content)));
    const tree = await context.options.reader.readModulesDir(parent);
    const module = tree.modules.find(({ name }) => name === content.name);
    const problem =
      module === undefined
        ? { file: content.name, message: "is no module", remedy: "correct its files" }
        : (module.problem ?? (await findModuleProblem(context, module)));
    return problem === undefined ? undefined : describeProblem(problem).replaceAll(`${parent}/`, "");
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
}

/** Finds the first problem of the new content: its schemas, a cycle of requirements, its requirements, or the values in force. */
async function findModuleProblem(context: SourcesContext, module: Module): Promise<Problem | undefined> {
  const problems: Problem[] = [];
  collect(problems, () => compileSchemas(module.schemas));
  if (problems.length > 0) return problems[0];
  const { tree } = context.options.state;
  const running = tree.modules.find(({ name }) => name === module.name);
  // `common` comes from the `values.yaml` of the modules directory, which the directory of this check does not have.
  const candidate = running === undefined ? module : { ...module, common: running.common };
  const others = tree.modules.filter((each) => each !== running);
  const next: Tree = { ...tree, modules: [...others, candidate] };
  const values = buildValues(context, next);
  return (
    findCycleProblem(next, module.name) ??
    (await findRequirementProblem(context, module)) ??
    findValuesProblem(context, candidate, values) ??
    (await findHookProblem(context, candidate)) ??
    (await findFileProblem(candidate, values)) ??
    (await findChartProblem(context, candidate, values))
  );
}

/** Builds the values in force with the new content; undefined while the operator has not read its ConfigMap. */
function buildValues({ options: { state } }: SourcesContext, tree: Tree): ValuesStore | undefined {
  const { config, overlay } = state.values;
  if (config === undefined) return undefined;
  const values = new ValuesStore();
  values.setTree(tree);
  values.setConfig(config, overlay);
  return values;
}

/** Finds the first problem of CRDs and values.yaml, as `lint` does. */
async function findFileProblem(
  module: Module,
  values: ValuesStore | undefined,
): Promise<Problem | undefined> {
  if (values === undefined) return undefined;
  const { problems } = await findFileProblems(module, buildHelmInput(values, module).values);
  return problems[0];
}

/** Finds the first hook whose configuration is invalid, or that declares the webhook of another hook of the module. */
async function findHookProblem(
  { options }: SourcesContext,
  { name, hookFiles }: Module,
): Promise<Problem | undefined> {
  const hooks: Hook[] = [];
  for (const file of hookFiles) {
    const loaded = await options.loadHook(file, name);
    if ("problem" in loaded) return loaded.problem;
    hooks.push(...loaded.hooks);
  }
  return findDuplicateWebhooks(hooks, [])[0];
}

/** Finds a fault of the chart itself. Other errors are none of the content: values that hooks set are missing here, and the API server may be away. */
async function findChartProblem(
  { options }: SourcesContext,
  module: Module,
  values: ValuesStore | undefined,
): Promise<Problem | undefined> {
  if (values === undefined || module.chart === "none") return undefined;
  try {
    const signal = AbortSignal.timeout(RENDER_TIMEOUT_MS);
    await options.releases.renderManifests({ ...buildHelmInput(values, module), signal }, false);
  } catch (error) {
    if (isChartFault(error)) return { file: module.name, key: "chart", message: oneLine(error, 1000) };
  }
  return undefined;
}

/**
 * Finds the first value in force (of the operator's ConfigMap and its overlay) that the schemas of the new content refuse. A
 * disabled module is not checked.
 */
function findValuesProblem(
  { options: { state, configMap } }: SourcesContext,
  module: Module,
  values: ValuesStore | undefined,
): Problem | undefined {
  const { config, overlay } = state.values;
  if (config === undefined || values?.flag(module).enabled !== true) return undefined;
  // Keys are such as `web/replicas`.
  const isOfModule = ({ key = "" }: Problem): boolean => key.split("/")[0] === module.valuesKey;
  return (
    checkConfig(values, { name: configMap, config, overlay }).find(isOfModule) ??
    explainInvalidValues(values, module)
  );
}

/** Finds a requirement of the content that is not satisfied. A first installation may still wait for modules that it requires. */
async function findRequirementProblem(
  { options: { state, serverVersion }, lock }: SourcesContext,
  { name, requires = {} }: Module,
): Promise<Problem | undefined> {
  const { kubernetes, modules = {} } = requires;
  const problem = (key: string, message: string): Problem => ({ file: name, key, message });
  if (kubernetes !== undefined) {
    const version = await serverVersion();
    if (!isInRange(releaseNumbersOf(version), kubernetes))
      return problem("requires.kubernetes", `requires Kubernetes ${kubernetes}, and this is ${version}`);
  }
  const isFirstInstallation = !lock.entries.has(name);
  if (isFirstInstallation) return undefined;
  for (const [other, range] of Object.entries(modules)) {
    const found = state.tree.modules.find((each) => each.name === other);
    const key = `requires.modules.${other}`;
    if (found === undefined) return problem(key, "requires a module that does not exist");
    if (!isInRange(found.chartVersion, range))
      return problem(key, `requires ${range}, and its version is ${found.chartVersion ?? "unknown"}`);
  }
  return undefined;
}
