export * from "./ports.ts";
export { checkSchemas, loadHooks, noteServerVersion } from "./reload/load.ts";
export { scriptOf } from "./reload/discover.ts";
export { runTask, traceTask } from "./run-task.ts";
