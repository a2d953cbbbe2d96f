export { HookMetricScopes } from "./hook-metric-scopes.ts";
export { HookMetricError, HookMetrics, type HookMetricOwner } from "./hook-metrics.ts";
export { hasHook } from "./inventory.ts";
export {
  makeBindingTimes,
  countDroppedTick,
  countRequests,
  recordTaskWait,
  connectMetrics,
} from "./measure.ts";
export { Metrics } from "./metrics.ts";
export type { Exposition } from "./family.ts";
export {
  makeConfigReporter,
  makeDriftReporter,
  makeHangReporter,
  makeHealthReporter,
  makeBlockerReporter,
  makeHelmRecorder,
  makeRecorder,
  type RecorderParts,
} from "./recorder.ts";
export { SERIES } from "./series.ts";
