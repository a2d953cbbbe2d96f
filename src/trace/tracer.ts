/** Takes down what tasks are made of, and tells those who listen. */

import { oneLine } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import { newSpanId, outside, within } from "./context.ts";
import type { About, Attributes, Done, OpenSpan, Span, SpanRecorder } from "./context.ts";
import type { SpanExport } from "./export.ts";

/** Who is told of spans, with secrets still in their texts; its methods are cheap and never throw. */
export interface SpanListener {
  /** A task begins to run, which followed from that. */
  began?(task: Span, from: Span): void;
  /** A span has ended; a cause has where the first task that follows from it begins to wait. */
  ended(span: Span): void;
}

/** A task that is about to run. */
export interface TaskStart {
  readonly name: string;
  readonly attributes: Attributes;
  /** Whose it is; statuses of this module belong to it. */
  readonly module: string | undefined;
  readonly from: Span;
  readonly waitingSince: number;
}

interface TracerOptions {
  readonly clock: Clock;
  /** Where spans are handed on to, beside those who listen. */
  readonly spanExport?: SpanExport | undefined;
}

/** For this long after its end, what is written to a status belongs to the task. */
const BELONGS_MS = 60_000;

/** Takes down spans of tasks, and of what is done within them. */
export class Tracer implements SpanRecorder {
  readonly #options: TracerOptions;
  readonly #listeners: SpanListener[] = [];
  /** Causes that listeners were told of. */
  readonly #told = new WeakSet<Span>();
  /** The last task of each module (undefined: of none), and when it ended. */
  readonly #last = new Map<string | undefined, { readonly task: Span; endMs: number }>();

  constructor(options: TracerOptions) {
    this.#options = options;
    if (options.spanExport !== undefined) this.listen(options.spanExport);
  }

  listen(listener: SpanListener): void {
    this.#listeners.push(listener);
  }

  /** Runs a task: its span begins with its waiting. */
  async task<R>(start: TaskStart, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    const { name, attributes, module, from, waitingSince: startMs } = start;
    const ids = newIds(from);
    const task: Span = { ...ids, taskId: ids.spanId, kind: "task", name, attributes, startMs };
    if (this.#isNews(from)) this.#tell({ ...from, endMs: Math.max(from.startMs, startMs) });
    for (const each of this.#listeners) each.began?.(task, from);
    const { clock } = this.#options;
    this.note(task, { kind: "wait", name: "wait in queue" }, { ms: clock.now() - startMs });
    const last = { task, endMs: Infinity };
    this.#last.set(module, last);
    try {
      return await this.#run(task, work);
    } finally {
      last.endMs = clock.now();
    }
  }

  /** Writes the status of a module, or of the operator: within its last task, unless that has long been over. */
  status<R>(module: string | undefined, name: string, write: () => Promise<R>): Promise<R> {
    const last = this.#last.get(module);
    const belongs = last !== undefined && this.#options.clock.now() < last.endMs + BELONGS_MS;
    if (!belongs) this.#last.delete(module);
    return outside(() => (belongs ? this.span(last.task, { kind: "status", name }, write) : write()));
  }

  isExported(traceId: string): boolean | undefined {
    return this.#options.spanExport?.takes(traceId);
  }

  span<R>(parent: Span, about: About, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    return this.#run(this.#child(parent, about, this.#options.clock.now()), work);
  }

  note(parent: Span, about: About, { ms, error, endMs = this.#options.clock.now() }: Done): void {
    const child = this.#child(parent, about, endMs - ms);
    this.#tell({ ...child, endMs, ...(error === undefined ? {} : { error }) });
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
      return await within({ span, recorder: this }, () => work(open));
    } catch (thrown) {
      error = oneLine(thrown);
      throw thrown;
    } finally {
      // The time of day may be set meanwhile.
      const endMs = now + clock.monotonic() - monotonic;
      this.#tell({ ...span, attributes, endMs, ...(error === undefined ? {} : { error }) });
    }
  }

  #child(parent: Span, { attributes = {}, ...about }: About, startMs: number): Span {
    return { ...newIds(parent), taskId: parent.taskId, ...about, attributes, startMs };
  }

  /** Whether it is a cause that nobody was told of. */
  #isNews(from: Span): boolean {
    if (from.kind !== "cause" || this.#told.has(from)) return false;
    this.#told.add(from);
    return true;
  }

  #tell(span: Span): void {
    for (const each of this.#listeners) each.ended(span);
  }
}

function newIds({ traceId, spanId: parentId }: Span): Pick<Span, "traceId" | "spanId" | "parentId"> {
  return { traceId, spanId: newSpanId(), parentId };
}
