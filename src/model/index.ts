export * from "./binding.ts";
export * from "./task.ts";
export * from "./json.ts";
export * from "./module.ts";
export * from "./problem.ts";
export * from "./references.ts";
export * from "./span.ts";
