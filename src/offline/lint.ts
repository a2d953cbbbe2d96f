/** The sub-command `lint`, and what it finds wrong with charts and with what modules require. */

import { join } from "node:path";

import type { Environment, Settings } from "../config.ts";
import { HookLoader, lintHook, type AskOptions } from "../hooks/index.ts";
import { inRange, toYaml } from "../lib/index.ts";
import { collect, describeProblem, ProblemError } from "../model/index.ts";
import type { HookFile, Module, Problem, SchemaFiles, Tree } from "../model/index.ts";
import { asProblem, layoutProblems, addonFileIn } from "../modules/index.ts";
import { compileSchemas } from "../values/index.ts";
import { crdFaults, crdsInForce, HelmError, LARGEST_RECORD } from "../helm/index.ts";
import { manifestFaults, readsEnabledModules, recordSize, unreadKeys } from "../helm/index.ts";
import { preceding, requirementCycle } from "../plan/index.ts";
import { readTermsOf, askOptions, readLintDir, scoped, type LintDir, type Printed } from "./surroundings.ts";
import { OfflineCharts, readConfigValues } from "./charts.ts";
import { rulesOf } from "./rbac.ts";

interface Findings {
  readonly problems: Problem[];
  readonly warnings: Problem[];
}

/** What `lint` has to check. */
export interface LintRequest {
  readonly dirs: readonly string[];
  /** A file in place of the ConfigMap: `global` and sections of modules. */
  readonly values: string | undefined;
  /** Of the API server; helm's own default where it is not given. */
  readonly kubeVersion?: string | undefined;
}

/**
 * Checks layout, values files, charts, schemas, hooks with their crontabs and filters, without a cluster. One line for
 * each finding; exit code 1 when one of them is more than a warning.
 */
export function lintDirs(request: LintRequest, settings: Settings, env: Environment): Promise<Printed> {
  return scoped(async (scope) => {
    const options = askOptions(settings, env, scope);
    const found: Findings = { problems: [], warnings: [] };
    const charts = await chartsOf(request, settings, env);
    const terms = readTermsOf(settings, scope);
    const missing = charts.missing();
    const whole: Module[] = [];
    for (const dir of request.dirs) {
      const lint = await readLintDir(dir, terms);
      await lintOne(lint, options, found);
      // Of a module alone it is not known what is beside it.
      if (lint.only === undefined) whole.push(...lint.tree.modules);
      for (const module of lint.tree.modules)
        if (module.problem === undefined) await lintFiles(module, lint.tree, { charts, found });
    }
    found.problems.push(...lintRequirements(whole));
    if (missing !== undefined)
      found.warnings.push({ ...missing, message: `charts are not rendered: ${missing.message}` });
    const lines = [
      ...found.problems.map(describeProblem),
      ...found.warnings.map((warning) => `warning: ${describeProblem(warning)}`),
    ];
    return { text: lines.map((line) => `${line}\n`).join(""), code: found.problems.length > 0 ? 1 : 0 };
  });
}

/** The rules that the operator's ServiceAccount needs for these modules and hooks, as YAML. */
export function rbacOf(request: LintRequest, settings: Settings, env: Environment): Promise<Printed> {
  return scoped(async (scope) => {
    const loader = new HookLoader(askOptions(settings, env, scope));
    const trees: Tree[] = [];
    const terms = readTermsOf(settings, scope);
    for (const dir of request.dirs) trees.push((await readLintDir(dir, terms)).tree);
    const { rules, problems } = await rulesOf(trees, loader, await chartsOf(request, settings, env));
    const comments = problems.map((problem) => `# not covered: ${describeProblem(problem)}\n`);
    return { text: `${comments.join("")}${toYaml({ rules })}`, code: problems.length > 0 ? 1 : 0 };
  });
}

async function chartsOf(
  { values, kubeVersion }: LintRequest,
  settings: Settings,
  env: Environment,
): Promise<OfflineCharts> {
  const config = values === undefined ? {} : await readConfigValues(values);
  return new OfflineCharts(settings, env, { config, kubeVersion });
}

async function lintOne(lint: LintDir, options: AskOptions, found: Findings): Promise<void> {
  const { tree, modulesDir, only } = lint;
  if (modulesDir !== undefined) {
    const problems = layoutProblems(tree, modulesDir);
    found.problems.push(...problems.filter(({ file }) => only === undefined || file.startsWith(only)));
  } else {
    found.problems.push(...tree.problems);
    found.warnings.push(...tree.warnings.map((text) => asProblem(lint.dir, text)));
  }
  found.warnings.push(...(tree.idleFiles ?? []).map((text) => asProblem(lint.dir, text)));
  lintSchemas(tree.globalSchemas, found);
  const lintHooks = async (files: readonly HookFile[], module?: string): Promise<void> => {
    for (const file of files) {
      const { problems, warnings } = await lintHook(file, module, options);
      found.problems.push(...problems);
      found.warnings.push(...warnings);
    }
  };
  await lintHooks(tree.globalHookFiles);
  for (const module of tree.modules) {
    lintSchemas(module.schemas, found);
    const mild = [...(module.deprecations ?? []), ...(module.idleFiles ?? [])];
    found.warnings.push(...mild.map((text) => asProblem(module.dir, text)));
    await lintHooks(module.hookFiles, module.name);
  }
}

function lintSchemas(files: SchemaFiles, found: Findings): void {
  const warnings = collect(found.problems, () => compileSchemas(files))?.warnings ?? [];
  const file = files.values?.file ?? files.config?.file ?? "";
  found.warnings.push(...warnings.map((text) => asProblem(file, text)));
}

/**
 * What would make a module Invalid although its layout is in order, or its chart useless: values that its schema does
 * not allow, CRDs that are none, values that nothing reads, what helm refuses, what any API server would refuse.
 */
async function lintFiles(
  module: Module,
  tree: Tree,
  { charts, found }: { readonly charts: OfflineCharts; readonly found: Findings },
): Promise<void> {
  const { problems, warnings } = found;
  const values = collect(problems, () => charts.valuesOf(module, tree));
  if (values === undefined) return;
  const crds = crdFaults(crdsInForce(module, () => values));
  problems.push(...crds.problems);
  warnings.push(...crds.warnings);
  if (module.chart === "none" || charts.missing() !== undefined) return;
  collect(problems, () => problems.push(...lintLevels(module)));
  warnings.push(...lintModulesList(module, charts));
  problems.push(...(await lintManifest(module, tree, charts)));
}

/** A chart that reads the list of enabled modules without getting it. */
function lintModulesList(module: Module, charts: OfflineCharts): Problem[] {
  // What is wrong with the files themselves is found where the chart is rendered.
  const isRead = collect([], () => readsEnabledModules(module)) ?? false;
  if (charts.givesModules || !isRead) return [];
  const message = "its chart reads global.enabledModules, which charts do not get";
  return [{ file: module.dir, message, remedy: "set --chart-enabled-modules here and for the operator" }];
}

function lintLevels(module: Module): Problem[] {
  return unreadKeys(module).map((key) => ({
    file: join(module.dir, "values.yaml"),
    key,
    message: "nothing reads it",
    remedy: `values of the module stand under ${module.valuesKey}, those of a sub-chart under its name or alias`,
  }));
}

async function lintManifest(module: Module, tree: Tree, charts: OfflineCharts): Promise<Problem[]> {
  try {
    const manifest = await charts.render(module, tree);
    const faults = manifestFaults(manifest).map((message) => ({
      file: module.dir,
      message: `renders ${message}`,
    }));
    return [...faults, ...lintSize(module, manifest)];
  } catch (error) {
    if (error instanceof ProblemError) return [...error.problems];
    if (error instanceof HelmError) return [refused(module, error)];
    throw error;
  }
}

function lintSize(module: Module, manifest: string): Problem[] {
  const size = recordSize(module, manifest);
  if (size <= LARGEST_RECORD) return [];
  const hasCrds = module.crdFiles.length > 0 || manifest.includes("kind: CustomResourceDefinition");
  const mebibytes = (size / LARGEST_RECORD).toFixed(1);
  return [
    {
      file: module.dir,
      message: `helm's record of it would take ${mebibytes} MiB, and a Secret holds 1 MiB`,
      remedy: hasCrds
        ? `take large CRDs out of the chart into ${join(module.dir, "crds")}`
        : "name in .helmignore what no template reads, or split the chart",
    },
  ];
}

function refused({ dir, name }: Module, error: HelmError): Problem {
  const message = error.message.replace(`helm template ${name}: `, "");
  return {
    file: dir,
    message: `cannot be rendered: ${message}`,
    remedy: "mend the chart; what the ConfigMap or hooks give can be given by --values FILE",
  };
}

/** Names of modules that there are none of, versions that no module here has, and circles. */
function lintRequirements(modules: readonly Module[]): Problem[] {
  const byName = new Map(modules.map((module) => [module.name, module]));
  return [...modules.flatMap((module) => unmeetable(module, byName)), ...cycles(modules)];
}

function unmeetable(module: Module, byName: ReadonlyMap<string, Module>): Problem[] {
  const ranges = Object.entries(module.requires?.modules ?? {});
  return [
    ...ranges.flatMap(([name, range]) => {
      const message = faultOf(byName.get(name), range);
      return message === undefined ? [] : [problem(module, `requires.modules.${name}`, message)];
    }),
    ...(module.after ?? []).flatMap((name, place) =>
      byName.has(name) ? [] : [problem(module, `after.${place}`, `${name} is no module here`)],
    ),
  ];
}

function faultOf(found: Module | undefined, range: string): string | undefined {
  if (found === undefined) return "is no module here";
  if (found.problem !== undefined || inRange(found.chartVersion, range)) return undefined;
  const has = found.chartVersion === undefined ? "has no version" : `has version ${found.chartVersion}`;
  return `${has}, which is not in ${range}`;
}

function problem(module: Module, key: string, message: string): Problem {
  const remedy = "correct it, or name all modules directories";
  return { file: addonFileIn(module.dir), key, message, remedy };
}

/** Each circle once, told of the first module in it. */
function cycles(modules: readonly Module[]): Problem[] {
  const told = new Set<string>();
  return modules.flatMap((module) => {
    const cycle = told.has(module.name) ? undefined : requirementCycle({ modules }, module.name, preceding);
    if (cycle === undefined) return [];
    for (const name of cycle) told.add(name);
    const message = `requires itself, or comes before itself: ${cycle.join(" → ")}`;
    const remedy = "take one of them out of requires or after";
    return [{ file: addonFileIn(module.dir), message, remedy }];
  });
}
