export * from "./backoff.ts";
export * from "./clock.ts";
export * from "./duration.ts";
export * from "./errors.ts";
export * from "./hash.ts";
export * from "./log.ts";
export * from "./names.ts";
export * from "./scope.ts";
