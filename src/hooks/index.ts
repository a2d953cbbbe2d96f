export { applyObjects, type PatcherOptions } from "./answer/apply-objects.ts";
export { LeftoverError, parseMetrics, type MetricOperation } from "./answer/leftovers.ts";
export { parseObjectOperations } from "./answer/object-operations.ts";
export { parseHookConfig } from "./config/hook-config.ts";
export { HookLoader, type AskOptions } from "./config/loader.ts";
export { runEnabledScript } from "./enabled-script.ts";
export { hookFileAt, hookOffline, lintHook, type OfflineRun } from "./offline.ts";
export { hookEnvironment, renderContext, runHook } from "./run-hook.ts";
export type { HookOutput, HookRunInput, HookRunResult, RunSettings } from "./run-hook.ts";
