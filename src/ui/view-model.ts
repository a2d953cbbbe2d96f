/** The tables that all open pages display, and their changes. Nothing is computed or kept while no page is open. */

import type { Clock, Timer } from "../lib/index.ts";
import { describeTask, type Task } from "../model/index.ts";
import type { StateSnapshot } from "../plan/index.ts";
import type { QueueView, TaskView } from "../queue/index.ts";
import { overviewOf } from "../status/index.ts";
import { Streams, type StreamSink } from "./streams.ts";
import type { ModuleRow, OperatorRow, QueueRow, TaskRow } from "./wire.ts";

/** The tables at one moment. */
export interface PageState {
  /** Exactly one row. */
  readonly operator: readonly OperatorRow[];
  readonly modules: readonly ModuleRow[];
  readonly queues: readonly QueueRow[];
}

interface ViewModelOptions {
  readonly clock: Clock;
  /** Reads the operator's state; the texts still contain secrets. */
  readonly read: () => PageState;
  readonly redact: <T>(value: T) => T;
}

const TABLES = ["operator", "modules", "queues"] as const;
/** Limits of the time between two refreshes. */
const MIN_INTERVAL_MS = 50;
const MAX_INTERVAL_MS = 1000;
/** Refreshes may use a twentieth of the time on average; after a pause a burst of them is allowed. */
const INTERVAL_PER_COST = 20;
const BURST_MS = 2000;
/** The operator's message mentions a run when it is a second old, which triggers no notification. */
const FOLLOW_UP_MS = 1100;

/** The tables of the page and the streams of its viewers. */
export class ViewModel {
  readonly #options: ViewModelOptions;
  readonly #streams: Streams;
  readonly #tables: Readonly<Record<keyof PageState, Table>>;
  #refreshTimer: Timer | undefined;
  #followUpTimer: Timer | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  /** When the refreshes so far will have used no more than their share of the time. */
  #budgetFreeAt = 0;

  constructor(options: ViewModelOptions) {
    this.#options = options;
    const table = (): Table => new Table(options.redact);
    this.#tables = { operator: table(), modules: table(), queues: table() };
    this.#streams = new Streams({
      clock: options.clock,
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

  addViewer(sink: StreamSink): void {
    if (this.viewers === 0) this.#refresh();
    this.#streams.add(sink);
  }

  /** Schedules a refresh: something may have changed. */
  notifyChange(): void {
    if (this.viewers === 0 || this.#refreshTimer !== undefined) return;
    const { clock } = this.#options;
    const at = Math.max(this.#refreshedAt + MIN_INTERVAL_MS, this.#budgetFreeAt - BURST_MS);
    const wait = Math.max(0, Math.min(at, this.#refreshedAt + MAX_INTERVAL_MS) - clock.monotonic());
    this.#refreshTimer = clock.setTimer(wait, () => {
      this.#refreshTimer = undefined;
      this.#followUpTimer?.cancel();
      this.#followUpTimer = clock.setTimer(FOLLOW_UP_MS, () => this.#refresh());
      this.#refresh();
    });
  }

  /** Ends all streams. */
  close(): void {
    this.#streams.close();
  }

  /** Reads the state and sends the changed rows. The cost of a refresh delays the next ones. */
  #refresh(): void {
    const { clock, read } = this.#options;
    this.#refreshedAt = clock.monotonic();
    const pageState = read();
    const changes = TABLES.flatMap((name) => {
      const changeJson = this.#tables[name].update(pageState[name]);
      return changeJson === undefined ? [] : [`"${name}":${changeJson}`];
    });
    const costMs = clock.monotonic() - this.#refreshedAt;
    this.#budgetFreeAt = Math.max(this.#budgetFreeAt, this.#refreshedAt) + INTERVAL_PER_COST * costMs;
    if (changes.length > 0) this.#streams.broadcast(`{"now":${clock.now()},${changes.join(",")}}`);
  }

  #snapshot(): string {
    const tables = TABLES.map((name) => `"${name}":${this.#tables[name].snapshot()}`);
    return `{"snapshot":true,"now":${this.#options.clock.now()},${tables.join(",")}}`;
  }

  /** Drops timers and rows after the last page was closed. */
  #clear(): void {
    this.#refreshTimer?.cancel();
    this.#followUpTimer?.cancel();
    [this.#refreshTimer, this.#followUpTimer] = [undefined, undefined];
    for (const name of TABLES) this.#tables[name].clear();
  }
}

interface Row {
  readonly name: string;
}

interface SentRow {
  /** The row before redaction. */
  readonly raw: string;
  readonly json: string;
}

/** The rows sent last, as JSON. */
class Table {
  readonly #redact: <T>(value: T) => T;
  readonly #last = new Map<string, SentRow>();

  constructor(redact: <T>(value: T) => T) {
    this.#redact = redact;
  }

  /** Replaces the rows. Returns the JSON of a `TableChange`; undefined if nothing changed. */
  update(rows: readonly Row[]): string | undefined {
    const set = rows.flatMap((row) => this.#serializeChanged(row) ?? []);
    const names = new Set(rows.map(({ name }) => name));
    const missing = [...this.#last.keys()].filter((name) => !names.has(name));
    for (const name of missing) this.#last.delete(name);
    return set.length + missing.length === 0 ? undefined : tableChangeJson(set, missing);
  }

  /** All rows, as the JSON of a `TableChange`. */
  snapshot(): string {
    return tableChangeJson(
      [...this.#last.values()].map(({ json }) => json),
      [],
    );
  }

  clear(): void {
    this.#last.clear();
  }

  /** The JSON of a row without secrets; undefined if the row is unchanged. */
  #serializeChanged(row: Row): string | undefined {
    const raw = JSON.stringify(row);
    if (this.#last.get(row.name)?.raw === raw) return undefined;
    const json = JSON.stringify(this.#redact(row));
    this.#last.set(row.name, { raw, json });
    return json;
  }
}

function tableChangeJson(set: readonly string[], missing: readonly string[]): string {
  return `{"set":[${set.join(",")}],"missing":${JSON.stringify(missing)}}`;
}

/** Tasks of a queue that are listed; the page counts the rest. */
const MAX_TASKS = 50;

/** The tables at `now` (ms since the epoch). No value in them changes with the time alone. */
export function pageStateOf(
  at: StateSnapshot,
  now: number,
  about: Pick<OperatorRow, "version" | "name" | "namespace">,
): PageState {
  const { state, ready, message, modules, converge } = overviewOf(at, now);
  const { progress, waitingSeconds } = converge;
  return {
    operator: [
      {
        ...about,
        state,
        ready,
        message,
        ...(at.view.config.isFrozen && { suspended: true }),
        ...(progress !== undefined && { progress }),
        ...(waitingSeconds !== undefined && { waitingSeconds }),
      },
    ],
    modules: modules.map(withoutElapsedTime),
    queues: at.queues.filter(({ length }) => length > 0).map(queueRow),
  };
}

/** The page itself counts the seconds of a running run. */
function withoutElapsedTime({
  lastRun,
  ...row
}: ReturnType<typeof overviewOf>["modules"][number]): ModuleRow {
  if (lastRun === undefined || lastRun.result !== undefined) return { ...row, ...(lastRun && { lastRun }) };
  const { seconds: _, ...run } = lastRun;
  return { ...row, lastRun: run };
}

function queueRow({ name, length, tasks }: QueueView<Task>): QueueRow {
  return { name, length, tasks: tasks.slice(0, MAX_TASKS).map(taskRow) };
}

function taskRow({ task, running, failures, message, nextAt, count }: TaskView<Task>): TaskRow {
  const more = count > 1 ? ` (${count} together)` : "";
  return {
    text: `${describeTask(task)}${more}`,
    running,
    failures,
    ...(failures > 0 && message !== undefined && { message }),
    ...(nextAt !== undefined && { nextAt }),
  };
}
