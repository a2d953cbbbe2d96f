export { DROP_REASONS, makeOtlpExport, type SpanExport } from "./export.ts";
export { RunRing, type RunView } from "./run-ring.ts";
export {
  Tracer,
  currentSpan,
  newCause,
  recordFinishedSpan,
  getTaskOrigin,
  withoutActiveSpan,
  span,
  currentTraceParent,
  currentVisibleTraceId,
} from "./tracer.ts";
export type { OpenSpan } from "./tracer.ts";
