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
export { drawGraph, graphData, graphOf } from "./draw-graph.ts";
export { Engine } from "./engine.ts";
export {
  describeHelmWait,
  enabledText,
  explainHold,
  explainModule,
  nextTryAt,
  type Waits,
  waitsOf,
  type Moment,
} from "./explain-wait.ts";
export { configOvertaken, placeOf, plan, reloadOwed, restartOwed, runOwed } from "./owed.ts";
export {
  SECOND_LOOK_MS,
  guardOf,
  holdOf,
  leaving,
  nothingGoes,
  purgeHold,
  removalsOf,
  requiredBy,
  type Removals,
} from "./removals.ts";
export {
  heldBy,
  lostBy,
  preceding,
  requirementCycle,
  waitOf,
  type Requirement,
  type Wait,
} from "./requirements.ts";
export { mayBegin, mayRun, turnsLeft } from "./turns.ts";
export { wavesOf } from "./waves.ts";
