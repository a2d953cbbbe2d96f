export * from "./check-config.ts";
export * from "./facts.ts";
export * from "./module-record.ts";
export * from "./sections.ts";
export * from "./state.ts";
export * from "./values-store.ts";
export * from "./view.ts";
