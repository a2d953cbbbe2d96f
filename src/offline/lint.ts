/** The sub-command `lint`: checks files, charts and requirements without a cluster. */

import { join } from "node:path";

import type { Environment, Settings } from "../config.ts";
import { HookLoader, lintHook, type HookQueryOptions } from "../hooks/index.ts";
import { inRange, toYaml } from "../lib/index.ts";
import { collect, describeProblem, ProblemError } from "../model/index.ts";
import type { Hook, HookFile, Module, Problem, SchemaFiles, Tree } from "../model/index.ts";
import { asProblem, layoutProblems, addonFileIn } from "../modules/index.ts";
import { compileSchemas } from "../values/index.ts";
import { crdProblems, crdsInForce, HelmError, LARGEST_RECORD } from "../helm/index.ts";
import { manifestProblems, readsEnabledModules, recordSize, unreadKeys } from "../helm/index.ts";
import { preceding, requirementCycle } from "../plan/index.ts";
import { findDuplicateWebhooks } from "../tasks/index.ts";
import type { Children } from "../process/index.ts";
import {
  readOptions,
  hookLoadOptions,
  readLintDir,
  withScope,
  type LintDir,
  type CommandResult,
} from "./shared.ts";
import { OfflineCharts, readConfigValues } from "./charts.ts";
import { rulesOf } from "./rbac.ts";
import { rolesOf } from "./roles.ts";

interface Findings {
  readonly problems: Problem[];
  readonly warnings: Problem[];
  /** Checks that are skipped because they need a cluster. */
  readonly notes: Problem[];
}

export interface LintRequest {
  readonly dirs: readonly string[];
  /** A file that replaces the ConfigMap: `global` and the sections of modules. */
  readonly values: string | undefined;
  /** Print roles of modules with a ServiceAccount, instead of the rules of the operator. */
  readonly roles?: boolean;
  /** The version of the API server; the default is helm's. */
  readonly kubeVersion?: string | undefined;
}

/**
 * Checks layout, values files, charts, schemas, and hooks with their crontabs and filters. Prints a line for each
 * finding; the exit code is 1 for errors, 0 for warnings and notes.
 */
export function lintDirs(request: LintRequest, settings: Settings, env: Environment): Promise<CommandResult> {
  return withScope(async (scope, children) => {
    const options = hookLoadOptions(settings, env, { scope, children });
    const found: Findings = { problems: [], warnings: [], notes: [] };
    const charts = await chartsOf(request, settings, { env, children });
    const terms = readOptions(settings, scope);
    const missing = charts.unavailable();
    const modulesOfWholeDirs: Module[] = [];
    for (const dir of request.dirs) {
      const lint = await readLintDir(dir, terms);
      await lintDir(lint, options, found);
      // The requirements of a single module cannot be checked: its neighbours are unknown.
      if (lint.only === undefined) modulesOfWholeDirs.push(...lint.tree.modules);
      for (const module of lint.tree.modules)
        if (module.problem === undefined) await lintModule(module, lint.tree, { charts, found });
    }
    found.problems.push(...lintRequirements(modulesOfWholeDirs));
    if (missing !== undefined)
      found.warnings.push({ ...missing, message: `charts are not rendered: ${missing.message}` });
    const lines = [
      ...found.problems.map(describeProblem),
      ...found.warnings.map((warning) => `warning: ${describeProblem(warning)}`),
      ...found.notes.map((note) => `note: ${describeProblem(note)}`),
    ];
    return { text: lines.map((line) => `${line}\n`).join(""), code: found.problems.length > 0 ? 1 : 0 };
  });
}

/** The rules that the operator's ServiceAccount needs for these modules and hooks, or the roles of modules, as YAML. */
export function printRbac(
  request: LintRequest,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  return withScope(async (scope, children) => {
    const loader = new HookLoader(hookLoadOptions(settings, env, { scope, children }));
    const trees: Tree[] = [];
    const terms = readOptions(settings, scope);
    for (const dir of request.dirs) trees.push((await readLintDir(dir, terms)).tree);
    const charts = await chartsOf(request, settings, { env, children });
    const namespace = settings.namespace ?? "addon-operator";
    const { problems, ...printed } =
      request.roles === true
        ? await rolesOf(trees, { loader, charts, namespace })
        : await rulesOf(trees, loader, charts);
    const comments = problems.map(
      (requirementProblem) => `# not covered: ${describeProblem(requirementProblem)}\n`,
    );
    return {
      text: `${comments.join("")}${"rules" in printed ? toYaml(printed) : printed.objects.map((each) => `---\n${toYaml(each)}`).join("")}`,
      code: problems.length > 0 ? 1 : 0,
    };
  });
}

async function chartsOf(
  { values, kubeVersion }: LintRequest,
  settings: Settings,
  around: { readonly env: Environment; readonly children: Children },
): Promise<OfflineCharts> {
  const config = values === undefined ? {} : await readConfigValues(values);
  return new OfflineCharts(settings, around, { config, kubeVersion });
}

/** Checks layout, schemas and hooks of one directory. Charts are checked by `lintModule`. */
async function lintDir(lint: LintDir, options: HookQueryOptions, found: Findings): Promise<void> {
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
  const all: Hook[] = [];
  const lintHooks = async (files: readonly HookFile[], module?: string): Promise<void> => {
    for (const file of files) {
      const { hooks, problems, warnings } = await lintHook(file, module, options);
      all.push(...hooks);
      found.problems.push(...problems);
      found.warnings.push(...warnings);
    }
  };
  await lintHooks(tree.globalHookFiles);
  for (const module of tree.modules) {
    lintSchemas(module.schemas, found);
    const warningTexts = [...(module.deprecations ?? []), ...(module.idleFiles ?? [])];
    found.warnings.push(...warningTexts.map((text) => asProblem(module.dir, text)));
    await lintHooks(module.hookFiles, module.name);
  }
  found.problems.push(...findDuplicateWebhooks(all, []));
}

function lintSchemas(files: SchemaFiles, found: Findings): void {
  const warnings = collect(found.problems, () => compileSchemas(files))?.warnings ?? [];
  const file = files.values?.file ?? files.config?.file ?? "";
  found.warnings.push(...warnings.map((text) => asProblem(file, text)));
}

/**
 * Finds problems of a module whose layout is valid: values that violate the schema, invalid CRDs, values that nothing
 * reads, and errors of helm or any API server.
 */
async function lintModule(
  module: Module,
  tree: Tree,
  { charts, found }: { readonly charts: OfflineCharts; readonly found: Findings },
): Promise<void> {
  const { problems, warnings } = found;
  const values = collect(problems, () => charts.valuesOf(module, tree));
  if (values === undefined) return;
  const crds = crdProblems(crdsInForce(module, () => values));
  problems.push(...crds.problems);
  warnings.push(...crds.warnings);
  if (module.chart === "none" || charts.unavailable() !== undefined) return;
  collect(problems, () => problems.push(...lintUnreadValues(module)));
  warnings.push(...lintModulesList(module, charts));
  await lintManifest(module, tree, { charts, found });
}

/** Warns about a chart that reads the list of enabled modules although charts do not get it. */
function lintModulesList(module: Module, charts: OfflineCharts): Problem[] {
  // Rendering the chart reports errors in its files.
  const isRead = collect([], () => readsEnabledModules(module)) ?? false;
  if (charts.passesModules || !isRead) return [];
  const message = "its chart reads global.enabledModules, which charts do not get";
  return [{ file: module.dir, message, remedy: "set --chart-enabled-modules here and for the operator" }];
}

function lintUnreadValues(module: Module): Problem[] {
  return unreadKeys(module).map((key) => ({
    file: join(module.dir, "values.yaml"),
    key,
    message: "nothing reads it",
    remedy: `put values of the module under ${module.valuesKey}, and values of a sub-chart under its name or alias`,
  }));
}

/** Renders the chart. An error is only a note if a hook supplies the missing values. */
async function lintManifest(
  module: Module,
  tree: Tree,
  { charts, found: { problems, notes } }: { readonly charts: OfflineCharts; readonly found: Findings },
): Promise<void> {
  try {
    const manifest = await charts.render(module, tree);
    const manifestErrors = manifestProblems(manifest).map((message) => ({
      file: module.dir,
      message: `renders ${message}`,
    }));
    problems.push(...manifestErrors, ...lintSize(module, manifest));
  } catch (error) {
    if (error instanceof ProblemError) problems.push(...error.problems);
    else if (error instanceof HelmError) {
      // A template that cannot be parsed is invalid for all values.
      const isParseError = error.message.includes("parse error at ");
      const missing = isParseError ? undefined : charts.missingFromHooks(module, tree);
      if (missing === undefined) problems.push(renderProblem(module, error));
      else notes.push(uncheckedNote(module, missing));
    } else throw error;
  }
}

function uncheckedNote({ dir }: Module, missing: string): Problem {
  return {
    file: dir,
    message: `its chart is not checked because a hook supplies values that it needs: ${missing}`,
  };
}

function lintSize(module: Module, manifest: string): Problem[] {
  const size = recordSize(module, manifest);
  if (size <= LARGEST_RECORD) return [];
  const hasCrds = module.crdFiles.length > 0 || manifest.includes("kind: CustomResourceDefinition");
  const mebibytes = (size / LARGEST_RECORD).toFixed(1);
  return [
    {
      file: module.dir,
      message: `helm's release record would have ${mebibytes} MiB, but a Secret has a limit of 1 MiB`,
      remedy: hasCrds
        ? `move large CRDs from the chart to ${join(module.dir, "crds")}`
        : "list files that no template reads in .helmignore, or split the chart",
    },
  ];
}

function renderProblem({ dir, name }: Module, error: HelmError): Problem {
  const message = error.message.replace(`helm template ${name}: `, "");
  return {
    file: dir,
    message: `cannot be rendered: ${message}`,
    remedy: "fix the chart; supply values of the ConfigMap or of hooks with --values FILE",
  };
}

/** Reports required modules and versions that do not exist, and cycles. */
function lintRequirements(modules: readonly Module[]): Problem[] {
  const byName = new Map(modules.map((module) => [module.name, module]));
  return [...modules.flatMap((module) => unmetRequirements(module, byName)), ...requirementCycles(modules)];
}

function unmetRequirements(module: Module, byName: ReadonlyMap<string, Module>): Problem[] {
  const ranges = Object.entries(module.requires?.modules ?? {});
  return [
    ...ranges.flatMap(([name, range]) => {
      const message = mismatchOf(byName.get(name), range);
      return message === undefined ? [] : [problem(module, `requires.modules.${name}`, message)];
    }),
    ...(module.after ?? []).flatMap((name, place) =>
      byName.has(name) ? [] : [problem(module, `after.${place}`, `module ${name} does not exist`)],
    ),
  ];
}

/** Why a module does not meet a required version range; undefined if it does. */
function mismatchOf(found: Module | undefined, range: string): string | undefined {
  if (found === undefined) return "module does not exist";
  if (found.problem !== undefined || inRange(found.chartVersion, range)) return undefined;
  const has = found.chartVersion === undefined ? "has no version" : `has version ${found.chartVersion}`;
  return `${has}, which is outside ${range}`;
}

function problem(module: Module, key: string, message: string): Problem {
  const remedy = "correct it, or pass all modules directories to lint";
  return { file: addonFileIn(module.dir), key, message, remedy };
}

/** Reports each cycle once, for its first module. */
function requirementCycles(modules: readonly Module[]): Problem[] {
  const reported = new Set<string>();
  return modules.flatMap((module) => {
    const cycle = reported.has(module.name)
      ? undefined
      : requirementCycle({ modules }, module.name, preceding);
    if (cycle === undefined) return [];
    for (const name of cycle) reported.add(name);
    const message = `requires itself, or comes before itself: ${cycle.join(" → ")}`;
    const remedy = "remove one of them from requires or after";
    return [{ file: addonFileIn(module.dir), message, remedy }];
  });
}
