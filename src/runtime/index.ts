export { Loop } from "./loop.ts";
export { serialize, type RunInTurn } from "./turns.ts";
