export * from "./brake.ts";
export * from "./discovery.ts";
export * from "./plan.ts";
export * from "./owed.ts";
export * from "./explain-wait.ts";
