export { EVENT_REASONS, EventWriter, type EventReason, type OperatorEvent } from "./events.ts";
export type { IAddonModule } from "./models/addon-module.ts";
export type { IAddonOperator } from "./models/addon-operator.ts";
export type { IModuleSource } from "./models/module-source.ts";
export {
  ADDON_MODULES,
  ADDON_OPERATORS,
  MODULE_SOURCES,
  STALLED,
  omitUndefined,
  toStatusLine,
  type AddonObject,
  type Condition,
  type ModuleStatus,
  type SourceStatus,
} from "./models/kinds.ts";
export {
  VALUES_LIMIT,
  displayValues,
  type DisplayedValues,
  type StatusValues,
} from "./project/displayed-values.ts";
export { isOperatorReason, getRunbookPath } from "./models/runbook.ts";
export { describeSourceProblem } from "./project/source-problem.ts";
export { buildOverview, findCondition, summarizeState, toModuleRow, toOverview } from "./project/overview.ts";
export type { Overview, OverviewRow } from "./project/overview.ts";
export { explainModule, explainProjected, findAwaitedModule } from "./project/why.ts";
export { Projector, type Projection } from "./project/projector.ts";
export { addTransitionTimes, type UntimedCondition } from "./project/conditions.ts";
export { explain, type Explanation, type ModuleExplanation } from "./explain/explain.ts";
export type { StateSnapshot } from "./explain/snapshot-index.ts";
export { describeEnablement, describeAwaitedTask } from "./explain/reasons.ts";
export { HOW_TO_END_HANGING_HOOK, explainHeadOfLineBlocking } from "./explain/failing-hooks.ts";
export { describeContent, describeOrigin, toDisplayedOrigin } from "./explain/origin.ts";
export { withGeneration } from "./write/stored-object.ts";
export type { MirrorOptions, StatusReport } from "./write/mirror-options.ts";
export { StatusMirror } from "./write/status-mirror.ts";
