/**
 * A ring buffer of the last runs of tasks with their spans and log lines, stored as JSON text to save memory. Bounds limit the number of runs, the
 * runs of a group (the same kind of task and module), and the bytes. The first run of a map is its oldest. Readers redact the texts of spans. Each
 * change gets a number, by which a reader requests later changes.
 */

import type { Clock, LogEntry, LogFields, LogContext } from "../index.ts";
import { readJson, type Span } from "../model/index.ts";
import { currentSpan, type SpanListener } from "./tracer.ts";

/** Limits of the ring; the oldest run is dropped first. */
interface RingBounds {
  readonly runs: number;
  readonly bytes: number;
  /** Runs of one group, which is a kind of task and a module: frequent tasks do not displace rare ones. */
  readonly runsOfGroup: number;
  /** Bytes of spans and lines per run; beyond, its oldest lines are dropped. */
  readonly runBytes: number;
}

const DEFAULT_BOUNDS: RingBounds = { runs: 1000, bytes: 2 << 20, runsOfGroup: 20, runBytes: 64 << 10 };
/** Most characters of a line; longer lines are cut. */
const MAX_LINE_CHARS = 4096;
/** Memory overhead of an entry and of a run. */
const ENTRY_OVERHEAD_BYTES = 80;
const RUN_OVERHEAD_BYTES = 600;

interface RunLine extends Pick<LogEntry, "level" | "message" | "fields"> {
  /** Later lines of any run have higher numbers. */
  readonly n: number;
  readonly timeMs: number;
}

/** A run for display. */
export interface RunView {
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

interface RunList {
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
  /** Kind of task and module, whose runs share a limit. */
  readonly group: string;
  readonly from: RunView["from"];
  task: Span;
  isOver: boolean;
  spans: Entry[];
  lines: Entry[];
  dropped: number;
  bytes: number;
  /** Cursor of the last change. */
  lastChange: number;
}

/** Stores the last runs, bounded in number and bytes. */
export class RunRing implements SpanListener, LogContext {
  readonly #clock: Clock;
  readonly #bounds: RingBounds;
  /** Runs by id, oldest first. */
  readonly #runs = new Map<string, Run>();
  /** Runs by kind of task and module, oldest first. */
  readonly #runsByGroup = new Map<string, Set<Run>>();
  #bytes = 0;
  /** Counts changes: numbers lines, and serves as the cursor of readers. */
  #counter = 0;

  constructor(clock: Clock, bounds: Partial<RingBounds> = {}) {
    this.#clock = clock;
    this.#bounds = { ...DEFAULT_BOUNDS, ...bounds };
  }

  /** Approximate size in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The selected runs in the order of their start, and the cursor with which the reader requests later changes. */
  listRuns({ module, after = 0, lines = false, newest = this.#bounds.runs }: RunQuery = {}): RunList {
    const runs = [...this.#runs.values()].filter(
      (run) => run.lastChange > after && (module === undefined || run.task.attributes["module"] === module),
    );
    return { cursor: this.#counter, runs: runs.slice(-newest).map((run) => toRunView(run, lines)) };
  }

  /** One run, with its lines. */
  getRun(id: string): RunView | undefined {
    const run = this.#runs.get(id);
    return run && toRunView(run, true);
  }

  /** Called when a task begins: stores its run, which displaces the oldest run of its group, or of all, if the ring is full. */
  onTaskBegan(task: Span, from: Span): void {
    const group = `${task.attributes["kind"] ?? ""} ${task.attributes["module"] ?? ""}`;
    const runsOfGroup = this.#runsByGroup.get(group) ?? new Set();
    if (runsOfGroup.size >= this.#bounds.runsOfGroup) this.#dropRun(runsOfGroup.values().next().value);
    const cause = { kind: from.kind, name: from.name, startMs: from.startMs };
    const blank = { isOver: false, spans: [], lines: [], dropped: 0, bytes: 0, lastChange: 0 };
    const run: Run = { id: task.spanId, group, from: cause, task, ...blank };
    this.#runs.set(run.id, run);
    this.#runsByGroup.set(group, runsOfGroup.add(run));
    this.#addBytes(run, RUN_OVERHEAD_BYTES + estimateBytes(JSON.stringify(task)));
    if (this.#runs.size > this.#bounds.runs) this.#dropRun(this.#runs.values().next().value);
  }

  /** Called when a span has ended: stores it in the run of its task. The span of the task itself ends the run. */
  onSpanEnded(span: Span): void {
    const run = this.#runs.get(span.taskId ?? "");
    if (run === undefined) return;
    if (span.spanId === run.id) {
      run.task = span;
      run.isOver = true;
      run.lastChange = ++this.#counter;
    } else this.#storeEntry(run, run.spans, JSON.stringify(span));
  }

  /** Called for each log line: the ids of the current task and trace, by which a user finds the run of the line. */
  fields(): LogFields | undefined {
    const { traceId: trace, taskId: task } = currentSpan() ?? {};
    if (trace === undefined) return undefined;
    return task === undefined ? { trace } : { task, trace };
  }

  /** Stores a log line in the run of the current task. A very long line loses its fields and the end of its message. */
  onEntry({ level, message, fields }: LogEntry): void {
    const run = this.#runs.get(currentSpan()?.taskId ?? "");
    if (run === undefined) return;
    // The run itself contains the ids of its task and trace.
    const { task: _, trace: __, ...otherFields } = fields;
    const line = { timeMs: this.#clock.now(), level, message, fields: otherFields };
    let text = JSON.stringify(line);
    if (text.length > MAX_LINE_CHARS)
      text = JSON.stringify({ ...line, message: message.slice(0, MAX_LINE_CHARS), fields: {} });
    this.#storeEntry(run, run.lines, text);
  }

  /** Stores a span or line. While the run exceeds its limit, drops its oldest lines, then its oldest spans, which are fewer and say more. */
  #storeEntry(run: Run, entries: Entry[], text: string): void {
    entries.push({ n: ++this.#counter, text });
    this.#addBytes(run, estimateBytes(text));
    const { runBytes } = this.#bounds;
    while (run.bytes > runBytes) {
      const oldest = run.lines.shift() ?? run.spans.shift();
      if (oldest === undefined) return;
      run.dropped += 1;
      this.#addBytes(run, -estimateBytes(oldest.text));
    }
  }

  /** Adds to the size of a run (negative: subtracts), and drops the oldest runs while the ring exceeds its limit. */
  #addBytes(run: Run, bytes: number): void {
    run.lastChange = ++this.#counter;
    run.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#bounds.bytes && this.#runs.size > 1)
      this.#dropRun(this.#runs.values().next().value);
  }

  /** Removes a run from the ring and from its group. */
  #dropRun(run: Run | undefined): void {
    if (run === undefined || !this.#runs.delete(run.id)) return;
    this.#bytes -= run.bytes;
    const runsOfGroup = this.#runsByGroup.get(run.group);
    runsOfGroup?.delete(run);
    if (runsOfGroup?.size === 0) this.#runsByGroup.delete(run.group);
  }
}

/** Estimates the bytes that a stored text takes in memory. */
function estimateBytes(text: string): number {
  // Texts with any character beyond Latin-1 take two bytes for each.
  return ENTRY_OVERHEAD_BYTES + (/[\u0100-\uffff]/.test(text) ? 2 * text.length : text.length);
}

/** A run for display: parses its stored texts. */
function toRunView({ id, task, from, isOver, spans, lines, dropped }: Run, withLines: boolean): RunView {
  const parseLine = ({ n, text }: Entry): RunLine => ({
    n,
    ...(readJson(text) as unknown as Omit<RunLine, "n">),
  });
  const parsedSpans = spans.map(({ text }) => JSON.parse(text) as Span);
  const shown = { id, task, from, isOver, spans: parsedSpans, dropped };
  return withLines ? { ...shown, lines: lines.map(parseLine) } : shown;
}
