export * from "./queues.ts";
export * from "./rate-limits.ts";
export * from "./task-waits.ts";
export * from "./queue-task.ts";
