export { CONFIRM_DELETE, explainBrake } from "./brake.ts";
export {
  decide,
  decideAll,
  isWanted,
  moduleFacts,
  type DiscoveryInput,
  type ModuleFacts,
  type ScriptAnswer,
} from "./discovery.ts";
export {
  describeHelmWait,
  enabledText,
  explainHold,
  explainModule,
  nextTryAt,
  type Moment,
} from "./explain-wait.ts";
export { RELOAD_KEY, placeOf, plan, reloadTask, runOwed, type Offer, type Plan } from "./owed.ts";
export { configOvertaken, reloadOwed, restartOwed } from "./reload-owed.ts";
export { mayBegin, mayRun, turnsLeft } from "./turns.ts";
export { drawGraph, graphData, graphOf } from "./draw-graph.ts";
export { requiredBy } from "./dependents.ts";
export { preceding, requirementCycle } from "./requirement-graph.ts";
export { heldBy, lostBy, toldRequirements, waitOf, type Requirement, type Wait } from "./requirements.ts";
export { wavesOf } from "./waves.ts";
export {
  SECOND_LOOK_MS,
  guardOf,
  leaving,
  holdOf,
  nothingGoes,
  purgeHold,
  removalsOf,
  type Removals,
} from "./removals.ts";
