/** Reports what checks of ModuleSources find as Events, log lines and metrics. Statuses are written elsewhere. */

import type { ModuleError, PendingUpdate } from "./entry/findings.ts";
import type { OperatorEvent } from "../../status/index.ts";
import type { ModuleSourcesOptions } from "../context.ts";
import type { Lock, LockEntry } from "../types.ts";

/** Functions that a check calls when something happened to a module or a registry answered. */
export interface CheckReporter {
  onAnswer(source: string, code: string): void;
  /** Called with the lock whenever that may have changed. */
  onLockChanged(lock: Lock): void;
  onFetched(bytes: number): void;
  onNotVerified(source: string, module: string, message: string): void;
  onLocked(module: string, entry: LockEntry, before: LockEntry | undefined): void;
  onRecovered(module: string): void;
  onUpdateDeferred(module: string, held: PendingUpdate): void;
  onApproved(module: string, version: string): void;
  onUpdateRejected(
    module: string,
    now: LockEntry,
    failed: { readonly version: string; readonly why: string },
  ): void;
  /** `isContentMissing`: the locked content is not on disk, so the module has none. */
  onModuleChecked(module: string, error: ModuleError | undefined, isContentMissing: boolean): void;
}

/** Creates the functions with which checks report. Each function writes an Event, a log line or a metric. */
export function createReporter(options: ModuleSourcesOptions): CheckReporter {
  const { metrics, announce, logger } = options;
  const lastReasons = new Map<string, string>();
  return {
    onAnswer: (source, code) => metrics.add("sourceRequests", { source, code }),
    onLockChanged: createLockSeries(options),
    onFetched: (bytes) => metrics.add("sourceFetched", {}, bytes),
    onNotVerified(source, module, message) {
      metrics.add("sourceVerifyFailures", { source, module });
      announce({ module, reason: "NotVerified", note: message });
      logger.error("Content of a module is refused", { module, source, error: message });
    },
    onLocked(module, { version, digest, source }, before) {
      const from = before === undefined ? "" : `, before it ${before.version}`;
      announce({
        module,
        reason: "SourceUpdated",
        note: `version ${version} of ModuleSource ${source} is in place${from}`,
      });
      logger.info("Content of a module is locked", { module, source, version, digest });
    },
    onUpdateDeferred(module, { version, digest, reason }) {
      announce({ module, reason: "UpdateHeld", note: reason });
      logger.info("An update of a module waits", { module, version, digest, reason });
    },
    onApproved: (module, version) =>
      announce({ module, reason: "UpdateApproved", note: `version ${version} is used now: it was approved` }),
    onUpdateRejected(module, { version, source }, { version: failed, why }) {
      announce({
        module,
        reason: "UpdateRejected",
        note: `version ${failed} of ModuleSource ${source} failed, and ${version} is in use again: ${why}`,
      });
      logger.warn("An update of a module failed, and the content before it is in use again", {
        module,
        source,
        failed,
        version,
      });
    },
    onModuleChecked(module, error, isContentMissing) {
      const event = toCheckEvent(error, isContentMissing);
      // Each check of a module without content has the same result: one Event is enough.
      if (event !== undefined && lastReasons.get(module) !== event.reason) announce({ module, ...event });
      lastReasons.set(module, event?.reason ?? "");
    },
    onRecovered: (module) =>
      announce({ module, reason: "SourceRecovered", note: "the locked content is in place again" }),
  };
}

/** Returns a function that keeps one series for each locked module, with its version and digest as labels. */
function createLockSeries({ metrics }: Pick<ModuleSourcesOptions, "metrics">): (lock: Lock) => void {
  const digestsInSeries = new Map<string, string>();
  return (lock) => {
    for (const [module, digest] of digestsInSeries) {
      if (lock.get(module)?.digest === digest) continue;
      metrics.dropSeries({ module }, ["sourceModule"]);
      digestsInSeries.delete(module);
    }
    for (const [module, { version, digest }] of lock) {
      if (digestsInSeries.has(module)) continue;
      metrics.set("sourceModule", { module, version, digest }, 1);
      digestsInSeries.set(module, digest);
    }
  };
}

/**
 * The Event for a module whose content is missing or withdrawn. Content that fails verification has its own Event, when
 * that happens.
 */
function toCheckEvent(
  { reason, message: note }: Partial<ModuleError> = { message: "the locked content is not on disk" },
  isContentMissing: boolean,
): Pick<OperatorEvent, "reason" | "note"> | undefined {
  if (note === undefined) return undefined;
  if (isContentMissing) return { reason: "SourceUnavailable", note };
  return reason === "Withdrawn" ? { reason, note } : undefined;
}
