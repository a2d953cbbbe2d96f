export * from "./queues.ts";
export * from "./rate-limits.ts";
export * from "./queue-task.ts";
