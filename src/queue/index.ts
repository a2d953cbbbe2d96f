export type { Outcome, QueueAction, QueueTask, QueueView, RunContext, TaskView } from "./queue-task.ts";
export { Queues, type WaitUntil } from "./queues.ts";
export { RateLimits } from "./rate-limits.ts";
