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
} from "./discovery.ts";
export { Engine } from "./engine.ts";
export {
  describeRunWait,
  explainBlockers,
  explainModule,
  getNextRetryTime,
  findConvergeBlocker,
  collectWaits,
  type StateSnapshot,
  type ConvergeBlocker,
  type Waits,
} from "./explain/explain-wait.ts";
export { describeEnablement } from "./explain/enablement.ts";
export {
  HOW_TO_END_HANGING_HOOK,
  describeDroppedTicks,
  describeFailingHooks,
} from "./explain/failing-hooks.ts";
export { describeReasons, describeHealth, type Reasons } from "./explain/reasons.ts";
export {
  describeContent,
  describeOrigin,
  toDisplayedOrigin,
  type DisplayedOrigin,
} from "./explain/origin.ts";
export { describeAwaitedTask } from "./explain/task-words.ts";
export { drawGraph, graphToJson, buildGraph } from "./explain/graph-text.ts";
export { findCycleProblem, getPrecedingModules, findCycle } from "./requirements/graph.ts";
export { hasGlobalConfigChanged, findConvergeCause, findRestartCause, findRunCause } from "./causes.ts";
export { choosePosition, planTasks } from "./due.ts";
export { canRestoreWithoutRun } from "./restores.ts";
export {
  SECOND_CHECK_MS,
  findRetainKey,
  mustKeepObjects,
  buildRemovalBlocker,
  classifyDisabledModules,
  explainRemovalBlocker,
  findPurgeBlocker,
  decideRemovals,
  describeRequiredBy,
  type Removals,
} from "./removals.ts";
export { collectRemovalInput, type ObservedFacts } from "./removal-facts.ts";
export { explainHeadOfLineBlocking, explainBlockedConverge } from "./explain/deferred.ts";
export {
  describeRunBlocker,
  findLostRequirement,
  canStartRun,
  isRunnable,
  findModulesAwaitedByConverge,
  findRunBlocker,
  type RunBlocker,
} from "./run-readiness.ts";
export { simulateStart } from "./waves.ts";
export type { Requirement } from "./requirements/requirements.ts";
