export * from "./config-map-source.ts";
export { FollowedReleases } from "./followed-releases.ts";
export * from "./healing.ts";
export { overlayInForce } from "./overlay-move.ts";
export type { ReleaseObject } from "./release-object.ts";
export * from "./schedules.ts";
export * from "./kube-bindings.ts";
export * from "./kube-bindings-views.ts";
export type { BindingTimes } from "./monitor.ts";
