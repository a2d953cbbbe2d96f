export { CONFIRM_DELETE, formatConfirmCommand, explainDeletionLimit } from "./deletion-limit.ts";
export {
  decideEnablement,
  decideAllModules,
  getInstallationId,
  mustLoadModule,
  collectModuleFacts,
  findRunProblem,
  type DiscoveryInput,
  type ModuleFacts,
  type ScriptAnswer,
  keepNamespace,
  type ReleaseFacts,
} from "./discovery.ts";
export { describeMove } from "./moves.ts";
export { drawGraph, graphToJson, buildGraph } from "./graph-text.ts";
export { findCycleProblem, getPrecedingModules, findCycle } from "./requirement-cycles.ts";
export { findBlockingFirstRuns, findModulesAwaitedByConverge } from "./scheduled-runs.ts";
export { hasGlobalConfigChanged, findConvergeCause, findRestartCause, findRunCause } from "./causes.ts";
export { canRestoreWithoutRun } from "./causes.ts";
export { Engine, choosePosition, isRunOutdated, planTasks } from "./due.ts";
export {
  SECOND_CHECK_MS,
  findRetainKey,
  mustKeepObjects,
  buildRemovalBlocker,
  classifyDisabledModules,
  explainRemovalBlocker,
  findPurgeBlocker,
  mayMoveNow,
  collectRemovalInput,
  decideRemovals,
  describeDependents,
  describeRequiredBy,
  findStayingDependents,
  type Removals,
} from "./removals.ts";
export {
  explainRequirements,
  canStartRun,
  isRunnable,
  isReleaseIntact,
  findRunBlocker,
  type Requirement,
  type RunBlocker,
} from "./run-readiness.ts";
export { simulateStart } from "./waves.ts";
