/** Limits how many bindings the hooks of a module with an account may have: all modules share the operator that serves them. */

import type { Hook, KubernetesBinding, Problem } from "../../../base/model/index.ts";

/** Each watch needs a connection to the API server: thousands of them would cost the operator its lease. */
const MAX_WATCHES = 200;
/** Each may run every second. */
const MAX_SCHEDULES = 200;

/** The problem of a module whose hooks have too many watches or schedules; it names the hook that exceeds the limit. Empty if there is none. */
export function findTooManyBindings(hooks: readonly Hook[]): Problem[] {
  let watchCount = 0;
  let scheduleCount = 0;
  for (const { path: file, config } of hooks) {
    const { kubernetes, schedule } = config.bindings;
    watchCount += kubernetes.reduce((sum, binding) => sum + countWatches(binding), 0);
    scheduleCount += schedule.length;
    const remedy = "select objects by labels or namespaces instead of by names, or use fewer bindings";
    const limits = `a module with a ServiceAccount may have ${MAX_WATCHES} watches and ${MAX_SCHEDULES} schedules`;
    const message = `the hooks of the module have too many bindings: ${limits}`;
    if (watchCount > MAX_WATCHES || scheduleCount > MAX_SCHEDULES)
      return [{ file, key: "--config", message, remedy }];
  }
  return [];
}

/** The watches of a binding: one for each namespace and each name that it selects by name. */
function countWatches({ names, namespaces }: KubernetesBinding): number {
  return new Set(names ?? [undefined]).size * new Set(namespaces ?? [undefined]).size;
}
