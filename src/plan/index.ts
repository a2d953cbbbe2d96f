export { CONFIRM_DELETE, confirmCommand, explainDeletionLimit } from "./deletion-limit.ts";
export {
  decideEnabled,
  decideAll,
  installationId,
  needsLoading,
  moduleFacts,
  runProblem,
  type DiscoveryInput,
  type ModuleFacts,
  type ScriptAnswer,
} from "./discovery.ts";
export { Engine } from "./engine.ts";
export {
  describeRunWait,
  enabledText,
  explainBlockers,
  explainModule,
  nextRetryAt,
  convergeBlocker,
  waitsOf,
  type StateSnapshot,
  type ConvergeBlocker,
  type Waits,
} from "./explain/explain-wait.ts";
export { HOW_TO_END, droppedTicks, failingOf } from "./explain/failing-hooks.ts";
export { describeReasons, describeHealth, type Reasons } from "./explain/reasons.ts";
export { describeContent, describeOrigin, originOf, type DisplayedOrigin } from "./explain/origin.ts";
export { describeAwaitedTask } from "./explain/task-words.ts";
export { drawGraph, graphData, graphOf } from "./explain/graph-text.ts";
export { cycleProblem, preceding, requirementCycle } from "./graph.ts";
export { configSuperseded, placeOf, plan, convergeDue, restartDue, runDue } from "./due.ts";
export { mayRestore } from "./restores.ts";
export {
  SECOND_CHECK_MS,
  keepReleaseKey,
  keepsObjects,
  blockerOf,
  modulesToRemove,
  removalBlocker,
  purgeBlocker,
  removalsOf,
  requiredBy,
  type Removals,
} from "./removals.ts";
export { removalInput, type ObservedFacts } from "./removal-facts.ts";
export { explainDeferred, deferredWork } from "./explain/deferred.ts";
export {
  blockedBy,
  lostRequirement,
  mayBegin,
  mayRun,
  turnsLeft,
  waitOf,
  type Requirement,
  type Wait,
} from "./turns.ts";
export { wavesOf } from "./waves.ts";
