export {
  hasBrokenFiles,
  hasFailedScript,
  buildCrdRequest,
  newModuleRecord,
  problemOf,
  readAnnotationToken,
  APPROVE_UPDATE,
  hasConfirmations,
} from "./module-record.ts";
export type { Enablement, ModuleRecord, RevisionHealth } from "./module-record.ts";
export type { ModuleEvents } from "./module-events.ts";
export { FILES_CAUSE, findChange, isRequested, REQUESTED_CAUSE } from "./run-events.ts";
export { MAX_ROUNDS } from "./run-record.ts";
export type {
  LastRun,
  ModuleActivity,
  RetryReason,
  RunRecord,
  ConvergeDigests,
  ConvergePhase,
} from "./run-record.ts";
export { deriveFromModules, getReleaseVersion } from "./module-records.ts";
export { State, type TreeRead } from "./state.ts";
export type { Simulation } from "./simulation.ts";
export { configIsMissing, explainInvalid, listMissingObjects, collectWarnings } from "./view.ts";
export type {
  BootPhase,
  DeletionLimitView,
  HeldMove,
  DeletionWindow,
  RemovalBlocker,
  InvalidConfig,
  ModuleView,
  View,
} from "./view.ts";
