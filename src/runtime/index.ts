export { Loop } from "./loop.ts";
export { Pacer } from "./pacer.ts";
export { WatchedSet } from "./watched-set.ts";
export { serialize, type RunInTurn } from "./turns.ts";
