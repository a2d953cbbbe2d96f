export * from "./binding.ts";
export * from "./cause.ts";
export * from "./json.ts";
export * from "./module.ts";
export * from "./module-queues.ts";
export * from "./overlay.ts";
export * from "./problem.ts";
export * from "./task.ts";
