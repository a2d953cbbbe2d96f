export { scriptOf } from "./discover.ts";
export { checkSchemas, loadHooks, noteServerVersion } from "./load.ts";
export * from "./run-task.ts";
