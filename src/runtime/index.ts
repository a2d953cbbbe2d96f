export { Loop } from "./loop.ts";
export { WatchedSet } from "./watched-set.ts";
export { serialize, type RunInTurn } from "./turns.ts";
