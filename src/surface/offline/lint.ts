/** The sub-command `lint`: checks files, charts and requirements without a cluster. Each check adds to the findings `found`. */

import { join } from "node:path";

import type { Environment, Settings } from "../../config/settings/index.ts";
import { HookLoader, lintHook, type HookQueryOptions } from "../../hooks/index.ts";
import { isInRange, toYaml } from "../../base/index.ts";
import { collect, describeProblem, ProblemError } from "../../base/model/index.ts";
import type { Hook, HookFile, Module, Problem, SchemaFiles, Tree } from "../../base/model/index.ts";
import { warningToProblem, collectProblems, addonFilePath } from "../../modules/index.ts";
import { compileSchemas } from "../../values/index.ts";
import { findExcludedKubernetes, findFileProblems, findLaterDocuments, HelmError } from "../../helm/index.ts";
import {
  findRenderedProblems,
  findWrongSubCharts,
  isChartFault,
  readsEnabledModules,
} from "../../helm/index.ts";
import { getPrecedingModules, findCycle } from "../../engine/plan/index.ts";
import { findDuplicateWebhooks, findForbiddenWebhooks } from "../../engine/tasks/index.ts";
import {
  hookLoadOptions,
  readLintDir,
  withTools,
  type OfflineTools,
  type LintDir,
  type CommandResult,
} from "./shared.ts";
import { OfflineCharts, readValuesFile } from "./charts.ts";
import { collectRoles, collectRules } from "./rbac.ts";

interface Findings {
  readonly problems: Problem[];
  readonly warnings: Problem[];
  /** Checks that are skipped because they need a cluster. */
  readonly notes: Problem[];
}

export interface LintRequest {
  readonly dirs: readonly string[];
  /** A file that replaces the ConfigMap: `global` and the sections of modules. */
  readonly values?: string | undefined;
  /** Print roles of modules with a ServiceAccount, instead of the rules of the operator. */
  readonly role?: boolean;
  /** The version of the API server; the default is helm's. */
  readonly kubeVersion?: string | undefined;
}

/**
 * Checks layout, values files, charts, schemas, and hooks with their crontabs and filters. Prints a line for each
 * finding; the exit code is 1 for errors, 0 for warnings and notes.
 */
export function lintDirs(request: LintRequest, settings: Settings, env: Environment): Promise<CommandResult> {
  return withTools(settings, env, async (tools) => {
    const options = hookLoadOptions(tools);
    const found: Findings = { problems: [], warnings: [], notes: [] };
    const charts = await createCharts(request, tools);
    const modulesOfWholeDirs: Module[] = [];
    for (const dir of request.dirs) {
      const lintedDir = await readLintDir(dir, tools);
      await lintDir(lintedDir, options, found);
      // The requirements of a single module cannot be checked: its neighbours are unknown.
      if (lintedDir.onlyModuleDir === undefined) modulesOfWholeDirs.push(...lintedDir.tree.modules);
      for (const module of lintedDir.tree.modules)
        if (module.problem === undefined) await lintModule(module, lintedDir.tree, { charts, found });
    }
    const byName = new Map(modulesOfWholeDirs.map((module) => [module.name, module]));
    found.problems.push(
      ...modulesOfWholeDirs.flatMap((module) => findUnmetRequirements(module, byName)),
      ...findRequirementCycles(modulesOfWholeDirs),
    );
    const helmProblem = charts.findHelmProblem();
    if (helmProblem !== undefined)
      found.warnings.push({ ...helmProblem, message: `charts are not rendered: ${helmProblem.message}` });
    // Directories can contain each other, and what is in both is found twice.
    const lines = new Set([
      ...found.problems.map(describeProblem),
      ...found.warnings.map((warning) => `warning: ${describeProblem(warning)}`),
      ...found.notes.map((note) => `note: ${describeProblem(note)}`),
    ]);
    return { text: [...lines].map((line) => `${line}\n`).join(""), code: found.problems.length > 0 ? 1 : 0 };
  });
}

/** The rules that the operator's ServiceAccount needs for these modules and hooks, or the roles of modules, as YAML. */
export function printRbac(
  request: LintRequest,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  return withTools(settings, env, async (tools) => {
    const loader = new HookLoader(hookLoadOptions(tools));
    const trees: Tree[] = [];
    for (const dir of request.dirs) trees.push((await readLintDir(dir, tools)).tree);
    const charts = await createCharts(request, tools);
    const problems: Problem[] = [];
    const sources = { loader, charts, problems };
    const documents =
      request.role === true
        ? await collectRoles(trees, sources, settings.namespace ?? "addon-operator")
        : [{ rules: await collectRules(trees, sources) }];
    const separator = request.role === true ? "---\n" : "";
    const lines = [
      ...problems.map((problem) => `# not covered: ${describeProblem(problem)}\n`),
      ...documents.map((each) => `${separator}${toYaml(each)}`),
    ];
    return { text: lines.join(""), code: problems.length > 0 ? 1 : 0 };
  });
}

/** Prepares the rendering of charts with the values and the Kubernetes version of the request. */
async function createCharts(
  { values, kubeVersion }: LintRequest,
  tools: OfflineTools,
): Promise<OfflineCharts> {
  return new OfflineCharts(tools, { config: await readValuesFile(values), kubeVersion });
}

/** Checks layout, schemas and hooks of one directory, of modules or global hooks. Charts are checked by `lintModule`. */
async function lintDir(dir: LintDir, options: HookQueryOptions, found: Findings): Promise<void> {
  const { tree, modulesDir, onlyModuleDir } = dir;
  const isGlobalHooksDir = modulesDir === undefined;
  if (isGlobalHooksDir) {
    found.problems.push(...tree.problems);
    found.warnings.push(...tree.warnings.map((text) => warningToProblem(dir.dir, text)));
  } else {
    const isInScope = ({ file }: Problem): boolean =>
      onlyModuleDir === undefined || file.startsWith(onlyModuleDir);
    found.problems.push(...collectProblems(tree, modulesDir).filter(isInScope));
  }
  found.warnings.push(...(tree.notExecutableWarnings ?? []).map((text) => warningToProblem(dir.dir, text)));
  lintSchemas(tree.globalSchemas, found);
  const allHooks: Hook[] = [];
  const lintHooks = async (files: readonly HookFile[], module?: string): Promise<void> => {
    for (const file of files) {
      const { hooks, problems, warnings } = await lintHook(file, module, options);
      allHooks.push(...hooks);
      found.problems.push(...problems);
      found.warnings.push(...warnings);
    }
  };
  await lintHooks(tree.globalHookFiles);
  for (const module of tree.modules) {
    lintSchemas(module.schemas, found);
    const warningTexts = [...(module.deprecations ?? []), ...(module.notExecutableWarnings ?? [])];
    found.warnings.push(...warningTexts.map((text) => warningToProblem(module.dir, text)));
    await lintHooks(module.hookFiles, module.name);
  }
  found.warnings.push(...tree.modules.flatMap(findSharedNamespace));
  // Whether the installer allows more is not known here.
  const accountModules = new Set(
    tree.modules.flatMap(({ name, serviceAccountName }) => (serviceAccountName === undefined ? [] : name)),
  );
  const accountLimitsOf = (name: string) => (accountModules.has(name) ? { isUnlimited: false } : undefined);
  found.problems.push(...findDuplicateWebhooks(allHooks, [], accountLimitsOf));
  found.warnings.push(...findForbiddenWebhooks(allHooks, accountLimitsOf));
}

/** Warns of a module with a ServiceAccount whose release would be in the operator's namespace, where the module is Invalid. */
function findSharedNamespace({ dir, chart, namespace, serviceAccountName }: Module): Problem[] {
  if (serviceAccountName === undefined || namespace !== undefined || chart === "none") return [];
  const message = "a release with a ServiceAccount must be outside the operator's namespace";
  const remedy = "set namespace here, or --module-namespace-template for the operator";
  return [{ file: addonFilePath(dir), key: "namespace", message, remedy }];
}

/** Finds invalid schemas, and keywords in them that have no effect. */
function lintSchemas(files: SchemaFiles, found: Findings): void {
  const warnings = collect(found.problems, () => compileSchemas(files))?.warnings ?? [];
  const file = files.values?.file ?? files.config?.file ?? "";
  found.warnings.push(...warnings.map((text) => warningToProblem(file, text)));
}

/**
 * Finds problems of a module whose layout is valid: values that violate the schema, invalid CRDs, values that nothing
 * reads, a chart that cannot be rendered, and objects that any API server would refuse.
 */
async function lintModule(
  module: Module,
  tree: Tree,
  { charts, found }: { readonly charts: OfflineCharts; readonly found: Findings },
): Promise<void> {
  const { problems, warnings } = found;
  const values = collect(problems, () => charts.helmValues(module, tree));
  if (values === undefined) return;
  const findings = await findFileProblems(module, values);
  problems.push(...findings.problems);
  warnings.push(...findings.warnings);
  if (module.chart === "none" || charts.findHelmProblem() !== undefined) return;
  warnings.push(...(collect([], () => lintLaterDocuments(module)) ?? []));
  warnings.push(...lintSubCharts(module));
  warnings.push(...lintEnabledModulesUse(module, charts));
  await lintManifest(module, tree, { charts, found });
}

/** Warns about a chart that reads the list of enabled modules although charts do not get it. */
function lintEnabledModulesUse(module: Module, charts: OfflineCharts): Problem[] {
  // Drops errors in the chart's files, because the rendering of the chart reports them.
  const isRead = collect([], () => readsEnabledModules(module)) ?? false;
  if (charts.passesEnabledModules || !isRead) return [];
  const message = "its chart reads global.enabledModules, which charts do not get";
  return [{ file: module.dir, message, remedy: "set --chart-enabled-modules here and for the operator" }];
}

/** Warns of documents in values.yaml that nobody reads. */
function lintLaterDocuments(module: Module): Problem[] {
  return findLaterDocuments(module).map(({ file, line }) => ({
    file,
    key: `line ${line}`,
    message: "the document ends before this line; the rest is ignored, also with Helm 4",
    remedy: "write all values in one document",
  }));
}

/** Warns of sub-charts in `charts/` whose versions the chart does not allow. */
function lintSubCharts({ chartDir }: Module): Problem[] {
  return findWrongSubCharts(chartDir).map(({ name, range, versions }) => ({
    file: join(chartDir, "Chart.yaml"),
    message: `depends on ${name} ${range}, but charts/ contains ${versions.join(", ")}`,
    remedy: "run helm dependency update, or correct dependencies",
  }));
}

/** Renders the chart and checks the manifest. An error becomes a note if a hook supplies values that are missing here, because the chart may render with them. */
async function lintManifest(
  module: Module,
  tree: Tree,
  { charts, found }: { readonly charts: OfflineCharts; readonly found: Findings },
): Promise<void> {
  const { problems, notes } = found;
  try {
    const manifest = await charts.render(module, tree);
    const findings = findRenderedProblems(module, manifest);
    problems.push(...findings.problems);
    found.warnings.push(...findings.warnings);
  } catch (error) {
    if (error instanceof ProblemError) return void problems.push(...error.problems);
    if (!(error instanceof HelmError)) throw error;
    const problem = renderProblem(module, error, charts.kubeVersion);
    const missingValues = isChartFault(error) ? undefined : charts.describeMissingValues(module, tree);
    if (missingValues === undefined) return void problems.push(problem);
    const message = `its chart is not checked because ${missingValues}`;
    notes.push({ file: module.dir, message });
  }
}

/** The problem of a chart that helm cannot render. `kubeVersion` is the version that the user chose. */
function renderProblem({ dir, name }: Module, error: HelmError, kubeVersion: string | undefined): Problem {
  const message = `cannot be rendered: ${error.message.replace(`helm template ${name}: `, "")}`;
  const assumed = findExcludedKubernetes(error);
  if (assumed === undefined) {
    const remedy =
      "fix the chart, or supply values of the ConfigMap or of hooks: lint and source push have --values FILE";
    return { file: dir, message, remedy };
  }
  const remedy =
    kubeVersion === undefined
      ? `Helm assumes ${assumed} without a cluster: check the chart with addon-operator lint --kube-version VERSION DIR`
      : "name the version of your cluster in --kube-version, or correct kubeVersion in Chart.yaml";
  return { file: dir, message, remedy };
}

/** The entries of `requires` and `after` of a module that name missing modules or versions. */
function findUnmetRequirements(module: Module, byName: ReadonlyMap<string, Module>): Problem[] {
  const problems: Problem[] = [];
  for (const [name, range] of Object.entries(module.requires?.modules ?? {})) {
    const message = describeMismatch(byName.get(name), range);
    if (message !== undefined) problems.push(requirementProblem(module, `requires.modules.${name}`, message));
  }
  for (const [index, name] of (module.after ?? []).entries()) {
    const message = `module ${name} does not exist`;
    if (!byName.has(name)) problems.push(requirementProblem(module, `after.${index}`, message));
  }
  return problems;
}

/** Describes why a required module is missing, or its version outside of the range; undefined if neither is the case. */
function describeMismatch(required: Module | undefined, range: string): string | undefined {
  if (required === undefined) return "module does not exist";
  // The version of a broken module, whose problem is reported by itself, may be unknown.
  if (required.problem !== undefined || isInRange(required.chartVersion, range)) return undefined;
  const { chartVersion } = required;
  const versionText = chartVersion === undefined ? "has no version" : `has version ${chartVersion}`;
  return `${versionText}, which is outside ${range}`;
}

function requirementProblem(module: Module, key: string, message: string): Problem {
  const remedy = "correct it, or pass all modules directories to lint";
  return { file: addonFilePath(module.dir), key, message, remedy };
}

/** Finds cycles of requirements between modules. Reports each cycle once, for its first module. */
function findRequirementCycles(modules: readonly Module[]): Problem[] {
  const problems: Problem[] = [];
  const reported = new Set<string>();
  for (const { name, dir } of modules) {
    const cycle = reported.has(name) ? undefined : findCycle({ modules }, name, getPrecedingModules);
    if (cycle === undefined) continue;
    for (const each of cycle) reported.add(each);
    const message = `requires itself, or comes before itself: ${cycle.join(" → ")}`;
    const remedy = "remove one of them from requires or after";
    problems.push({ file: addonFilePath(dir), message, remedy });
  }
  return problems;
}
