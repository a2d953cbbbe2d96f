/** The last runs of tasks, with what they were made of and what they logged; secrets are still in the texts of spans. */

import type { Clock, LogEntry, LogFields, LogWork } from "../lib/index.ts";
import { current, type Span, type SpanListener } from "./tracer.ts";

/** At most this much is kept, whatever is logged; the oldest goes first. */
interface RingBounds {
  readonly runs: number;
  readonly bytes: number;
  /** Of one kind of task of one module: what runs each second does not push out what runs once a day. */
  readonly alike: number;
  /** Of spans and lines of one run; with more, the oldest lines of it go. */
  readonly runBytes: number;
}

const BOUNDS: RingBounds = { runs: 1000, bytes: 2 * 1024 * 1024, alike: 20, runBytes: 64 * 1024 };
/** Of a line; what is longer is cut. */
const LONGEST_LINE = 4096;
/** What an entry and a run take beside their texts. */
const ENTRY_BYTES = 80;
const RUN_BYTES = 600;

/** A line of the log, as it was logged. */
interface RunLine extends Pick<LogEntry, "level" | "message" | "fields"> {
  /** Later lines of any run have higher numbers. */
  readonly n: number;
  readonly timeMs: number;
}

/** A run as it is shown. */
export interface RunView {
  /** The span of its task. */
  readonly id: string;
  readonly task: Span;
  /** What it followed from. */
  readonly from: Pick<Span, "kind" | "name" | "startMs">;
  readonly isOver: boolean;
  /** Within the task, by their ends. */
  readonly spans: readonly Span[];
  readonly lines?: readonly RunLine[];
  /** Spans and lines that there was no room for. */
  readonly dropped: number;
}

/** Which runs, and what of them. */
interface Asked {
  readonly module?: string | undefined;
  /** Only those in which something has changed since this number. */
  readonly after?: number | undefined;
  readonly lines?: boolean;
  /** Of these the newest so many. */
  readonly newest?: number;
}

interface Shown {
  /** To ask for what comes after. */
  readonly cursor: number;
  readonly runs: RunView[];
}

/** Kept as text: what it takes is known, and next to nobody reads it. */
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
  /** When anything of it changed last. */
  n: number;
}

/** Keeps the last runs, bounded in number and bytes. */
export class RunRing implements SpanListener, LogWork {
  readonly #clock: Clock;
  readonly #bounds: RingBounds;
  readonly #runs = new Map<string, Run>();
  /** Those of one kind of task of one module, the oldest first. */
  readonly #alike = new Map<string, Set<Run>>();
  #bytes = 0;
  #n = 0;

  constructor(clock: Clock, bounds: Partial<RingBounds> = {}) {
    this.#clock = clock;
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /** Bytes that are taken, as far as they can be known. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The runs in the order in which they began. */
  views({ module, after = 0, lines = false, newest = this.#bounds.runs }: Asked = {}): Shown {
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

  began(task: Span, from: Span): void {
    const alike = `${task.attributes["kind"] ?? ""} ${task.attributes["module"] ?? ""}`;
    const same = this.#alike.get(alike) ?? new Set();
    if (same.size >= this.#bounds.alike) this.#drop(same.values().next().value);
    const cause = { kind: from.kind, name: from.name, startMs: from.startMs };
    const about = { id: task.spanId, alike, from: cause, task, isOver: false };
    const run: Run = { ...about, spans: [], lines: [], dropped: 0, bytes: 0, n: 0 };
    this.#runs.set(run.id, run);
    this.#alike.set(alike, same.add(run));
    this.#grow(run, RUN_BYTES + sizeOf(JSON.stringify(task)));
    if (this.#runs.size > this.#bounds.runs) this.#drop(this.#runs.values().next().value);
  }

  ended(span: Span): void {
    const run = this.#runs.get(span.taskId ?? "");
    if (run === undefined) return;
    if (span.spanId === run.id) {
      run.task = span;
      run.isOver = true;
      run.n = ++this.#n;
    } else this.#add(run, run.spans, JSON.stringify(span));
  }

  /** Fields of each line that is logged within a task, or what leads to one. */
  fields(): LogFields | undefined {
    const { traceId: trace, taskId: task } = current() ?? {};
    if (trace === undefined) return undefined;
    return task === undefined ? { trace } : { task, trace };
  }

  keep({ level, message, fields }: LogEntry): void {
    const run = this.#runs.get(current()?.taskId ?? "");
    if (run === undefined) return;
    const { task: _, trace: __, ...own } = fields;
    const line = { timeMs: this.#clock.now(), level, message, fields: own };
    const text = JSON.stringify(line);
    const isLong = text.length > LONGEST_LINE;
    const cut = (): string =>
      JSON.stringify({ ...line, message: message.slice(0, LONGEST_LINE), fields: {} });
    this.#add(run, run.lines, isLong ? cut() : text);
  }

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

  #grow(run: Run, bytes: number): void {
    run.n = ++this.#n;
    run.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#bounds.bytes && this.#runs.size > 1)
      this.#drop(this.#runs.values().next().value);
  }

  #drop(run: Run | undefined): void {
    if (run === undefined || !this.#runs.delete(run.id)) return;
    this.#bytes -= run.bytes;
    const same = this.#alike.get(run.alike);
    same?.delete(run);
    if (same?.size === 0) this.#alike.delete(run.alike);
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
