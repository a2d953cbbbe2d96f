/** Records what happens to modules in their series. */

import type { SeriesRegistry } from "../registry.ts";

/** The present state of a module. */
interface ModuleSample {
  readonly module: string;
  readonly enabled: boolean;
  /** Version of its chart. */
  readonly version: string | undefined;
  readonly suspended: boolean;
}

/** What is recorded about modules, releases and the configuration. `activation` says why, e.g. `OperatorStartup`. */
export interface ModuleRecorder {
  /** Makes the counters of a module visible, at zero. */
  known(module: string): void;
  /** The present state of all modules; gauges of modules that are not named are dropped. */
  stand(samples: readonly ModuleSample[]): void;
  ran(run: { module: string; activation: string; seconds: number; failed: boolean }): void;
  deleteFailed(module: string): void;
  /** An object of the release is missing: `ns/Kind/name`, or `Kind/name`. */
  absent(module: string, resource: string): void;
  redeployed(module: string): void;
  helmStep(step: { module: string; activation: string; seconds: number }): void;
  helmCommand(command: { module: string; activation: string; operation: string; seconds: number }): void;
  helmFallback(fallback: { module: string; operation: string; errorType: string }): void;
  discoverFailed(): void;
  missingRights(count: number): void;
  configInvalid(): void;
  reloaded(reload: { activation: string; seconds: number }): void;
  /** Drops the series of a module whose directory is gone. */
  forget(module: string): Promise<void>;
}

/** The series of modules. */
export function moduleRecorder(registry: SeriesRegistry): ModuleRecorder {
  return {
    known(module) {
      for (const name of [
        "moduleRunErrors",
        "moduleRunErrorsShort",
        "moduleDeleteErrors",
        "redeployed",
      ] as const) {
        registry.touch(name, { module });
      }
    },
    stand: (samples) => stand(registry, samples),
    ran({ module, activation, seconds, failed }) {
      registry.observe("moduleRun", { module, activation }, seconds);
      if (!failed) return;
      registry.add("moduleRunErrors", { module });
      registry.add("moduleRunErrorsShort", { module });
    },
    deleteFailed: (module) => registry.add("moduleDeleteErrors", { module }),
    absent: (module, resource) => registry.add("absent", { module, resource }),
    redeployed: (module) => registry.add("redeployed", { module }),
    helmStep: ({ seconds, ...labels }) => registry.observe("moduleHelm", labels, seconds),
    helmCommand: ({ seconds, ...labels }) => registry.observe("helmOperation", labels, seconds),
    helmFallback: ({ errorType, ...labels }) =>
      registry.add("helmFallback", { ...labels, error_type: errorType }),
    discoverFailed: () => registry.add("discoverErrors", {}),
    missingRights: (count) => registry.set("missingRights", {}, count),
    configInvalid: () => registry.add("configErrors", {}),
    reloaded({ activation, seconds }) {
      registry.add("convergenceSeconds", { activation }, seconds);
      registry.add("convergenceTotal", { activation });
    },
    forget: (module) => registry.drop({ module }),
  };
}

function stand(registry: SeriesRegistry, samples: readonly ModuleSample[]): void {
  for (const name of ["moduleInfo", "moduleEnabled", "maintenance"] as const) registry.clear(name);
  for (const { module, enabled, version, suspended } of samples) {
    registry.set("moduleInfo", { module, enabled: String(enabled), critical: "false" }, 1);
    if (enabled) registry.set("moduleEnabled", { module, version: version ?? "" }, 1);
    if (suspended) registry.set("maintenance", { module, state: "NoResourceReconciliation" }, 1);
  }
}
