export { EVENT_REASONS, EventWriter, type EventReason, type OperatorEvent } from "./events.ts";
export type { IAddonModule } from "./models/addon-module.ts";
export type { IAddonOperator } from "./models/addon-operator.ts";
export type { IModuleSource } from "./models/module-source.ts";
export {
  ADDON_MODULES,
  ADDON_OPERATORS,
  MODULE_SOURCES,
  STALLED,
  line,
  type AddonObject,
  type Condition,
  type ModuleStatus,
} from "./models/kinds.ts";
export {
  VALUES_LIMIT,
  projectModule,
  displayValues,
  type DisplayedValues,
  type StatusValues,
} from "./project/module-status.ts";
export { isOfOperator, runbook } from "./models/runbook.ts";
export { projectOperator } from "./project/operator-status.ts";
export { overviewOf, stateSummaryOf, type ModuleRow, type Overview } from "./project/overview.ts";
export { Projector } from "./project/projector.ts";
export {
  isHidden,
  transitionsOf,
  evaluateModule,
  withTimes,
  type UntimedCondition,
} from "./project/evaluation.ts";
export { withGeneration } from "./write/mirrored.ts";
export { StatusMirror, type MirrorOptions } from "./write/status-mirror.ts";
