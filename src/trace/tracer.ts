/** Spans: the one that is at work at this moment, and who takes down what tasks are made of. */

import { AsyncLocalStorage } from "node:async_hooks";

import { breathe, oneLine, systemClock, type Clock } from "../lib/index.ts";
import type { SpanExport } from "./export.ts";

/** `cause` is what happened outside; it leads to tasks, and these are made of the others. */
type SpanKind = "cause" | "task" | "wait" | "hook" | "helm" | "api" | "status";

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
const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");
const newSpanId = (): string => {
  const uuid = crypto.randomUUID();
  return uuid.slice(0, 8) + uuid.slice(-8);
};

/** What is said of a span before it begins. */
export interface About {
  readonly kind: SpanKind;
  readonly name: string;
  readonly attributes?: Attributes;
}

/** How it went. */
export interface Done {
  readonly ms: number;
  /** Now, where it is not said. */
  readonly endMs?: number;
  readonly error?: string | undefined;
}

/** A span under way, for whoever does the work. */
export interface OpenSpan {
  /** Adds attributes. */
  set(attributes: Attributes): void;
  /** It failed, although nothing is thrown. */
  fail(error: string): void;
}

/** What surrounds the work of this moment. */
interface Surroundings {
  readonly span: Span;
  readonly outer: Surroundings | undefined;
  /** None within a cause: what it leads to is recorded, not how that is found out. */
  readonly recorder: Tracer | undefined;
  /** Timers and connections that were made within a span outlive it, and are no part of it then. */
  isOver: boolean;
}

const store = new AsyncLocalStorage<Surroundings | undefined>();
const UNRECORDED: OpenSpan = { set: () => {}, fail: () => {} };

/** The innermost that is not over. */
function surroundings(): Surroundings | undefined {
  let each = store.getStore();
  while (each?.isOver === true) each = each.outer;
  return each;
}

/** The span of what is done now. */
export function current(): Span | undefined {
  return surroundings()?.span;
}

/** The context of what is done now for others, as W3C writes it; undefined where no spans are handed on. */
export function traceParent(): string | undefined {
  const { span, recorder } = surroundings() ?? {};
  const isExported = span && recorder?.isExported(span.traceId);
  return isExported === undefined
    ? undefined
    : `00-${span?.traceId}-${span?.spanId}-${isExported ? "01" : "00"}`;
}

/** The trace of what is done now, where it can be looked up: the collector gets it, or there is none. */
export function traceToShow(): string | undefined {
  const { span, recorder } = surroundings() ?? {};
  if (span === undefined || recorder === undefined) return undefined;
  return recorder.isExported(span.traceId) === false ? undefined : span.traceId;
}

/** Does the work as a part of nothing: what goes on for long belongs to no span that happens to be open. */
export function outside<R>(work: () => R): R {
  return store.run(undefined, work);
}

/** Does the work within a span that is recorded. */
async function within<R>(
  { span, recorder }: Pick<Surroundings, "span" | "recorder">,
  work: () => Promise<R>,
): Promise<R> {
  const inner: Surroundings = { span, recorder, outer: surroundings(), isOver: false };
  try {
    return await store.run(inner, work);
  } finally {
    inner.isOver = true;
  }
}

/** Does the work as a part of what is done now; where nobody records that, it is simply done. */
export function span<R>(about: About, work: (span: OpenSpan) => Promise<R>): Promise<R> {
  const now = surroundings();
  return now?.recorder === undefined ? work(UNRECORDED) : now.recorder.span(now.span, about, work);
}

/** Notes what has been done as a part of what is done now. */
export function note(about: About, done: Done): void {
  const now = surroundings();
  now?.recorder?.note(now.span, about, done);
}

/** What a task that is offered now follows from: what is done now, else just that it is owed. */
export function origin(): Span {
  return current() ?? causeOf("owed");
}

function causeOf(name: string, attributes: Attributes = {}): Span {
  const ids = { traceId: newTraceId(), spanId: newSpanId() };
  return { ...ids, kind: "cause", name, attributes, startMs: systemClock.now() };
}

/** Takes in what happened outside: tasks that it leads to belong to it. Within other work it is a part of that. */
export function happened(name: string, attributes: Attributes, takeIn: () => void): void {
  if (surroundings() !== undefined) return takeIn();
  const span = causeOf(name, attributes);
  const inner: Surroundings = { span, recorder: undefined, outer: undefined, isOver: false };
  // What follows is decided in the same turn of the event loop; timers that are set meanwhile are no part of it.
  void breathe().then(() => (inner.isOver = true));
  store.run(inner, takeIn);
}

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
export class Tracer {
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

  /** Whether spans of a trace are handed on; undefined where none are. */
  isExported(traceId: string): boolean | undefined {
    return this.#options.spanExport?.takes(traceId);
  }

  span<R>(parent: Span, about: About, work: (span: OpenSpan) => Promise<R>): Promise<R> {
    return this.#run(this.#child(parent, about, this.#options.clock.now()), work);
  }

  /** Notes something that is over. */
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
