export {
  NO_DRIFT,
  describeChangesByOthers,
  compareObjects,
  describeDrift,
  describeObject,
  summarizeDrift,
  mayBeAutoscaled,
} from "./difference.ts";
export type { Comparison, Drift, DriftedField, DriftedObject } from "./difference.ts";
export { areListsApplied, describeDuplicateItems, findDuplicateItems } from "./duplicate-items.ts";
export type { DuplicateItems } from "./duplicate-items.ts";
export { withoutDirectives } from "./directives.ts";
export { findReplacedItems, splitReplacedItems, withoutReplacedItems } from "./replaced-items.ts";
export type { ReplacedItems } from "./replaced-items.ts";
export { HELM, digestFieldManagers, withoutFields, type FieldManagers } from "./managed-fields.ts";
export { moveFields, splitFields, type FieldSplit } from "./managed-fields.ts";
