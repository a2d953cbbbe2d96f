/** Renders charts without a cluster. */

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { Helm, renderOffline } from "../helm/index.ts";
import { hookEnvironment } from "../hooks/index.ts";
import { silentLogger, systemClock } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import type { JsonObject, Module, Problem, Tree } from "../model/index.ts";
import { helmInput, invalidValues, parseConfigMap, parseMap, ValuesStore } from "../values/index.ts";
import { readGiven } from "./surroundings.ts";

/** What is said of the cluster that there is not. */
interface KnownCluster {
  /** In place of the ConfigMap: `global` and sections. */
  readonly config?: JsonObject;
  /** Of the API server; helm's own default where it is not given. */
  readonly kubeVersion?: string | undefined;
}

/**
 * Renders the charts of modules from files alone: values files, schema defaults, and a file in place of the
 * ConfigMap.
 */
export class OfflineCharts {
  readonly #helm: Helm;
  readonly #tmpDir: string;
  readonly #config: JsonObject;
  readonly #kubeVersion: string | undefined;
  /** `--chart-enabled-modules`: all modules that are read count as enabled. */
  readonly givesModules: boolean;

  constructor(settings: Settings, env: Environment, { config = {}, kubeVersion }: KnownCluster = {}) {
    this.#kubeVersion = kubeVersion;
    this.givesModules = settings.chartEnabledModules;
    this.#tmpDir = settings.tmpDir;
    this.#config = config;
    this.#helm = new Helm({
      bin: settings.helmBin,
      namespace: settings.namespace ?? "default",
      managedBy: "",
      server: "",
      timeoutMs: settings.helmTimeoutMs,
      historyMax: settings.helmHistoryMax,
      validate: false,
      tmpDir: settings.tmpDir,
      env: hookEnvironment(childEnvironment(env, settings)),
      logger: silentLogger,
      clock: systemClock,
    });
  }

  /** Why nothing can be rendered; undefined when helm can be used. */
  missing(): Problem | undefined {
    try {
      this.#helm.identity();
      return undefined;
    } catch (error) {
      if (error instanceof ProblemError) return error.problems[0];
      throw error;
    }
  }

  /**
   * The manifest of a module with a chart, on demand with the CRDs in `crds/` and those of sub-charts, and without the
   * chart's test hooks. Throws HelmError, ProblemError.
   */
  render(module: Module, tree: Tree, { includeCrds = false, skipTests = false } = {}): Promise<string> {
    const tools = { helm: this.#helm, tmpDir: this.#tmpDir, clock: systemClock };
    const values = this.valuesOf(module, tree);
    const terms = { includeCrds, skipTests, kubeVersion: this.#kubeVersion };
    return renderOffline(tools, { module, values, signal: new AbortController().signal, ...terms });
  }

  /** What helm is given, as JSON. Throws ProblemError for values with which the module would be Invalid. */
  valuesOf(module: Module, tree: Tree): string {
    const names = (): string[] => tree.modules.map(({ name }) => name);
    const values = new ValuesStore(undefined, this.givesModules ? names : undefined);
    values.setTree(tree);
    const texts = Object.entries(this.#config).map(([key, value]) => [key, JSON.stringify(value)]);
    values.setConfig(parseConfigMap("--values", Object.fromEntries(texts), tree.modules), undefined);
    const problem = invalidValues(values, module);
    if (problem !== undefined) throw new ProblemError([problem]);
    return helmInput(values, module).values;
  }
}

/** Reads the file of `lint --values`. Throws ProblemError. */
export async function readConfigValues(file: string): Promise<JsonObject> {
  return parseMap(await readGiven(file), file).value;
}
