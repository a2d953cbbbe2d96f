export { crdRequest, newModuleRecord, startOver } from "./module-record.ts";
export type { Enablement, ModuleRecord, RevisionHealth } from "./module-record.ts";
export { brokenFiles, problemOf } from "./module-records.ts";
export { MAX_ROUNDS, remembering, withTurn } from "./run-record.ts";
export type { LastRun, ModuleActivity, RetryReason, RunEvents, RunRecord } from "./run-record.ts";
export { annotationToken } from "./request-token.ts";
export { State } from "./state.ts";
export { NO_FILES, configIsMissing, explainInvalid, missingObjects } from "./view.ts";
export type {
  BootPhase,
  BrakeView,
  DeletionWindow,
  Hold,
  InvalidConfig,
  ModuleView,
  ReleaseView,
  RequiredFinding,
  View,
} from "./view.ts";
export type { Coverage, ReloadPhase } from "./reload-record.ts";
