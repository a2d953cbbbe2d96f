/** A ring buffer of the last task runs with their spans and log lines. Span texts are not redacted yet. */

import type { Clock, LogEntry, LogFields, LogContext } from "../lib/index.ts";
import { current, type Span, type SpanListener } from "./tracer.ts";

/** Limits of the ring; the oldest run is dropped first. */
interface RingBounds {
  readonly runs: number;
  readonly bytes: number;
  /** Runs per kind of task and module: frequent tasks do not displace rare ones. */
  readonly alike: number;
  /** Bytes of spans and lines per run; beyond, its oldest lines are dropped. */
  readonly runBytes: number;
}

const BOUNDS: RingBounds = { runs: 1000, bytes: 2 * 1024 * 1024, alike: 20, runBytes: 64 * 1024 };
/** Most characters of a line; longer lines are cut. */
const LONGEST_LINE = 4096;
/** Memory overhead of an entry and of a run. */
const ENTRY_BYTES = 80;
const RUN_BYTES = 600;

interface RunLine extends Pick<LogEntry, "level" | "message" | "fields"> {
  /** Later lines of any run have higher numbers. */
  readonly n: number;
  readonly timeMs: number;
}

/** A run for display. */
export interface RunView {
  /** Span id of its task. */
  readonly id: string;
  readonly task: Span;
  /** The cause of the run. */
  readonly from: Pick<Span, "kind" | "name" | "startMs">;
  readonly isOver: boolean;
  /** Spans within the task, ordered by their ends. */
  readonly spans: readonly Span[];
  readonly lines?: readonly RunLine[];
  /** Number of spans and lines that exceeded the limits. */
  readonly dropped: number;
}

/** Selects runs and their parts. */
interface RunQuery {
  readonly module?: string | undefined;
  /** Only runs that changed after this cursor. */
  readonly after?: number | undefined;
  readonly lines?: boolean;
  /** At most this many of the newest runs. */
  readonly newest?: number;
}

interface Displayed {
  /** `after` of the next query. */
  readonly cursor: number;
  readonly runs: RunView[];
}

/** Stored as text, so that its size is known; it is parsed only for display. */
interface Entry {
  readonly n: number;
  readonly text: string;
}

interface Run {
  readonly id: string;
  readonly alike: string;
  readonly from: RunView["from"];
  task: Span;
  isOver: boolean;
  spans: Entry[];
  lines: Entry[];
  dropped: number;
  bytes: number;
  /** Cursor of the last change. */
  n: number;
}

/** Stores the last runs, bounded in number and bytes. */
export class RunRing implements SpanListener, LogContext {
  readonly #clock: Clock;
  readonly #bounds: RingBounds;
  readonly #runs = new Map<string, Run>();
  /** Runs by kind of task and module, oldest first. */
  readonly #alike = new Map<string, Set<Run>>();
  #bytes = 0;
  #n = 0;

  constructor(clock: Clock, bounds: Partial<RingBounds> = {}) {
    this.#clock = clock;
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /** Approximate size in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The selected runs in the order of their start. */
  views({ module, after = 0, lines = false, newest = this.#bounds.runs }: RunQuery = {}): Displayed {
    const runs = [...this.#runs.values()].filter(
      (run) => run.n > after && (module === undefined || run.task.attributes["module"] === module),
    );
    return { cursor: this.#n, runs: runs.slice(-newest).map((run) => viewOf(run, lines)) };
  }

  /** One run, with its lines. */
  view(id: string): RunView | undefined {
    const run = this.#runs.get(id);
    return run && viewOf(run, true);
  }

  /** Stores a new run. It displaces the oldest one of its kind and module, or of all. */
  began(task: Span, from: Span): void {
    const alike = `${task.attributes["kind"] ?? ""} ${task.attributes["module"] ?? ""}`;
    const alikeRuns = this.#alike.get(alike) ?? new Set();
    if (alikeRuns.size >= this.#bounds.alike) this.#drop(alikeRuns.values().next().value);
    const cause = { kind: from.kind, name: from.name, startMs: from.startMs };
    const about = { id: task.spanId, alike, from: cause, task, isOver: false };
    const run: Run = { ...about, spans: [], lines: [], dropped: 0, bytes: 0, n: 0 };
    this.#runs.set(run.id, run);
    this.#alike.set(alike, alikeRuns.add(run));
    this.#grow(run, RUN_BYTES + sizeOf(JSON.stringify(task)));
    if (this.#runs.size > this.#bounds.runs) this.#drop(this.#runs.values().next().value);
  }

  /** Stores a span of a run. The span of the task itself ends the run. */
  ended(span: Span): void {
    const run = this.#runs.get(span.taskId ?? "");
    if (run === undefined) return;
    if (span.spanId === run.id) {
      run.task = span;
      run.isOver = true;
      run.n = ++this.#n;
    } else this.#add(run, run.spans, JSON.stringify(span));
  }

  /** Fields for log lines within a task, or within a cause that leads to one. */
  fields(): LogFields | undefined {
    const { traceId: trace, taskId: task } = current() ?? {};
    if (trace === undefined) return undefined;
    return task === undefined ? { trace } : { task, trace };
  }

  /** Stores a log line in the run of the current task. */
  onEntry({ level, message, fields }: LogEntry): void {
    const run = this.#runs.get(current()?.taskId ?? "");
    if (run === undefined) return;
    const { task: _, trace: __, ...own } = fields;
    const line = { timeMs: this.#clock.now(), level, message, fields: own };
    const text = JSON.stringify(line);
    const isLong = text.length > LONGEST_LINE;
    const withoutFields = (): string =>
      JSON.stringify({ ...line, message: message.slice(0, LONGEST_LINE), fields: {} });
    this.#add(run, run.lines, isLong ? withoutFields() : text);
  }

  /** Stores a span or line. If the run exceeds its limit, its oldest lines are dropped, then its oldest spans. */
  #add(run: Run, to: Entry[], text: string): void {
    to.push({ n: ++this.#n, text });
    this.#grow(run, sizeOf(text));
    const { runBytes } = this.#bounds;
    while (run.bytes > runBytes) {
      const oldest = run.lines.shift() ?? run.spans.shift();
      if (oldest === undefined) return;
      run.dropped += 1;
      this.#grow(run, -sizeOf(oldest.text));
    }
  }

  /** Counts bytes of a run, and drops the oldest runs while the ring exceeds its limit. */
  #grow(run: Run, bytes: number): void {
    run.n = ++this.#n;
    run.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#bounds.bytes && this.#runs.size > 1)
      this.#drop(this.#runs.values().next().value);
  }

  /** Removes a run from the ring. */
  #drop(run: Run | undefined): void {
    if (run === undefined || !this.#runs.delete(run.id)) return;
    this.#bytes -= run.bytes;
    const alikeRuns = this.#alike.get(run.alike);
    alikeRuns?.delete(run);
    if (alikeRuns?.size === 0) this.#alike.delete(run.alike);
  }
}

/** Bytes of a text in memory. */
function sizeOf(text: string): number {
  // Texts with any character beyond Latin-1 take two bytes for each.
  return ENTRY_BYTES + (/[\u0100-\uffff]/.test(text) ? 2 * text.length : text.length);
}

function viewOf({ id, task, from, isOver, spans, lines, dropped }: Run, withLines: boolean): RunView {
  const lineOf = ({ n, text }: Entry): RunLine => ({ n, ...(JSON.parse(text) as Omit<RunLine, "n">) });
  return {
    id,
    task,
    from,
    isOver,
    spans: spans.map(({ text }) => JSON.parse(text) as Span),
    ...(withLines ? { lines: lines.map(lineOf) } : {}),
    dropped,
  };
}
