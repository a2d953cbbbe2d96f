export type { Outcome, QueueAction, QueueTask, QueueView, RunContext, TaskView } from "./queue-task.ts";
export { Queues } from "./queues.ts";
export { RateLimits } from "./rate-limits.ts";
export type { WaitUntil } from "./waits.ts";
