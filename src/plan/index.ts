export * from "./brake.ts";
export * from "./plan.ts";
export * from "./reload.ts";
export * from "./run.ts";
export * from "./explain.ts";
