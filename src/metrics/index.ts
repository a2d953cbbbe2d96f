export { activationOf } from "./activation.ts";
export {
  HookMetricError,
  HookMetrics,
  type HookMetricOperation,
  type HookMetricOwner,
} from "./hook-metrics.ts";
export { hasHook } from "./inventory.ts";
export { bindingTimes, countWait, measure } from "./measure.ts";
export { createMetrics, type Metrics } from "./metrics.ts";
export { SERIES } from "./series.ts";
