import type { ReleaseOutcome } from "../helm/index.ts";
import type { Logger } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import type { EventReason, Happening } from "../status/index.ts";
import type { Witness } from "../tasks/index.ts";

type Announce = (event: Happening) => void;

/** Tells metrics and Events what happened; state and log are the tasks' business. */
export function makeWitness(metrics: Metrics, announce: Announce, logger: Logger): Witness {
  return {
    hookRun({ hook, binding, queue, seconds, result }) {
      const labels = { module: hook.module, hook: hook.name, binding, queue, activation: binding };
      metrics.hooks.ran({ ...labels, outcome: result, seconds });
    },
    moduleRun: (module, seconds, failed) => metrics.modules.ran({ module, activation: "", seconds, failed }),
    moduleDeleteFailed: (module) => metrics.modules.deleteFailed(module),
    discoveryFailed: () => metrics.modules.discoverFailed(),
    released: (module, outcome) => announceRelease(announce, module, outcome),
    removed: (module) => announce({ module, reason: "ReleaseRemoved", note: "the release was removed" }),
    failed(module, reason, message) {
      const invalid = reason === "ValuesIncomplete" || reason === "ForeignRelease";
      announce({ module, reason: invalid ? "ValuesInvalid" : "RunFailed", note: `${reason}: ${message}` });
    },
    switched(module, enabled, by) {
      announce({ module, reason: enabled ? "ModuleEnabled" : "ModuleDisabled", note: `by ${by}` });
      logger.info(enabled ? "Module enabled" : "Module disabled", { module, by });
    },
    converged: (seconds) => metrics.modules.converged({ activation: "", seconds }),
  };
}

const REASONS: Readonly<Partial<Record<ReleaseOutcome["action"], EventReason>>> = {
  installed: "ReleaseInstalled",
  upgraded: "ReleaseUpgraded",
};

function announceRelease(announce: Announce, module: string, outcome: ReleaseOutcome | undefined): void {
  if (outcome === undefined) return;
  const { action, release, recovered } = outcome;
  const note = `release ${release?.name ?? module}, revision ${release?.revision ?? 0}`;
  const reason = REASONS[action];
  if (recovered) announce({ module, reason: "PendingReleaseRecovered", note });
  if (reason !== undefined) announce({ module, reason, note });
}
