export { current, happened, note, origin, outside, span, traceParent, traceToShow } from "./context.ts";
export type { OpenSpan, Span } from "./context.ts";
export { DROP_REASONS, exportTo } from "./export.ts";
export type { SpanExport } from "./export.ts";
export { RunRing } from "./run-ring.ts";
export type { RunView } from "./run-ring.ts";
export { Tracer } from "./tracer.ts";
