export { checkSchemas } from "./reload/check-schemas.ts";
export { helmInput, moduleConfigFile, moduleValuesFile } from "./hook/files.ts";
export * from "./ports.ts";
export { loadHooks } from "./reload/load.ts";
export { applyObjects } from "./hook/object-patches.ts";
export { runTask } from "./run-task.ts";
