export type { Outcome, QueueAction, QueueTask, QueueView, RunContext, TaskView } from "./lane.ts";
export { Queues, RateLimits, type WaitUntil } from "./queues.ts";
