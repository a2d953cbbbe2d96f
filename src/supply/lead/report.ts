/** What module sources report besides statuses: Events, log lines and series. */

import type { CheckTools } from "./check.ts";
import type { ModuleError } from "./entry/findings.ts";
import type { OperatorEvent } from "../../status/index.ts";
import type { SupplyOptions } from "../shared.ts";
import type { Lock } from "../types.ts";

/** Reports what checks of sources have found. */
export function makeReport(options: SupplyOptions): CheckTools["report"] {
  const { metrics, announce, logger } = options;
  const outcomes = new Map<string, string>();
  return {
    answered: (source, code) => metrics.add("sourceRequests", { source, code }),
    contents: lockedSeries(options),
    fetched: (bytes) => metrics.add("sourceFetched", {}, bytes),
    notVerified(source, module, message) {
      metrics.add("sourceVerifyFailures", { source, module });
      announce({ module, reason: "NotVerified", note: message });
      logger.error("Content of a module is refused", { module, source, error: message });
    },
    locked(module, { version, digest, source }, before) {
      const from = before === undefined ? "" : `, before it ${before.version}`;
      announce({
        module,
        reason: "SourceUpdated",
        note: `version ${version} of ModuleSource ${source} is in place${from}`,
      });
      logger.info("Content of a module is locked", { module, source, version, digest });
    },
    held(module, { version, digest, reason }) {
      announce({ module, reason: "UpdateHeld", note: reason });
      logger.info("An update of a module waits", { module, version, digest, reason });
    },
    approved: (module, version) =>
      announce({ module, reason: "UpdateApproved", note: `version ${version} is used now: it was approved` }),
    rejected(module, { version, source }, { version: failed, why }) {
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
    checked(module, error, isWithout) {
      const found = noteOf(error, isWithout);
      // Each check of a module that has no content says the same.
      if (found !== undefined && outcomes.get(module) !== found.reason) announce({ module, ...found });
      outcomes.set(module, found?.reason ?? "");
    },
    recovered: (module) =>
      announce({ module, reason: "SourceRecovered", note: "the locked content is in place again" }),
  };
}

/** Shows the contents in a lock as series. */
function lockedSeries({ metrics }: Pick<SupplyOptions, "metrics">): (lock: Lock) => void {
  const shown = new Map<string, string>();
  return (lock) => {
    for (const [module, digest] of shown) {
      if (lock.get(module)?.digest === digest) continue;
      metrics.dropSeries({ module }, ["sourceModule"]);
      shown.delete(module);
    }
    for (const [module, { version, digest }] of lock) {
      if (shown.has(module)) continue;
      metrics.set("sourceModule", { module, version, digest }, 1);
      shown.set(module, digest);
    }
  };
}

/** What is announced of a check that did not end well. Content that is refused is announced when it is refused. */
function noteOf(
  { reason, message: note }: Partial<ModuleError> = { message: "the locked content is not on disk" },
  isWithout: boolean,
): Pick<OperatorEvent, "reason" | "note"> | undefined {
  if (note === undefined) return undefined;
  if (isWithout) return { reason: "SourceUnavailable", note };
  return reason === "Withdrawn" ? { reason, note } : undefined;
}
