export * from "./conditions.ts";
export * from "./module.ts";
export * from "./operator.ts";
export * from "./resources.ts";
export * from "./types.ts";
export * from "./values-mirror.ts";
export * from "./verdict.ts";
