export { HookMetricScopes } from "./hook-metric-scopes.ts";
export { HookMetricError, HookMetrics, type HookMetricOwner } from "./hook-metrics.ts";
export { connectMetrics, countFailures, countRequests } from "./measure.ts";
export { Metrics } from "./metrics.ts";
export type { Exposition } from "./family.ts";
export { Report } from "./report.ts";
export { SERIES } from "./series.ts";
