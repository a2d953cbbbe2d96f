/** Renders charts without a cluster. A tree contains the modules and values that were read from the modules directories. */

import { buildChildEnvironment } from "../../config/settings/index.ts";
import { Helm, renderOffline } from "../../helm/index.ts";
import { buildHookEnvironment } from "../../hooks/index.ts";
import { parsePointer, silentLogger, systemClock } from "../../base/index.ts";
import { collect, ProblemError, valueAt } from "../../base/model/index.ts";
import type { JsonObject, Module, Problem, Tree } from "../../base/model/index.ts";
import {
  buildHelmInput,
  explainInvalidValues,
  describeValuesLeftToHooks,
  parseConfigMap,
  parseMap,
  ValuesStore,
} from "../../values/index.ts";
import { readTextFile, type OfflineTools } from "./shared.ts";

/** Longest time for which helm renders a chart, in ms, beside the margin that `Helm` adds. */
const MAX_RENDER_MS = 60_000;

/** Replaces what a cluster would supply. */
interface OfflineCluster {
  /** Replaces the ConfigMap: `global` and the sections of modules. */
  readonly config?: JsonObject;
  /** The version of the API server; the default is helm's. */
  readonly kubeVersion?: string | undefined;
}

/** Renders the charts of modules from values files, schema defaults, and a file that replaces the ConfigMap. */
export class OfflineCharts {
  readonly #helm: Helm;
  readonly #tmpDir: string;
  readonly #cluster: OfflineCluster;
  /** `--chart-enabled-modules`: charts get the list of modules, all of which count as enabled. */
  readonly passesEnabledModules: boolean;

  constructor(
    { settings, env, children }: Pick<OfflineTools, "settings" | "env" | "children">,
    cluster: OfflineCluster = {},
  ) {
    this.#cluster = cluster;
    this.passesEnabledModules = settings.chartEnabledModules;
    this.#tmpDir = settings.tmpDir;
    // Nothing is installed: what names the owner of releases and the API server stays empty.
    this.#helm = new Helm({
      children,
      bin: settings.helmBin,
      namespace: settings.namespace ?? "default",
      managedBy: "",
      server: "",
      timeoutMs: Math.min(settings.helmTimeoutMs, MAX_RENDER_MS),
      historyMax: settings.helmHistoryMax,
      validate: false,
      tmpDir: settings.tmpDir,
      env: buildHookEnvironment(buildChildEnvironment(env, settings)),
      logger: silentLogger,
      clock: systemClock,
    });
  }

  /** Why charts cannot be rendered: the helm binary is missing. Undefined if there is one. */
  findHelmProblem(): Problem | undefined {
    const problems: Problem[] = [];
    collect(problems, () => this.#helm.requireBinary());
    return problems[0];
  }

  /**
   * The rendered manifest of a module. `includeCrds` adds the CRDs in `crds/`, also of sub-charts; `skipTests` omits the
   * chart's test hooks. Throws HelmError, ProblemError.
   */
  render(module: Module, tree: Tree, { includeCrds = false, skipTests = false } = {}): Promise<string> {
    const helm = module.namespace === undefined ? this.#helm : this.#helm.forNamespace(module.namespace);
    const tools = { helm, tmpDir: this.#tmpDir, clock: systemClock };
    const values = this.helmValues(module, tree);
    const options = { includeCrds, skipTests, kubeVersion: this.#cluster.kubeVersion };
    return renderOffline(tools, { module, values, signal: new AbortController().signal, ...options });
  }

  /** The values that helm gets for a module, as JSON. Throws ProblemError for values that make the module Invalid. */
  helmValues(module: Module, tree: Tree): string {
    return buildHelmInput(this.#buildValues(module, tree), module).values;
  }

  /** The version of the API server that the user chose. */
  get kubeVersion(): string | undefined {
    return this.#cluster.kubeVersion;
  }

  /** Describes values that are missing because hooks or `valuesFrom` set them in a cluster; undefined if none are missing. */
  describeMissingValues(module: Module, tree: Tree): string | undefined {
    const values = this.#buildValues(module, tree);
    const ofHooks = describeValuesLeftToHooks(values, module);
    if (ofHooks !== undefined) return `a hook supplies values that it needs: ${ofHooks}`;
    const section = values.mergedSection(module.valuesKey).values;
    const isInFile = this.#cluster.config?.[module.valuesKey] !== undefined;
    const missing = (module.valuesFrom ?? []).filter(({ path }) =>
      path === undefined ? !isInFile : valueAt(section, parsePointer(path)) === undefined,
    );
    if (missing.length === 0) return undefined;
    const sources = missing.map(
      ({ kind, name, path }) => `${kind} ${name}${path === undefined ? "" : ` (${path})`}`,
    );
    return `valuesFrom supplies values that it may need: ${sources.join(", ")}: set them in --values FILE`;
  }

  /** Builds the values for a module, all modules counting as enabled. Throws ProblemError if they make the module Invalid. */
  #buildValues(module: Module, tree: Tree): ValuesStore {
    const listAllNames = (): string[] => tree.modules.map(({ name }) => name);
    const configFile = { file: "--values", config: this.#cluster.config ?? {} };
    const values = buildValuesStore(tree, configFile, this.passesEnabledModules ? listAllNames : undefined);
    const problem = explainInvalidValues(values, module);
    if (problem !== undefined) throw new ProblemError(problem);
    return values;
  }
}

/** The content that replaces the ConfigMap; messages refer to it by `file`. */
interface ConfigFile {
  readonly file: string;
  readonly config: JsonObject;
}

/**
 * Builds the values of all modules of a tree, with a file in place of the ConfigMap. `modulesForCharts` returns the names that
 * charts get as `global.enabledModules`; without it, they get none. Throws ProblemError for invalid keys.
 */
export function buildValuesStore(
  tree: Tree,
  { file, config }: ConfigFile,
  modulesForCharts?: () => readonly string[],
): ValuesStore {
  // Messages name the file in place of the ConfigMap.
  const origin = { configMap: `${file} FILE`, namespace: "default" };
  const values = new ValuesStore(undefined, modulesForCharts, origin);
  values.setTree(tree);
  const texts = Object.entries(config).map(([key, value]) => [key, JSON.stringify(value)]);
  const content = parseConfigMap(file, Object.fromEntries(texts), tree.modules);
  if (content.problems.length > 0) throw new ProblemError(...content.problems);
  values.setConfig(content, undefined);
  return values;
}

/** Reads a file of values that the user named; none without a file. Throws ProblemError. */
export async function readValuesFile(file: string | undefined): Promise<JsonObject> {
  return file === undefined ? {} : parseMap(await readTextFile(file), file).value;
}
