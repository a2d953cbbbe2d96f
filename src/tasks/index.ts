export { checkSchemas } from "./check-schemas.ts";
export { helmValuesFile, moduleConfigFile, moduleValuesFile } from "./files.ts";
export * from "./hands.ts";
export { loadHooks } from "./load.ts";
export { applyObjects } from "./object-patches.ts";
export { guardOf } from "./purge.ts";
export { runTask } from "./run.ts";
