export { Queues, type WaitUntil } from "./queues.ts";
export { RateLimits, type RateLimit } from "./limits.ts";
export { LONG_RUN_MS } from "./types.ts";
export type {
  Failure,
  Outcome,
  QueueAction,
  QueueView,
  QueuesOptions,
  RunContext,
  TaskView,
} from "./types.ts";
