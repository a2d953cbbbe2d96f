/** Makes the plan of a start without a running operator. */

import type { Environment, Settings } from "../../config/settings/index.ts";
import { checkConnection } from "../../kube/index.ts";
import { toYaml } from "../../base/index.ts";
import { previewStart } from "../../surface/preview/index.ts";
import { makeBase, makeReleases } from "./base.ts";

/**
 * Runs `addon-operator plan` while no operator runs: connects, reads everything, and returns the plan as YAML or JSON.
 * Changes nothing. Throws ProblemError when it cannot connect.
 */
export async function previewPlan(settings: Settings, env: Environment, format: string): Promise<string> {
  // Loaded late: the package also contains code that an operator never needs.
  const { withTools } = await import("../../surface/offline/index.ts");
  return withTools(settings, env, async ({ scope }) => {
    // Log lines would be mixed with the plan.
    const base = makeBase({ ...settings, logLevel: "error" }, env, scope);
    await checkConnection(base.client, new AbortController().signal);
    await base.actors.checkUserIds();
    const releases = makeReleases(base);
    scope.addRelease(() => releases.close());
    await releases.observed.waitUntilReady();
    const plan = await previewStart(base, releases);
    return format === "json" ? `${JSON.stringify(plan)}\n` : toYaml(plan);
  });
}
