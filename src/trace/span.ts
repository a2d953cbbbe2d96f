/** What is recorded of one piece of work. */

/** `cause` is what happened outside; it leads to tasks, and these are made of the others. */
export type SpanKind = "cause" | "task" | "wait" | "hook" | "helm" | "api" | "status";

/** Flat, so that anything can show them. Names, counts and codes. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * A piece of work; without `endMs` it is under way. Times are milliseconds since the epoch. Whoever shows it takes
 * secrets out of its texts: few are ever shown, and more secrets are known by then.
 */
export interface Span {
  /** 32 hexadecimal digits: the same in all that followed from one cause. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly parentId?: string | undefined;
  /** The span of the task it belongs to, which for a task is itself. */
  readonly taskId?: string | undefined;
  readonly kind: SpanKind;
  readonly name: string;
  readonly attributes: Attributes;
  readonly startMs: number;
  readonly endMs?: number;
  readonly error?: string;
}

/** Ids as in W3C trace contexts: random, and never all zero. */
export const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");
export const newSpanId = (): string => {
  const uuid = crypto.randomUUID();
  return uuid.slice(0, 8) + uuid.slice(-8);
};
