/** Builds the module sources, which fetch modules from registries. Loads their code only if `--sources` is on. */

import { join } from "node:path";

import { sourceKeysConfigMap } from "../config.ts";
import { requestServerVersion } from "../kube/index.ts";
import type { Scope } from "../lib/index.ts";
import type { ModuleSources } from "../module-sources/index.ts";
import { readTimeZone, type Base } from "./base.ts";
import type { Components } from "./components.ts";

/** Builds the module sources; undefined if `--sources` is off. */
export async function makeModuleSources(
  base: Base,
  { state, metrics, releases, adapters }: Components,
  scope: Scope,
): Promise<ModuleSources | undefined> {
  const { settings, registryModules, reader, client, namespace } = base;
  if (registryModules === undefined) return undefined;
  const { ModuleSources } = await import("../module-sources/index.ts");
  const { configMap, tmpDir, sourcesDir, sourcesMaxBytes: maxBytes, unsignedCharts = [] } = settings;
  return scope.closeAtEnd(
    new ModuleSources({
      ...base,
      registryModules,
      readModulesDir: (modulesDir) => reader.readModulesDir(modulesDir),
      state,
      metrics,
      configMap,
      maxBytes,
      unsignedCharts,
      timeZone: readTimeZone(base.env),
      // Operators of one user share the directory for temporary files.
      dir: sourcesDir ?? join(tmpDir, "sources", `${namespace}-${configMap}`),
      keysConfigMap: sourceKeysConfigMap(settings) ?? "",
      announce: (event) => adapters.announce(event),
      serverVersion: () => requestServerVersion(client),
      getInstalledDigest: (module) => releases.observed.getArtifactDigest(module),
      hasRelease: (module) => releases.observed.ownership(module) === "ours",
    }),
  );
}
