/** What is known of the one worker of a queue. */

import type { Timer } from "../lib/index.ts";
import { Lane } from "./lane.ts";
import type { QueueTask } from "./queue-task.ts";

/** The worker of a queue. */
export interface Worker<T extends QueueTask> {
  readonly lane: Lane<T>;
  timer: Timer | undefined;
  abort: AbortController | undefined;
  /** Cancels the timer that ends an interrupted run. */
  patience: Timer | undefined;
  /** When the last run ended, in ms since the epoch. */
  endedAt: number;
  /** Resolves when the run under way ends. */
  over: Promise<void>;
}

export function newWorker<T extends QueueTask>(): Worker<T> {
  return {
    lane: new Lane<T>(),
    timer: undefined,
    abort: undefined,
    patience: undefined,
    endedAt: 0,
    over: Promise.resolve(),
  };
}
