/** The series of modules, of their releases, and of the configuration. */

import type { SeriesRegistry } from "./registry.ts";

/** The present state of a module. */
interface ModuleSample {
  readonly module: string;
  readonly enabled: boolean;
  /** Version of its chart. */
  readonly version: string | undefined;
  readonly suspended: boolean;
}

/** Work on a module; `activation` says why, e.g. `OperatorStartup`. */
interface Work {
  readonly module: string;
  readonly activation: string;
  readonly seconds: number;
}

/** The series of modules. */
export class ModuleSeries {
  readonly #registry: SeriesRegistry;

  constructor(registry: SeriesRegistry) {
    this.#registry = registry;
  }

  /** Makes the counters of a module visible, at zero. */
  known(module: string): void {
    for (const name of [
      "moduleRunErrors",
      "moduleRunErrorsShort",
      "moduleDeleteErrors",
      "redeployed",
    ] as const) {
      this.#registry.touch(name, { module });
    }
  }

  /** The present state of all modules; gauges of modules that are not named are dropped. */
  stand(samples: readonly ModuleSample[]): void {
    const registry = this.#registry;
    for (const name of ["moduleInfo", "moduleEnabled", "maintenance"] as const) registry.clear(name);
    for (const { module, enabled, version, suspended } of samples) {
      registry.set("moduleInfo", { module, enabled: String(enabled), critical: "false" }, 1);
      if (enabled) registry.set("moduleEnabled", { module, version: version ?? "" }, 1);
      if (suspended) registry.set("maintenance", { module, state: "NoResourceReconciliation" }, 1);
    }
  }

  ran({ module, activation, seconds, failed }: Work & { readonly failed: boolean }): void {
    this.#registry.observe("moduleRun", { module, activation }, seconds);
    if (!failed) return;
    this.#registry.add("moduleRunErrors", { module });
    this.#registry.add("moduleRunErrorsShort", { module });
  }

  deleteFailed(module: string): void {
    this.#registry.add("moduleDeleteErrors", { module });
  }

  /** An object of the release is absent: `ns/Kind/name`, or `Kind/name`. */
  absent(module: string, resource: string): void {
    this.#registry.add("absent", { module, resource });
  }

  redeployed(module: string): void {
    this.#registry.add("redeployed", { module });
  }

  helmStep({ seconds, ...labels }: Work): void {
    this.#registry.observe("moduleHelm", labels, seconds);
  }

  helmCommand({ seconds, ...labels }: Work & { readonly operation: string }): void {
    this.#registry.observe("helmOperation", labels, seconds);
  }

  helmFallback(labels: { module: string; operation: string; error_type: string }): void {
    this.#registry.add("helmFallback", labels);
  }

  discoverFailed(): void {
    this.#registry.add("discoverErrors", {});
  }

  missingRights(count: number): void {
    this.#registry.set("missingRights", {}, count);
  }

  configInvalid(): void {
    this.#registry.add("configErrors", {});
  }

  reloaded({ activation, seconds }: Omit<Work, "module">): void {
    this.#registry.add("convergenceSeconds", { activation }, seconds);
    this.#registry.add("convergenceTotal", { activation });
  }

  /** Drops the series of a module whose directory is gone. */
  forget(module: string): Promise<void> {
    return this.#registry.drop({ module });
  }
}
