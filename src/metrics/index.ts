export { HookMetricError, HookMetrics, type HookMetricOwner } from "./hook-metrics.ts";
export { hasHook } from "./inventory.ts";
export { bindingTimes, countDroppedTick, countWait, measure } from "./measure.ts";
export { Metrics } from "./metrics.ts";
export type { Exposition } from "./family.ts";
export {
  configReporter,
  driftReporter,
  hangReporter,
  healthReporter,
  blockerReporter,
  makeHelmRecorder,
  makeRecorder,
  type RecorderParts,
} from "./recorder.ts";
export { SERIES } from "./series.ts";
