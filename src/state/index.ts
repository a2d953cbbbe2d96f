export { hasBrokenFiles, buildCrdRequest, newModuleRecord, problemOf } from "./module-record.ts";
export type { Enablement, ModuleRecord, RevisionHealth } from "./module-record.ts";
export type { ModuleEvents } from "./module-events.ts";
export { MAX_ROUNDS } from "./run-record.ts";
export type { LastRun, ModuleActivity, RetryReason, RunRecord } from "./run-record.ts";
export { readAnnotationToken, APPROVE_UPDATE, hasConfirmations } from "./annotations.ts";
export { deriveFromModules } from "./module-records.ts";
export { getReleaseVersion } from "./module-view.ts";
export { State } from "./state.ts";
export type { Simulation } from "./simulation/simulation.ts";
export { NO_FILES, configIsMissing, explainInvalid, listMissingObjects, collectWarnings } from "./view.ts";
export type {
  BootPhase,
  DeletionLimitView,
  DeletionWindow,
  RemovalBlocker,
  InvalidConfig,
  ModuleView,
  RequiredFinding,
  View,
} from "./view.ts";
export type { ConvergeDigests, ConvergePhase } from "./converge-record.ts";
