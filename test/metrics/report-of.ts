import { silentLogger } from "../../src/lib/index.ts";
import { Metrics, Report } from "../../src/metrics/index.ts";
import type { ReportParts } from "../../src/metrics/report.ts";
import type { OperatorEvent } from "../../src/status/index.ts";
import { viewOf } from "../status/views.ts";

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
