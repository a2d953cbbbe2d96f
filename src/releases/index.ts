export { WatchedReleases } from "./watched-releases.ts";
export { KindWatches } from "./kind-watches.ts";
export type { ReleaseObject } from "./object-state.ts";
