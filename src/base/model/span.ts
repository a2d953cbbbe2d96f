/** A span of a trace: what went on, and when (docs/reference/metrics.md, "Traces"). */

type SpanKind = "cause" | "task" | "wait" | "hook" | "helm" | "api" | "status";

/** Names, counts and codes; flat, so that every backend can display them. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * A unit of work, in progress without `endMs`. Times are milliseconds since the epoch. Consumers redact the texts before
 * display: few spans are displayed, and more secrets are known by then.
 */
export interface Span {
  /** 32 hexadecimal digits, shared by all spans of one cause. */
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string | undefined;
  /** Span id of its task; for a task, its own. */
  readonly taskId?: string | undefined;
  readonly kind: SpanKind;
  readonly name: string;
  readonly attributes: Attributes;
  readonly startMs: number;
  readonly endMs?: number;
  readonly error?: string | undefined;
}
