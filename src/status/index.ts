export { EVENT_REASONS, EventWriter, type EventReason, type OperatorEvent } from "./events.ts";
export type { IAddonModule } from "./models/addon-module.ts";
export type { IAddonOperator } from "./models/addon-operator.ts";
export {
  ADDON_MODULES,
  ADDON_OPERATORS,
  STALLED,
  type AddonObject,
  type Condition,
  type ModuleStatus,
} from "./models/kinds.ts";
export {
  VALUES_LIMIT,
  projectModule,
  showValues,
  type ShownValues,
  type StatusValues,
} from "./project/module-status.ts";
export { projectOperator } from "./project/operator-status.ts";
export { overviewOf, standingOf, type ModuleRow, type Overview } from "./project/overview.ts";
export { Projector } from "./project/projector.ts";
export { isHidden, judge } from "./project/verdict.ts";
export { stamp } from "./write/mirrored.ts";
export { watchOwnObjects } from "./write/objects.ts";
export { StatusMirror, type MirrorOptions } from "./write/status-mirror.ts";
