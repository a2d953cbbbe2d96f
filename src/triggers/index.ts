export * from "./config/config-map-source.ts";
export { FollowedReleases } from "./releases/followed-releases.ts";
export * from "./releases/healing.ts";
export { overlayInForce } from "./config/overlay-move.ts";
export type { ReleaseObject } from "./releases/release-object.ts";
export * from "./schedules.ts";
export * from "./kubernetes/kube-bindings.ts";
export * from "./kubernetes/kube-bindings-views.ts";
export type { BindingTimes } from "./kubernetes/monitor/monitor.ts";
