/**
 * Records spans of tasks, and tracks the current span across async calls. A trace begins with a cause, the external event that led to tasks,
 * such as a changed object. Its children are the tasks; theirs are the calls of helm, hooks and the API server.
 */

import { AsyncLocalStorage } from "node:async_hooks";

import { oneLine, systemClock, type Clock } from "../index.ts";
import type { Attributes, Span } from "../model/index.ts";

/** Random ids as in W3C trace contexts. Their version and variant digits keep them from being all zero. */
const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");
const newSpanId = (): string => {
  const uuid = crypto.randomUUID();
  return uuid.slice(0, 8) + uuid.slice(-8);
};

/** What is known of a span at its start. */
export interface SpanStart {
  readonly kind: Span["kind"];
  readonly name: string;
  readonly attributes?: Attributes;
}

/** What is known of a span at its end. */
export interface SpanEnd {
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
  readonly recorder: Tracer;
  isOver: boolean;
}

const store = new AsyncLocalStorage<TraceContext | undefined>();
/** What work gets that no tracer records: it ignores attributes and failures. */
const UNRECORDED_SPAN: OpenSpan = { set: () => {}, fail: () => {} };

/** The context of the current span, or of the nearest outer span that has not ended: a timer may run after the span that set it. Undefined outside all spans. */
function currentContext(): TraceContext | undefined {
  let context = store.getStore();
  while (context?.isOver === true) context = context.outer;
  return context;
}

/** The innermost span of the calling code that has not ended; undefined outside all spans. */
export function currentSpan(): Span | undefined {
  return currentContext()?.span;
}

/** The current span as W3C `traceparent`, with which child processes and requests join the trace; undefined without a collector. The end `01` means "sampled". */
export function currentTraceParent(): string | undefined {
  const context = currentContext();
  if (context === undefined) return undefined;
  const { traceId, spanId } = context.span;
  const isExported = context.recorder.isExported(traceId);
  return isExported === undefined ? undefined : `00-${traceId}-${spanId}-${isExported ? "01" : "00"}`;
}

/** The current trace id, if users can look it up: in the collector or, without one, in the last runs. */
export function currentVisibleTraceId(): string | undefined {
  const context = currentContext();
  if (context === undefined) return undefined;
  const { traceId } = context.span;
  const isLeftOutBySampling = context.recorder.isExported(traceId) === false;
  return isLeftOutBySampling ? undefined : traceId;
}

/** Runs `work` outside all spans: work that outlives the current span, such as a watch, must not belong to it. */
export function withoutActiveSpan<R>(work: () => R): R {
  return store.run(undefined, work);
}

/** Runs `work` with `span` as the current one. What `work` leaves behind (timers, connections) then belongs to the outer span. */
async function runInContext<R>(
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

/** Runs `work` within a new child of the current span. Outside a task, `work` runs without a span. */
export function span<R>(start: SpanStart, work: (span: OpenSpan) => Promise<R>): Promise<R> {
  const context = currentContext();
  return context === undefined ? work(UNRECORDED_SPAN) : context.recorder.span(context.span, start, work);
}

/** Records work that has ended already as a child of the current span. Does nothing outside a task. */
export function recordFinishedSpan(start: SpanStart, end: SpanEnd): void {
  const context = currentContext();
  context?.recorder.recordFinishedSpan(context.span, start, end);
}

/** The cause of a task that is queued now: the current span, or outside all spans (in a timer) a new cause named `due`. */
export function getTaskOrigin(): Span {
  return currentSpan() ?? newCause("due");
}

/** The first span of a new trace, the origin of the tasks that it leads to. Its name says which external event happened. */
export function newCause(name: string, attributes: Attributes = {}): Span {
  const ids = { traceId: newTraceId(), spanId: newSpanId() };
  return { ...ids, kind: "cause", name, attributes, startMs: systemClock.now() };
}

/** Listener for spans, whose texts are not redacted yet. Its methods must be cheap and never throw. */
export interface SpanListener {
  /** A task with the cause `from` begins to run. */
  onTaskBegan?(task: Span, from: Span): void;
  /** A span has ended; a cause ends when its first task is queued. */
  onSpanEnded(span: Span): void;
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
  readonly spanExport?: (SpanListener & { isSampled(traceId: string): boolean }) | undefined;
}

/** For this long after its end, status writes belong to the task. */
const STATUS_AFTER_TASK_MS = 60_000;

/** Records the spans of tasks and of the work within them. Its listeners, the ring of the last runs and the export, get each span that has ended. */
export class Tracer {
  readonly #options: TracerOptions;
  readonly #listeners: SpanListener[] = [];
  readonly #reportedCauses = new WeakSet<Span>();
  /** The last task of each module (undefined = without module), and its end. */
  readonly #lastTasks = new Map<string | undefined, { readonly task: Span; endMs: number }>();

  constructor(options: TracerOptions) {
    this.#options = options;
    if (options.spanExport !== undefined) this.addListener(options.spanExport);
  }

  addListener(listener: SpanListener): void {
    this.#listeners.push(listener);
  }

  /** Runs a task within its span. The span begins when the task was queued, so that a trace shows the wait in the queue, too. */
  async task<R>(start: TaskStart, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    const { name, attributes, module, from, waitingSince: startMs } = start;
    const ids = makeChildIds(from);
    const task: Span = { ...ids, taskId: ids.spanId, kind: "task", name, attributes, startMs };
    this.#reportCauseOnce(from, Math.max(from.startMs, startMs)); // The cause ends when its first task is queued.
    for (const each of this.#listeners) each.onTaskBegan?.(task, from);
    const { clock } = this.#options;
    this.recordFinishedSpan(task, { kind: "wait", name: "wait in queue" }, { ms: clock.now() - startMs });
    const lastTask = { task, endMs: Infinity };
    this.#lastTasks.set(module, lastTask); // For `traceStatusWrite`.
    return this.#runSpan(task, work).finally(() => (lastTask.endMs = clock.now()));
  }

  /**
   * Runs a write of the status of a module, or of the operator if `module` is undefined. The write becomes a span of the last
   * task of the module, which has caused it, unless that task ended more than a minute ago.
   */
  traceStatusWrite<R>(module: string | undefined, name: string, write: () => Promise<R>): Promise<R> {
    const last = this.#lastTasks.get(module);
    if (last !== undefined && this.#options.clock.now() < last.endMs + STATUS_AFTER_TASK_MS)
      return withoutActiveSpan(() => this.span(last.task, { kind: "status", name }, write));
    this.#lastTasks.delete(module);
    return withoutActiveSpan(write);
  }

  /** Whether a trace is exported; undefined without an exporter. */
  isExported(traceId: string): boolean | undefined {
    return this.#options.spanExport?.isSampled(traceId);
  }

  /** Runs `work` within a new child of `parent`. */
  span<R>(parent: Span, start: SpanStart, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    return this.#runSpan(this.#makeChild(parent, start, this.#options.clock.now()), work);
  }

  /** Records a child of `parent` whose work has ended already. */
  recordFinishedSpan(
    parent: Span,
    start: SpanStart,
    { ms, error, endMs = this.#options.clock.now() }: SpanEnd,
  ): void {
    const child = this.#makeChild(parent, start, endMs - ms);
    this.#report({ ...child, endMs, error });
  }

  /** Runs `work` within the span, and reports the span to the listeners when `work` has ended. `work` may add attributes, or mark the span as failed. */
  async #runSpan<R>(span: Span, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    const { clock } = this.#options;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    let { attributes } = span;
    let error: string | undefined;
    const openSpan: OpenSpan = {
      set: (more) => (attributes = { ...attributes, ...more }),
      fail: (text) => (error = text),
    };
    try {
      return await runInContext({ span, recorder: this }, () => work(openSpan));
    } catch (thrown) {
      error = oneLine(thrown);
      throw thrown;
    } finally {
      // The wall clock may have been set meanwhile, so use the monotonic clock for the duration.
      const endMs = now + clock.monotonic() - monotonic;
      this.#report({ ...span, attributes, endMs, error });
    }
  }

  /** A span in progress below `parent`, in the same trace and task. */
  #makeChild(parent: Span, { attributes = {}, ...kindAndName }: SpanStart, startMs: number): Span {
    return { ...makeChildIds(parent), taskId: parent.taskId, ...kindAndName, attributes, startMs };
  }

  /** Reports a cause to the listeners when its first task begins: a cause without tasks is not worth a trace. */
  #reportCauseOnce(from: Span, endMs: number): void {
    if (from.kind !== "cause" || this.#reportedCauses.has(from)) return;
    this.#reportedCauses.add(from);
    this.#report({ ...from, endMs });
  }

  #report(span: Span): void {
    for (const each of this.#listeners) each.onSpanEnded(span);
  }
}

/** The ids of a new span below another one: the trace of the parent, and a span id of its own. */
function makeChildIds({ traceId, spanId: parentId }: Span): Pick<Span, "traceId" | "spanId" | "parentId"> {
  return { traceId, spanId: newSpanId(), parentId };
}
