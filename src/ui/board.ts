/** What all pages look at together: the tables of one moment, and what has changed in them; nothing is made or kept while nobody looks. */

import type { Clock, Timer } from "../lib/index.ts";
import { describeTask, type Task } from "../model/index.ts";
import type { Moment } from "../plan/index.ts";
import type { QueueView, TaskView } from "../queue/index.ts";
import { overviewOf } from "../status/index.ts";
import { Streams, type Outlet } from "./streams.ts";
import type { ModuleRow, OperatorRow, QueueRow, TaskRow } from "./wire.ts";

/** Everything at one moment. */
export interface Scene {
  /** One row. */
  readonly operator: readonly OperatorRow[];
  readonly modules: readonly ModuleRow[];
  readonly queues: readonly QueueRow[];
}

interface BoardOptions {
  readonly clock: Clock;
  /** Looks at the operator; secrets are still in the texts. */
  readonly look: () => Scene;
  readonly redact: <T>(value: T) => T;
}

const TABLES = ["operator", "modules", "queues"] as const;
/** Least and longest time between two looks, in milliseconds. */
const LOOK_EVERY_MS = 50;
const LOOK_SELDOM_MS = 1000;
/** Looks may take a twentieth of the time, on average: after a rest some may follow one another at once. */
const LOOK_COST = 20;
const LOOK_CREDIT_MS = 2000;
/** A run is announced when it is a second old, which changes nothing that one is told of. */
const LOOK_AGAIN_MS = 1100;

/** The tables that pages show, one for all of them, and their streams. */
export class Board {
  readonly #options: BoardOptions;
  readonly #streams: Streams;
  readonly #tables: Readonly<Record<keyof Scene, Rows>>;
  #soon: Timer | undefined;
  #again: Timer | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** When the looks so far have taken no more than their share. */
  #paidAt = 0;

  constructor(options: BoardOptions) {
    this.#options = options;
    const rows = (): Rows => new Rows(options.redact);
    this.#tables = { operator: rows(), modules: rows(), queues: rows() };
    const whole = (): string => this.#whole();
    this.#streams = new Streams({ clock: options.clock, whole, emptied: () => this.#forget() });
  }

  /** How many pages look. */
  get viewers(): number {
    return this.#streams.size;
  }

  /** Whether one more page may look. */
  get hasRoom(): boolean {
    return this.#streams.hasRoom;
  }

  /** One more page looks. */
  show(outlet: Outlet): void {
    if (this.viewers === 0) this.#look();
    this.#streams.add(outlet);
  }

  /** Notes that something may have changed. */
  changed(): void {
    if (this.viewers === 0 || this.#soon !== undefined) return;
    const { clock } = this.#options;
    const at = Math.max(this.#lookedAt + LOOK_EVERY_MS, this.#paidAt - LOOK_CREDIT_MS);
    const wait = Math.max(0, Math.min(at, this.#lookedAt + LOOK_SELDOM_MS) - clock.monotonic());
    this.#soon = clock.setTimer(wait, () => {
      this.#soon = undefined;
      this.#again?.cancel();
      this.#again = clock.setTimer(LOOK_AGAIN_MS, () => this.#look());
      this.#look();
    });
  }

  /** Ends all streams. */
  close(): void {
    this.#streams.close();
  }

  #look(): void {
    const { clock, look } = this.#options;
    this.#lookedAt = clock.monotonic();
    const scene = look();
    const news = TABLES.flatMap((name) => {
      const change = this.#tables[name].take(scene[name]);
      return change === undefined ? [] : [`"${name}":${change}`];
    });
    const costMs = clock.monotonic() - this.#lookedAt;
    this.#paidAt = Math.max(this.#paidAt, this.#lookedAt) + LOOK_COST * costMs;
    if (news.length > 0) this.#streams.tell(`{"now":${clock.now()},${news.join(",")}}`);
  }

  #whole(): string {
    const tables = TABLES.map((name) => `"${name}":${this.#tables[name].whole()}`);
    return `{"whole":true,"now":${this.#options.clock.now()},${tables.join(",")}}`;
  }

  #forget(): void {
    this.#soon?.cancel();
    this.#again?.cancel();
    [this.#soon, this.#again] = [undefined, undefined];
    for (const name of TABLES) this.#tables[name].forget();
  }
}

/** A row has a name of its own in its table. */
interface Row {
  readonly name: string;
}

interface Known {
  /** Before secrets were taken out. */
  readonly raw: string;
  readonly text: string;
}

/** The rows that were shown last, as JSON. */
class Rows {
  readonly #redact: <T>(value: T) => T;
  readonly #known = new Map<string, Known>();

  /** `redact` takes secrets out of all texts. */
  constructor(redact: <T>(value: T) => T) {
    this.#redact = redact;
  }

  /** Takes the rows of this moment; what changed, as the JSON of a `Change`, or undefined. */
  take(rows: readonly Row[]): string | undefined {
    const set = rows.flatMap((row) => this.#changed(row) ?? []);
    const names = new Set(rows.map(({ name }) => name));
    const gone = [...this.#known.keys()].filter((name) => !names.has(name));
    for (const name of gone) this.#known.delete(name);
    return set.length + gone.length === 0 ? undefined : change(set, gone);
  }

  /** All rows, as the JSON of a `Change`. */
  whole(): string {
    return change(
      [...this.#known.values()].map(({ text }) => text),
      [],
    );
  }

  /** Keeps nothing any more. */
  forget(): void {
    this.#known.clear();
  }

  #changed(row: Row): string | undefined {
    const raw = JSON.stringify(row);
    if (this.#known.get(row.name)?.raw === raw) return undefined;
    const text = JSON.stringify(this.#redact(row));
    this.#known.set(row.name, { raw, text });
    return text;
  }
}

function change(set: readonly string[], gone: readonly string[]): string {
  return `{"set":[${set.join(",")}],"gone":${JSON.stringify(gone)}}`;
}

/** Of a queue; the others are counted. */
const MOST_TASKS = 50;

/** The tables at `now` (ms since the epoch). Nothing in them moves with the time alone. */
export function sceneOf(
  at: Moment,
  now: number,
  about: Pick<OperatorRow, "version" | "name" | "namespace">,
): Scene {
  const { state, ready, message, modules, converge } = overviewOf(at, now);
  const { progress, waitingSeconds } = converge;
  return {
    operator: [
      {
        ...about,
        state,
        ready,
        message,
        ...(progress !== undefined && { progress }),
        ...(waitingSeconds !== undefined && { waitingSeconds }),
      },
    ],
    modules: modules.map(timeless),
    queues: at.queues.filter(({ length }) => length > 0).map(queueRow),
  };
}

/** Of a run under way the page counts the seconds itself. */
function timeless({ lastRun, ...row }: ReturnType<typeof overviewOf>["modules"][number]): ModuleRow {
  if (lastRun === undefined || lastRun.result !== undefined) return { ...row, ...(lastRun && { lastRun }) };
  const { seconds: _, ...run } = lastRun;
  return { ...row, lastRun: run };
}

function queueRow({ name, length, tasks }: QueueView<Task>): QueueRow {
  return { name, length, tasks: tasks.slice(0, MOST_TASKS).map(taskRow) };
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
