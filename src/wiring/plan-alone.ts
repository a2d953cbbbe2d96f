/** The sub-command `plan` without a running operator. */

import type { Environment, Settings } from "../config.ts";
import { firstContact } from "../kube/index.ts";
import { toYaml } from "../lib/index.ts";
import { scoped } from "../offline/index.ts";
import { previewStart } from "../preview/index.ts";
import { makeBase, makeReleases } from "./base.ts";

/**
 * `addon-operator plan` where no operator runs: connects, reads, and returns the plan as YAML or JSON. Throws
 * ProblemError when it cannot connect.
 */
export function planAlone(settings: Settings, env: Environment, format: string): Promise<string> {
  return scoped(async (scope) => {
    // Log lines would be mixed with the plan.
    const base = makeBase({ ...settings, logLevel: "error" }, env, scope);
    await firstContact(base.client, new AbortController().signal);
    const releases = makeReleases(base);
    scope.add(() => releases.close());
    await releases.ready();
    const plan = await previewStart(base, releases);
    return format === "json" ? `${JSON.stringify(plan)}\n` : toYaml(plan);
  });
}
