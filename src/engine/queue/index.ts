export { Queues, type WaitUntil } from "./queues.ts";
export * from "./types.ts";
