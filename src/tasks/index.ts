export * from "./ports.ts";
export { checkSchemas, loadHooks, noteServerVersion } from "./load.ts";
export { scriptOf } from "./discover.ts";
export { runTask } from "./run-task.ts";
