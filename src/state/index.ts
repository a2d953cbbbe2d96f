export { checkConfig, checkIdle, invalidValues, judgeConfig } from "./values/check-config.ts";
export { brokenFiles, newModuleRecord, problemOf, startOver } from "./module-record.ts";
export type { Enablement, ModuleRecord, RevisionHealth } from "./module-record.ts";
export {
  MAX_ROUNDS,
  atStep,
  begun,
  broken,
  completed,
  failed,
  passedOver,
  remembering,
  rolledBack,
  succeeded,
  withTurn,
  withValuesOfNow,
} from "./run-record.ts";
export type { LastRun, ModuleActivity, RetryReason, RunRecord } from "./run-record.ts";
export { State } from "./state.ts";
export { crdRequest, helmInput, valuesFiles, type ValuesFiles } from "./values/values-files.ts";
export type { ValuesView } from "./values/values-store.ts";
export { NO_FILES, configIsMissing } from "./view.ts";
export type { BootPhase, BrakeView, Hold, ModuleView, ReleaseView, RequiredFinding, View } from "./view.ts";
export type { Coverage, ReloadPhase } from "./reload-record.ts";
