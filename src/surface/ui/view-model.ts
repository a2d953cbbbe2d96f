/**
 * The tables that all open pages (viewers) display, and their changes. A page gets a snapshot of all rows, then the rows that change. Nothing is
 * computed or kept while no page is open.
 */

import { Timers, type Clock } from "../../base/index.ts";
import { describeTask, type Task } from "../../base/model/index.ts";
import type { QueueView, TaskView } from "../../engine/queue/index.ts";
import { Pacer } from "../../runtime/index.ts";
import { buildOverview, omitUndefined, type Projection } from "../../report/index.ts";
import { EventStreams, type StreamSink } from "./streams.ts";
import type { PageModuleRow, OperatorRow, QueueRow, TaskRow } from "./wire.ts";

/** The tables at one moment. */
export interface PageState {
  /** Exactly one row. */
  readonly operator: readonly OperatorRow[];
  readonly modules: readonly PageModuleRow[];
  readonly queues: readonly QueueRow[];
}

interface ViewModelOptions {
  readonly clock: Clock;
  /** Reads the operator's state; the texts still contain secrets. */
  readonly read: () => PageState;
  readonly redact: <T>(value: T) => T;
}

const TABLES = ["operator", "modules", "queues"] as const;
/** Longest time between two refreshes. */
const MAX_INTERVAL_MS = 1000;
/** After a pause, refreshes may exceed their share of the processor by this much waiting time. */
const BURST_MS = 2000;
/** The operator's message mentions a run when it is a second old, which triggers no notification. */
const FOLLOW_UP_MS = 1100;

/** The tables of the page and the streams of its viewers, the open pages. `redact` removes secrets, `read` reads the state. */
export class ViewModel {
  readonly #options: ViewModelOptions;
  readonly #streams: EventStreams;
  readonly #tables: Readonly<Record<keyof PageState, SentTable>>;
  readonly #pacer: Pacer;
  readonly #timers: Timers<"follow-up">;

  /** Creates empty tables. A new stream begins with a snapshot of them; after the last one, they are dropped. */
  constructor(options: ViewModelOptions) {
    this.#options = options;
    const { clock } = options;
    this.#timers = new Timers(clock);
    this.#pacer = new Pacer({
      clock,
      act: () => {
        // Refreshes once more later: the page shows a run only when the run has lasted for a second, and no event reports that moment.
        this.#timers.set("follow-up", FOLLOW_UP_MS, () => this.#refresh());
        this.#refresh();
      },
      maxIntervalMs: MAX_INTERVAL_MS,
      burstMs: BURST_MS,
    });
    const table = (): SentTable => new SentTable(options.redact);
    this.#tables = { operator: table(), modules: table(), queues: table() };
    this.#streams = new EventStreams({
      clock,
      snapshot: () => this.#snapshot(),
      onEmpty: () => this.#clear(),
    });
  }

  /** The number of open pages. */
  get viewers(): number {
    return this.#streams.size;
  }

  get hasCapacity(): boolean {
    return this.#streams.hasCapacity;
  }

  /** Opens a stream to a page. The first page makes the tables current. */
  addViewer(sink: StreamSink): void {
    if (this.viewers === 0) this.#refresh();
    this.#streams.addStream(sink);
  }

  /**
   * Call it when something may have changed: schedules a refresh of the tables. Refreshes wait longer the more processor time
   * they have used, so that pages do not slow the operator down, but never longer than `MAX_INTERVAL_MS`.
   */
  notifyChange(): void {
    if (this.viewers > 0) this.#pacer.trigger();
  }

  /** Ends all streams. */
  close(): void {
    this.#streams.close();
  }

  /** Reads the state and sends the changed rows. The cost of a refresh delays the next ones. */
  #refresh(): void {
    const { clock, read } = this.#options;
    this.#pacer.measure(() => {
      const pageState = read();
      const changes = TABLES.flatMap((name) => {
        const changeJson = this.#tables[name].update(pageState[name]);
        return changeJson === undefined ? [] : [`"${name}":${changeJson}`];
      });
      if (changes.length > 0) this.#streams.broadcast(`{"now":${clock.now()},${changes.join(",")}}`);
    });
  }

  /** All tables as one message, for a stream that is new or missed messages. */
  #snapshot(): string {
    const tables = TABLES.map((name) => `"${name}":${this.#tables[name].snapshot()}`);
    return `{"snapshot":true,"now":${this.#options.clock.now()},${tables.join(",")}}`;
  }

  /** Drops timers and rows after the last page was closed. */
  #clear(): void {
    this.#pacer.cancel();
    this.#timers.cancel("follow-up");
    for (const name of TABLES) this.#tables[name].clear();
  }
}

interface Row {
  readonly name: string;
}

interface SentRow {
  readonly unredactedJson: string;
  readonly json: string;
}

/** One table of the page: remembers the rows that were sent last, so that only changed rows are sent. */
class SentTable {
  readonly #redact: <T>(value: T) => T;
  readonly #sentRows = new Map<string, SentRow>();

  constructor(redact: <T>(value: T) => T) {
    this.#redact = redact;
  }

  /** Replaces the rows, and returns the changes as JSON of a `TableChange`; undefined if nothing changed. */
  update(rows: readonly Row[]): string | undefined {
    const changedRows = rows.flatMap((row) => this.#serializeChanged(row) ?? []);
    const names = new Set(rows.map(({ name }) => name));
    const removed = [...this.#sentRows.keys()].filter((name) => !names.has(name));
    for (const name of removed) this.#sentRows.delete(name);
    return changedRows.length + removed.length === 0 ? undefined : tableChangeJson(changedRows, removed);
  }

  /** All rows, as the JSON of a `TableChange`. */
  snapshot(): string {
    const rows = [...this.#sentRows.values()].map(({ json }) => json);
    return tableChangeJson(rows, []);
  }

  /** Forgets the rows, so that the next update sends all. */
  clear(): void {
    this.#sentRows.clear();
  }

  /** The JSON of a changed row without secrets; undefined if the row is the one that was sent last: then it is not redacted again, which is slow. */
  #serializeChanged(row: Row): string | undefined {
    const unredactedJson = JSON.stringify(row);
    if (this.#sentRows.get(row.name)?.unredactedJson === unredactedJson) return undefined;
    const json = JSON.stringify(this.#redact(row));
    this.#sentRows.set(row.name, { unredactedJson, json });
    return json;
  }
}

/** The JSON of a `TableChange` from rows as JSON and the names of removed rows. */
function tableChangeJson(rows: readonly string[], missing: readonly string[]): string {
  return `{"set":[${rows.join(",")}],"missing":${JSON.stringify(missing)}}`;
}

/** Tasks of a queue that are listed; the page counts the rest. */
const MAX_TASKS = 50;

/**
 * Builds the tables of the page from the operator's state at `now` (ms since the epoch). No value in them changes with the
 * time alone, so that an unchanged state sends nothing.
 */
export function buildPageState(
  projection: Projection,
  now: number,
  about: Pick<OperatorRow, "version" | "name" | "namespace">,
): PageState {
  const { state, ready, message, warnings, modules, converge } = buildOverview(projection, now);
  const { progress, waitingSeconds } = converge;
  const { view, queues } = projection.explanation;
  const suspended = view.config.isFrozen || undefined;
  return {
    operator: [
      omitUndefined({ ...about, state, ready, message, warnings, suspended, progress, waitingSeconds }),
    ],
    modules: modules.map(withoutElapsedTime),
    queues: queues.filter(({ length }) => length > 0).map(toQueueRow),
  };
}

/** Removes the elapsed seconds of a run that is not over: they change all the time, and the page counts them itself. */
function withoutElapsedTime({
  lastRun,
  ...row
}: ReturnType<typeof buildOverview>["modules"][number]): PageModuleRow {
  if (lastRun === undefined || lastRun.result !== undefined) return { ...row, ...(lastRun && { lastRun }) };
  const { seconds: _, ...run } = lastRun;
  return { ...row, lastRun: run };
}

/** A queue with its first tasks. */
function toQueueRow({ name, length, tasks }: QueueView<Task>): QueueRow {
  return { name, length, tasks: tasks.slice(0, MAX_TASKS).map(toTaskRow) };
}

/** The row of a queued task; `count` is how many tasks run together as one. */
function toTaskRow({ task, running, failures, message, nextAt, count }: TaskView<Task>): TaskRow {
  const countText = count > 1 ? ` (${count} together)` : "";
  return omitUndefined({
    text: `${describeTask(task)}${countText}`,
    running,
    failures,
    message: failures > 0 ? message : undefined,
    nextAt,
  });
}
