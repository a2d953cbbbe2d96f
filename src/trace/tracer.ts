/** Records spans of tasks, and tracks the current span across async calls. */

import { AsyncLocalStorage } from "node:async_hooks";

import { yieldToEventLoop, oneLine, systemClock, type Clock } from "../lib/index.ts";

/** `cause` is an external event; it leads to tasks, which contain the other kinds. */
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
  /** 16 hexadecimal digits. */
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

/** Ids as in W3C trace contexts: random, and never all zero. */
const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");
const newSpanId = (): string => {
  const uuid = crypto.randomUUID();
  return uuid.slice(0, 8) + uuid.slice(-8);
};

/** Data of a span that is known at its start. */
export interface About {
  readonly kind: SpanKind;
  readonly name: string;
  readonly attributes?: Attributes;
}

/** Data of a span that is known at its end. */
export interface Done {
  readonly ms: number;
  /** Default: now. */
  readonly endMs?: number;
  readonly error?: string | undefined;
}

/** A span in progress, for the code that does the work. */
export interface OpenSpan {
  set(attributes: Attributes): void;
  /** Marks the span as failed without an exception. */
  fail(error: string): void;
}

/** The async context of the current work. */
interface TraceContext {
  readonly span: Span;
  readonly outer: TraceContext | undefined;
  /** Undefined within a cause: only the tasks that it leads to are recorded. */
  readonly recorder: Tracer | undefined;
  /** Timers and connections that a span created outlive it, and do not belong to it afterwards. */
  isOver: boolean;
}

const store = new AsyncLocalStorage<TraceContext | undefined>();
const UNRECORDED: OpenSpan = { set: () => {}, fail: () => {} };

/** The innermost context that is not over; undefined outside all spans. */
function currentContext(): TraceContext | undefined {
  let context = store.getStore();
  while (context?.isOver === true) context = context.outer;
  return context;
}

export function current(): Span | undefined {
  return currentContext()?.span;
}

/** The current W3C `traceparent` for child processes and requests; undefined if no spans are exported. */
export function traceParent(): string | undefined {
  const { span, recorder } = currentContext() ?? {};
  const isExported = span && recorder?.isExported(span.traceId);
  return isExported === undefined
    ? undefined
    : `00-${span?.traceId}-${span?.spanId}-${isExported ? "01" : "00"}`;
}

/** The current trace id, if users can look it up: the collector gets the trace, or there is no collector. */
export function traceToShow(): string | undefined {
  const { span, recorder } = currentContext() ?? {};
  if (span === undefined || recorder === undefined) return undefined;
  return recorder.isExported(span.traceId) === false ? undefined : span.traceId;
}

/** Runs `work` outside all spans, for long-running work that must not belong to the current span. */
export function outside<R>(work: () => R): R {
  return store.run(undefined, work);
}

/** Runs `work` within a recorded span. */
async function runWithin<R>(
  { span, recorder }: Pick<TraceContext, "span" | "recorder">,
  work: () => Promise<R>,
): Promise<R> {
  const inner: TraceContext = { span, recorder, outer: currentContext(), isOver: false };
  try {
    return await store.run(inner, work);
  } finally {
    inner.isOver = true;
  }
}

/** Runs `work` within a child of the current span; without a span if nothing is recorded. */
export function span<R>(about: About, work: (span: OpenSpan) => Promise<R>): Promise<R> {
  const context = currentContext();
  return context?.recorder === undefined
    ? work(UNRECORDED)
    : context.recorder.span(context.span, about, work);
}

/** Records finished work as a child of the current span. */
export function note(about: About, done: Done): void {
  const context = currentContext();
  context?.recorder?.note(context.span, about, done);
}

/** The cause of a task that is queued now: the current span, or a new cause. */
export function origin(): Span {
  return current() ?? causeOf("due");
}

/** A new trace that begins with an external event. */
function causeOf(name: string, attributes: Attributes = {}): Span {
  const ids = { traceId: newTraceId(), spanId: newSpanId() };
  return { ...ids, kind: "cause", name, attributes, startMs: systemClock.now() };
}

/** Handles an external event as the cause of the tasks that it leads to. Within another span, it is a child of that. */
export function traceEvent(name: string, attributes: Attributes, takeIn: () => void): void {
  if (currentContext() !== undefined) return takeIn();
  const span = causeOf(name, attributes);
  const inner: TraceContext = { span, recorder: undefined, outer: undefined, isOver: false };
  // Tasks are queued in the same turn of the event loop; timers that are set meanwhile do not belong to the cause.
  void yieldToEventLoop().then(() => (inner.isOver = true));
  store.run(inner, takeIn);
}

/** Listener for spans, whose texts are not redacted yet. Its methods must be cheap and never throw. */
export interface SpanListener {
  /** A task with the cause `from` begins to run. */
  began?(task: Span, from: Span): void;
  /** A span has ended; a cause ends when its first task is queued. */
  ended(span: Span): void;
}

/** A task that is about to run. */
export interface TaskStart {
  readonly name: string;
  readonly attributes: Attributes;
  /** The module of the task; writes of this module's status belong to the task. */
  readonly module: string | undefined;
  readonly from: Span;
  readonly waitingSince: number;
}

interface TracerOptions {
  readonly clock: Clock;
  /** Exports the spans of sampled traces, in addition to the listeners. */
  readonly spanExport?: (SpanListener & { takes(traceId: string): boolean }) | undefined;
}

/** For this long after its end, status writes belong to the task. */
const STATUS_AFTER_TASK_MS = 60_000;

/** Records the spans of tasks and of the work within them. */
export class Tracer {
  readonly #options: TracerOptions;
  readonly #listeners: SpanListener[] = [];
  /** Causes that were reported to listeners. */
  readonly #reported = new WeakSet<Span>();
  /** The last task of each module (undefined = without module), and its end. */
  readonly #lastTasks = new Map<string | undefined, { readonly task: Span; endMs: number }>();

  constructor(options: TracerOptions) {
    this.#options = options;
    if (options.spanExport !== undefined) this.listen(options.spanExport);
  }

  listen(listener: SpanListener): void {
    this.#listeners.push(listener);
  }

  /** Runs a task; its span begins when it was queued. */
  async task<R>(start: TaskStart, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    const { name, attributes, module, from, waitingSince: startMs } = start;
    const ids = newIds(from);
    const task: Span = { ...ids, taskId: ids.spanId, kind: "task", name, attributes, startMs };
    if (this.#isUnreportedCause(from)) this.#report({ ...from, endMs: Math.max(from.startMs, startMs) });
    for (const each of this.#listeners) each.began?.(task, from);
    const { clock } = this.#options;
    this.note(task, { kind: "wait", name: "wait in queue" }, { ms: clock.now() - startMs });
    const last = { task, endMs: Infinity };
    this.#lastTasks.set(module, last);
    try {
      return await this.#run(task, work);
    } finally {
      last.endMs = clock.now();
    }
  }

  /** Writes the status of a module or of the operator, within its last task unless that ended long ago. */
  status<R>(module: string | undefined, name: string, write: () => Promise<R>): Promise<R> {
    const last = this.#lastTasks.get(module);
    const belongsToTask = last !== undefined && this.#options.clock.now() < last.endMs + STATUS_AFTER_TASK_MS;
    if (!belongsToTask) this.#lastTasks.delete(module);
    return outside(() => (belongsToTask ? this.span(last.task, { kind: "status", name }, write) : write()));
  }

  /** Whether a trace is exported; undefined without an exporter. */
  isExported(traceId: string): boolean | undefined {
    return this.#options.spanExport?.takes(traceId);
  }

  span<R>(parent: Span, about: About, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    return this.#run(this.#child(parent, about, this.#options.clock.now()), work);
  }

  /** Records a finished span. */
  note(parent: Span, about: About, { ms, error, endMs = this.#options.clock.now() }: Done): void {
    const child = this.#child(parent, about, endMs - ms);
    this.#report({ ...child, endMs, error });
  }

  async #run<R>(span: Span, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    const { clock } = this.#options;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    let { attributes } = span;
    let error: string | undefined;
    const open: OpenSpan = {
      set: (more) => (attributes = { ...attributes, ...more }),
      fail: (text) => (error = text),
    };
    try {
      return await runWithin({ span, recorder: this }, () => work(open));
    } catch (thrown) {
      error = oneLine(thrown);
      throw thrown;
    } finally {
      // The wall clock may have been set meanwhile, so use the monotonic clock for the duration.
      const endMs = now + clock.monotonic() - monotonic;
      this.#report({ ...span, attributes, endMs, error });
    }
  }

  #child(parent: Span, { attributes = {}, ...about }: About, startMs: number): Span {
    return { ...newIds(parent), taskId: parent.taskId, ...about, attributes, startMs };
  }

  /** Whether the cause was not reported yet. Marks it as reported. */
  #isUnreportedCause(from: Span): boolean {
    if (from.kind !== "cause" || this.#reported.has(from)) return false;
    this.#reported.add(from);
    return true;
  }

  #report(span: Span): void {
    for (const each of this.#listeners) each.ended(span);
  }
}

function newIds({ traceId, spanId: parentId }: Span): Pick<Span, "traceId" | "spanId" | "parentId"> {
  return { traceId, spanId: newSpanId(), parentId };
}
