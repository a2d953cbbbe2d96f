export { parseHookConfig } from "./config/hook-config.ts";
export { renderContext } from "./context.ts";
export {
  runEnabledScript,
  scriptRunner,
  type EnabledAnswer,
  type EnabledScriptRun,
} from "./enabled-script.ts";
export { hookEnvironment } from "./hook-command.ts";
export { applyObjects, objectPatcher } from "./answer/apply-objects.ts";
export { LeftoverError } from "./answer/json-stream.ts";
export type { HookOutput } from "./answer/leftovers.ts";
export { HookLoader, type AskOptions, type LoadedHook } from "./config/loader.ts";
export { parseMetrics, type MetricOperation } from "./answer/metric-operations.ts";
export { parseObjectOperations, type ObjectOperation } from "./answer/object-operations.ts";
export { hookRunner, runHook, type HookRunInput, type HookRunResult, type RunSettings } from "./run-hook.ts";
export { hookFileAt, hookOffline, type OfflineRun } from "./offline.ts";
export { lintHook } from "./config/lint-hook.ts";
