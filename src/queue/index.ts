export type {
  Failure,
  Outcome,
  QueueAction,
  QueueTask,
  QueueView,
  QueuesOptions,
  RunContext,
  TaskView,
} from "./lane.ts";
export { Queues, RateLimits, type WaitUntil } from "./queues.ts";
