/** Builds what fetches modules from registries; loads its code only if the setting is on. */

import { join } from "node:path";

import { keysConfigMapOf } from "../config.ts";
import { requestServerVersion } from "../kube/index.ts";
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
  return scope.own(
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
      keys: keysConfigMapOf(settings) ?? "",
      announce: (event) => adapters.announce(event),
      serverVersion: () => requestServerVersion(client),
      contentOf: (module) => releases.observed.artifact(module),
      hasRelease: (module) => releases.observed.ownership(module) === "ours",
    }),
  );
}
