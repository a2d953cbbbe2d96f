export { checkSchemas } from "./check-schemas.ts";
export { helmValuesFile, moduleConfigFile, moduleValuesFile } from "./files.ts";
export * from "./ports.ts";
export { loadHooks } from "./load.ts";
export { applyObjects } from "./object-patches.ts";
export { guardOf } from "./purge-release.ts";
export { runTask } from "./run-task.ts";
