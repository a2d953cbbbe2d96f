/** Renders charts without a cluster. */

import type { Environment, Settings } from "../config.ts";
import { Helm, renderOffline } from "../helm/index.ts";
import { hookEnvironment } from "../hooks/index.ts";
import { silentLogger, systemClock } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import type { Json, JsonObject, Module, Problem, Section, Tree } from "../model/index.ts";
import { compileSchemas, effective, helmValues, parseMap, refuseList } from "../values/index.ts";
import { readGiven } from "./surroundings.ts";

/**
 * Renders the charts of modules from files alone: values files, schema defaults, and a file in place of the
 * ConfigMap.
 */
export class OfflineCharts {
  readonly #helm: Helm;
  readonly #tmpDir: string;
  readonly #config: JsonObject;

  /** `config` has `global` and sections, as the ConfigMap has. */
  constructor(settings: Settings, env: Environment, config: JsonObject = {}) {
    this.#tmpDir = settings.tmpDir;
    this.#config = config;
    this.#helm = new Helm({
      bin: settings.helmBin,
      namespace: settings.namespace ?? "default",
      managedBy: "",
      timeoutMs: settings.helmTimeoutMs,
      historyMax: settings.helmHistoryMax,
      validate: false,
      tmpDir: settings.tmpDir,
      env: hookEnvironment(env),
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
   * The manifest of a module with a chart, on demand with the CRDs in `crds/` and those of sub-charts. Throws
   * HelmError, ProblemError.
   */
  render(module: Module, tree: Tree, { includeCrds = false } = {}): Promise<string> {
    const tools = { helm: this.#helm, tmpDir: this.#tmpDir, clock: systemClock };
    const values = JSON.stringify(this.#values(module, tree));
    return renderOffline(tools, { module, values, signal: new AbortController().signal, includeCrds });
  }

  #values(module: Module, tree: Tree): JsonObject {
    const global = effective({
      schemas: compileSchemas(tree.globalSchemas),
      common: tree.globalValues,
      config: sectionOf(this.#config["global"]),
    });
    const own = effective({
      schemas: compileSchemas(module.schemas),
      common: module.common.section,
      own: module.own.section,
      config: sectionOf(this.#config[module.valuesKey]),
    });
    const list = refuseList(module, own.values);
    if (list !== undefined) throw new ProblemError([list]);
    return helmValues(module, global.helmValues, own.helmValues);
  }
}

function sectionOf(value: Json | undefined): Section | undefined {
  return typeof value === "object" && value !== null ? value : undefined;
}

/** Reads the file of `lint --values`. Throws ProblemError. */
export async function readConfigValues(file: string): Promise<JsonObject> {
  return parseMap(await readGiven(file), file).value;
}
