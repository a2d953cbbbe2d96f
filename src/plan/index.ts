export { CONFIRM_DELETE, explainBrake } from "./brake.ts";
export {
  decide,
  decideAll,
  identityOf,
  isWanted,
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
  explainHold,
  explainModule,
  nextTryAt,
  reloadHold,
  waitsOf,
  type Moment,
  type ReloadHold,
  type Waits,
} from "./explain/explain-wait.ts";
export { failingOf } from "./explain/failing-hooks.ts";
export { drawGraph, graphData, graphOf, preceding, requirementCycle } from "./graph.ts";
export { configOvertaken, placeOf, plan, reloadOwed, restartOwed, runOwed } from "./owed.ts";
export { mayRestore } from "./restores.ts";
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
export { explainHeldBack, heldBack } from "./explain/held-back.ts";
export {
  TURN_LIMIT_MS,
  heldBy,
  lostBy,
  mayBegin,
  mayRun,
  turnsLeft,
  waitOf,
  type Requirement,
  type Wait,
} from "./turns.ts";
export { wavesOf } from "./waves.ts";
