/** Builds what fetches modules from registries; loads its code only if the setting is on. */

import { join } from "node:path";

import { sourceKeysConfigMap } from "../config.ts";
import { serverVersion } from "../kube/index.ts";
import type { Scope } from "../lib/index.ts";
import type { Supply } from "../supply/index.ts";
import { timeZoneOf, type Base } from "./base.ts";
import type { Components } from "./components.ts";

/** Modules from registries; undefined while `--sources` is off. */
export async function makeSupply(
  base: Base,
  { state, metrics, releases, adapters }: Components,
  scope: Scope,
): Promise<Supply | undefined> {
  const { settings, supplied, client, namespace } = base;
  if (supplied === undefined) return undefined;
  const { Supply } = await import("../supply/index.ts");
  const { configMap, tmpDir, sourcesDir, sourcesMaxBytes: mostBytes, unsignedCharts = [] } = settings;
  return scope.closeAtEnd(
    new Supply({
      ...base,
      supplied,
      state,
      metrics,
      configMap,
      mostBytes,
      unsignedCharts,
      zone: timeZoneOf(base.env),
      // Operators of one user share the directory for temporary files.
      dir: sourcesDir ?? join(tmpDir, "sources", `${namespace}-${configMap}`),
      keys: sourceKeysConfigMap(settings) ?? "",
      announce: (event) => adapters.announce(event),
      serverVersion: () => serverVersion(client),
      contentOf: (module) => releases.observed.getArtifactDigest(module),
      hasRelease: (module) => releases.observed.ownership(module) === "ours",
    }),
  );
}
