export { activationOf } from "./activation.ts";
export {
  HookMetricError,
  HookMetrics,
  type HookMetricOperation,
  type HookMetricOwner,
} from "./hook-metrics.ts";
export { hasHook } from "./inventory.ts";
export { bindingTimes, countWait, measure } from "./measure.ts";
export {
  createMetrics,
  type HookLabels,
  type HookRunSample,
  type HookSample,
  type KubeLabels,
  type Metrics,
  type ModuleSample,
  type QueueSample,
  type RequestSample,
} from "./metrics.ts";
export { SERIES, type SeriesDefinition } from "./series.ts";
