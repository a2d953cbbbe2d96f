/** The sub-command `lint`. */

import type { Environment, Settings } from "../config.ts";
import type { HookKind } from "../bindings/index.ts";
import { HookLoader, lintHook, type AskOptions } from "../hooks/index.ts";
import { toYaml, type Scope } from "../lib/index.ts";
import { collect, describeProblem } from "../model/index.ts";
import type { HookFile, Module, Problem, SchemaFiles, Tree } from "../model/index.ts";
import { asProblem, ChartArchives, layoutProblems } from "../modules/index.ts";
import { compileSchemas } from "../values/index.ts";
import { readLintDir, type LintDir } from "./lint-dirs.ts";
import { lintChart } from "./lint-charts.ts";
import { lintRequirements } from "./lint-requirements.ts";
import { askOptions, scoped, type Printed } from "./surroundings.ts";
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
    const archives = archivesIn(settings, scope);
    const missing = charts.missing();
    const whole: Module[] = [];
    for (const dir of request.dirs) {
      const lint = await readLintDir(dir, archives);
      await lintOne(lint, options, found);
      // Of a module alone it is not known what is beside it.
      if (lint.only === undefined) whole.push(...lint.tree.modules);
      for (const module of missing === undefined ? lint.tree.modules : [])
        if (module.problem === undefined)
          found.problems.push(...(await lintChart(module, lint.tree, charts)));
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
    const archives = archivesIn(settings, scope);
    for (const dir of request.dirs) trees.push((await readLintDir(dir, archives)).tree);
    const { rules, problems } = await rulesOf(trees, loader, await chartsOf(request, settings, env));
    const comments = problems.map((problem) => `# not covered: ${describeProblem(problem)}\n`);
    return { text: `${comments.join("")}${toYaml({ rules })}`, code: problems.length > 0 ? 1 : 0 };
  });
}

async function chartsOf(
  { values }: LintRequest,
  settings: Settings,
  env: Environment,
): Promise<OfflineCharts> {
  return new OfflineCharts(settings, env, values === undefined ? {} : await readConfigValues(values));
}

/** Where charts that are archives are unpacked while a sub-command runs. */
export function archivesIn(settings: Settings, scope: Scope): ChartArchives {
  return scope.own(new ChartArchives(settings.tmpDir));
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
  lintSchemas(tree.globalSchemas, found);
  const lintHooks = async (files: readonly HookFile[], kind: HookKind): Promise<void> => {
    for (const file of files) {
      const { problems, warnings } = await lintHook(file, kind, options);
      found.problems.push(...problems);
      found.warnings.push(...warnings);
    }
  };
  await lintHooks(tree.globalHookFiles, "global");
  for (const module of tree.modules) {
    lintSchemas(module.schemas, found);
    await lintHooks(module.hookFiles, "module");
  }
}

function lintSchemas(files: SchemaFiles, found: Findings): void {
  const warnings = collect(found.problems, () => compileSchemas(files))?.warnings ?? [];
  const file = files.values?.file ?? files.config?.file ?? "";
  found.warnings.push(...warnings.map((text) => asProblem(file, text)));
}
