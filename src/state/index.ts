export * from "./values/check-config.ts";
export * from "./facts.ts";
export * from "./module-record.ts";
export * from "./run-record.ts";
export * from "./values/sections.ts";
export * from "./state.ts";
export * from "./values/values-store.ts";
export * from "./view.ts";
