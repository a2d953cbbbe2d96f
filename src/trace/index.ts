export { DROP_REASONS, exportTo, type SpanExport } from "./export.ts";
export { RunRing, type RunView } from "./run-ring.ts";
export {
  Tracer,
  current,
  traceEvent,
  note,
  origin,
  outside,
  span,
  traceParent,
  traceToShow,
} from "./tracer.ts";
export type { OpenSpan, Span } from "./tracer.ts";
