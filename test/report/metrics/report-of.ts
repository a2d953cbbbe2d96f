import { silentLogger } from "../../../src/base/index.ts";
import { Metrics, Report } from "../../../src/report/metrics/index.ts";
import type { ReportParts } from "../../../src/report/metrics/report.ts";
import type { OperatorEvent } from "../../../src/report/index.ts";
import { viewOf } from "../views.ts";

/** A report, its metrics, and the Events that it announces. */
export function reportOf(parts: Partial<ReportParts> = {}) {
  const events: OperatorEvent[] = [];
  const metrics = new Metrics("addon_operator_");
  const report = new Report({
    metrics,
    logger: silentLogger,
    state: { view: viewOf([], { converge: { cause: undefined } as never }) } as never,
    idleCollector: { restart: () => {} },
    watchIssues: { report: () => {} } as never,
    announce: (event) => void events.push(event),
    listHookIssues: () => [],
    ...parts,
  });
  return { report, metrics, events };
}
