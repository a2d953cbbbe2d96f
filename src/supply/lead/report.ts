/** What module sources report besides statuses: Events, log lines and series. */

import type { CheckTools } from "./check.ts";
import type { SupplyOptions } from "../shared.ts";

/** Reports what checks of sources have found. */
export function makeReport({ metrics, announce, logger }: SupplyOptions): CheckTools["report"] {
  return {
    answered: (source, code) => metrics.add("sourceRequests", { source, code }),
    fetched: (bytes) => metrics.add("sourceFetched", {}, bytes),
    notVerified(source, module, message) {
      metrics.add("sourceVerifyFailures", { source, module });
      announce({ module, reason: "NotVerified", note: message });
      logger.error("Content of a module is refused", { module, source, error: message });
    },
    locked(module, { version, digest, source }, before) {
      if (before !== undefined) metrics.drop({ module }, ["sourceModule"]);
      metrics.set("sourceModule", { module, version, digest }, 1);
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
    recovered: (module) =>
      announce({ module, reason: "SourceRecovered", note: "the locked content is in place again" }),
  };
}
