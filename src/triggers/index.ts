export * from "./config/followed-config.ts";
export { FollowedReleases } from "./releases/followed-releases.ts";
export * from "./releases/healing.ts";
export { REQUESTED_AT, Requests } from "./requests.ts";
export { overlayInForce } from "./config/overlay-move.ts";
export { ReleaseDrift } from "./releases/release-drift.ts";
export { KindWatches } from "./releases/kind-watches.ts";
export type { ReleaseObject } from "./releases/release-object.ts";
export { RequiredObjects } from "./required/required-objects.ts";
