export * from "./client.ts";
export * from "./errors.ts";
export * from "./limits.ts";
export * from "./list.ts";
export * from "./resources.ts";
export * from "./verbs.ts";
export * from "./hub.ts";
export { isLater, labelSelectorText, objectKey } from "./watch-spec.ts";
export type { WatchSpec, WatchedObject } from "./watch-spec.ts";
