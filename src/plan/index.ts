export * from "./brake.ts";
export * from "./discovery.ts";
export * from "./plan.ts";
export * from "./reload.ts";
export * from "./run-owed.ts";
export * from "./explain-wait.ts";
