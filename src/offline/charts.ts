/** Renders charts without a cluster. */

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { Helm, renderOffline } from "../helm/index.ts";
import { hookEnvironment } from "../hooks/index.ts";
import { silentLogger, systemClock } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import type { JsonObject, Module, Problem, Tree } from "../model/index.ts";
import {
  helmInput,
  invalidValues,
  leftToHooks,
  parseConfigMap,
  parseMap,
  ValuesStore,
} from "../values/index.ts";
import type { Children } from "../process/index.ts";
import { readTextFile } from "./shared.ts";

/** Longest time for which helm renders a chart, in ms, beside the margin that `Helm` adds. */
const RENDER_MS = 60_000;

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
  readonly #config: JsonObject;
  readonly #kubeVersion: string | undefined;
  /** `--chart-enabled-modules`: charts get the list of modules, all of which count as enabled. */
  readonly passesModules: boolean;

  constructor(
    settings: Settings,
    { env, children }: { readonly env: Environment; readonly children: Children },
    { config = {}, kubeVersion }: OfflineCluster = {},
  ) {
    this.#kubeVersion = kubeVersion;
    this.passesModules = settings.chartEnabledModules;
    this.#tmpDir = settings.tmpDir;
    this.#config = config;
    this.#helm = new Helm({
      children,
      bin: settings.helmBin,
      namespace: settings.namespace ?? "default",
      managedBy: "",
      server: "",
      timeoutMs: Math.min(settings.helmTimeoutMs, RENDER_MS),
      historyMax: settings.helmHistoryMax,
      validate: false,
      tmpDir: settings.tmpDir,
      env: hookEnvironment(childEnvironment(env, settings)),
      logger: silentLogger,
      clock: systemClock,
    });
  }

  /** Why charts cannot be rendered; undefined if helm is available. */
  unavailable(): Problem | undefined {
    try {
      this.#helm.getBinaryId();
      return undefined;
    } catch (error) {
      if (error instanceof ProblemError) return error.problems[0];
      throw error;
    }
  }

  /**
   * The rendered manifest of a module. `includeCrds` adds the CRDs in `crds/`, also of sub-charts; `skipTests` omits the
   * chart's test hooks. Throws HelmError, ProblemError.
   */
  render(module: Module, tree: Tree, { includeCrds = false, skipTests = false } = {}): Promise<string> {
    const helm = module.namespace === undefined ? this.#helm : this.#helm.forNamespace(module.namespace);
    const tools = { helm, tmpDir: this.#tmpDir, clock: systemClock };
    const values = this.valuesOf(module, tree);
    const terms = { includeCrds, skipTests, kubeVersion: this.#kubeVersion };
    return renderOffline(tools, { module, values, signal: new AbortController().signal, ...terms });
  }

  /** The values for helm, as JSON. Throws ProblemError for values that make the module Invalid. */
  valuesOf(module: Module, tree: Tree): string {
    return helmInput(this.#valuesIn(module, tree), module).values;
  }

  /** A description of values that a hook has to set before helm runs; undefined if none are missing. */
  missingFromHooks(module: Module, tree: Tree): string | undefined {
    return leftToHooks(this.#valuesIn(module, tree), module);
  }

  /** The values for a module. Throws ProblemError if they make it Invalid. */
  #valuesIn(module: Module, tree: Tree): ValuesStore {
    const names = (): string[] => tree.modules.map(({ name }) => name);
    const given = { file: "--values", config: this.#config };
    const values = valuesFrom(tree, given, this.passesModules ? names : undefined);
    const problem = invalidValues(values, module);
    if (problem !== undefined) throw new ProblemError(problem);
    return values;
  }
}

/** Replaces the ConfigMap; messages refer to it by `file`. */
interface ConfigFile {
  readonly file: string;
  readonly config: JsonObject;
}

/** The values of a tree with a file instead of the ConfigMap. Throws ProblemError for invalid keys. */
export function valuesFrom(
  tree: Tree,
  { file, config }: ConfigFile,
  modulesForCharts?: () => readonly string[],
): ValuesStore {
  const values = new ValuesStore(undefined, modulesForCharts, {
    configMap: `${file} FILE`,
    namespace: "default",
  });
  values.setTree(tree);
  const texts = Object.entries(config).map(([key, value]) => [key, JSON.stringify(value)]);
  const content = parseConfigMap(file, Object.fromEntries(texts), tree.modules);
  if (content.problems.length > 0) throw new ProblemError(...content.problems);
  values.setConfig(content, undefined);
  return values;
}

/** Reads the file of `lint --values`. Throws ProblemError. */
export async function readConfigValues(file: string): Promise<JsonObject> {
  return parseMap(await readTextFile(file), file).value;
}
