export { checkSchemas } from "./check-schemas.ts";
export { helmValuesFile, moduleConfigFile, moduleValuesFile } from "./files.ts";
export * from "./hands.ts";
export { loadHooks, loadTree } from "./load.ts";
export { applyObjects } from "./object-patches.ts";
export type { PatcherOptions } from "./object-patches.ts";
export { guardOf } from "./purge.ts";
export { runTask } from "./run.ts";
