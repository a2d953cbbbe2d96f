export * from "./hands.ts";
export { loadHooks, loadTree } from "./load.ts";
export { runTask } from "./run.ts";
