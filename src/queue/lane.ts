/** The content of one named queue. */

import { FLOOD } from "../model/index.ts";
import type { QueueTask } from "./queue-task.ts";

/** An item of a queue: one task, or several of one batch that were folded together. */
export interface Entry<T extends QueueTask> {
  tasks: T[];
  readonly enqueuedAt: number;
  failures: number;
  message: string | undefined;
  /** Not to be run before this time (back-off or rate limit); 0 = at once. */
  notBefore: number;
  running: boolean;
  /** Was put to the front while another task ran there. */
  overtakes: boolean;
  /** When the run under way began, in ms since the epoch. */
  startedAt: number;
}

/** A flood has paused when nothing came for this long. */
const QUIET_MS = 10;
/** No pause of a flood is waited for longer than this. */
const MOST_PAUSE_MS = 200;

/** The ordered content of one named queue. The running entry, if any, is the first. */
export class Lane<T extends QueueTask> {
  entries: Entry<T>[] = [];

  get head(): Entry<T> | undefined {
    return this.entries[0];
  }

  get length(): number {
    return this.entries.reduce((sum, entry) => sum + entry.tasks.length, 0);
  }

  /** Whether a task with this key waits or runs. */
  has(key: string): boolean {
    return this.entries.some((entry) => entry.tasks.some((task) => task.key === key));
  }

  /** Failures in a row of the entry with this task; undefined when it is not here. */
  failures(key: string): number | undefined {
    return this.entries.find((entry) => entry.tasks.some((task) => task.key === key))?.failures;
  }

  append(task: T, now: number): void {
    this.entries.push(newEntry(task, now));
    if (this.entries.length > FLOOD && this.entries.length % FLOOD === 0) this.#compact();
  }

  /**
   * Puts tasks before everything that is not running, in the order given; waiting tasks with the same keys are
   * dropped.
   */
  prepend(tasks: readonly T[], now: number): void {
    const keys = new Set(tasks.map((task) => task.key));
    this.remove((task) => task.key !== undefined && keys.has(task.key));
    const at = this.head?.running === true ? 1 : 0;
    const entries = tasks.map((task) => ({ ...newEntry(task, now), overtakes: at === 1 }));
    this.entries.splice(at, 0, ...entries);
  }

  /** Moves a head that failed behind what was put to the front while it ran. */
  yieldHead(): void {
    const [head, ...rest] = this.entries;
    if (head === undefined) return;
    const end = rest.findIndex((entry) => !entry.overtakes);
    this.entries = rest.toSpliced(end === -1 ? rest.length : end, 0, head);
  }

  /**
   * Milliseconds for which the head waits for a flood of its batch to pause, since the last run ended at `endedAt`: a run in
   * the midst of it makes the last tasks wait for one run more. What came when nothing ran never waits.
   */
  pauseMs(now: number, endedAt: number): number {
    const [head] = this.entries;
    const last = this.entries.at(-1);
    const batch = head === undefined ? undefined : joiningBatch(head);
    if (head === undefined || last === undefined || batch === undefined) return 0;
    if (head.failures > 0 || head.enqueuedAt >= endedAt || joiningBatch(last) !== batch) return 0;
    return Math.min(last.enqueuedAt + QUIET_MS, endedAt + MOST_PAUSE_MS) - now;
  }

  /** Folds the entries that directly follow the head and belong to its batch into the head. */
  foldIntoHead(): void {
    const head = this.head;
    const batch = head === undefined ? undefined : joiningBatch(head);
    if (head === undefined || batch === undefined) return;
    const stop = this.entries.findIndex((entry) => joiningBatch(entry) !== batch);
    const joined = this.entries.splice(1, (stop < 0 ? this.entries.length : stop) - 1);
    for (const { tasks } of joined) head.tasks.push(...tasks);
  }

  /** Removes waiting tasks; a running one stays. Returns whether there were any. */
  remove(match: (task: T) => boolean): boolean {
    const before = this.length;
    for (const entry of this.entries) {
      if (!entry.running) entry.tasks = entry.tasks.filter((task) => !match(task));
    }
    this.entries = this.entries.filter((entry) => entry.tasks.length > 0);
    return this.length < before;
  }

  /**
   * In a long queue, moves all waiting tasks of one batch to the first one's place, but not past one that runs
   * alone.
   */
  #compact(): void {
    const first = new Map<string, Entry<T>>();
    this.entries = this.entries.filter((entry) => {
      const { batch, alone } = entry.tasks[0] ?? {};
      if (entry.running || batch === undefined) return true;
      if (alone === true) {
        first.delete(batch);
        return true;
      }
      const target = first.get(batch);
      if (target === undefined) {
        first.set(batch, entry);
        return true;
      }
      target.tasks.push(...entry.tasks);
      return false;
    });
  }
}

/** The batch an entry may be joined with; undefined for one that runs alone. */
function joiningBatch<T extends QueueTask>({ tasks: [first] }: Entry<T>): string | undefined {
  return first?.alone === true ? undefined : first?.batch;
}

function newEntry<T extends QueueTask>(task: T, now: number): Entry<T> {
  return {
    tasks: [task],
    enqueuedAt: now,
    failures: 0,
    message: undefined,
    notBefore: 0,
    running: false,
    overtakes: false,
    startedAt: 0,
  };
}
