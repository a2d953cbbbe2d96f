export * from "./queues.ts";
export * from "./types.ts";
