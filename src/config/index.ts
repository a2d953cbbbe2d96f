export { AcceptedConfig } from "./map/config-objects.ts";
export { WatchedConfig } from "./map/watched-config.ts";
export { WatchedFiles } from "./files/watched-files.ts";
export type { TriggerReport, WatchHealth } from "./report.ts";
export { INVALID_TOKEN_MESSAGE, isRequestToken, Annotations } from "./annotations.ts";
export { findStoredOverlay } from "./map/overlay.ts";
export { RequiredObjects } from "./required-objects.ts";
export { WatchIssues } from "./watch-issues.ts";
export { readValuesSources, ValuesSources } from "./values-sources.ts";
