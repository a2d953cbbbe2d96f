export {
  NO_DRIFT,
  describeChangesByOthers as changedByOthers,
  compareObjects as compare,
  describeDrift,
  describeObject,
  summarizeDrift as driftOf,
  mayBeAutoscaled as maybeAutoscaled,
} from "./difference.ts";
export type { Comparison, Drift, DriftedField, DriftedObject } from "./difference.ts";
export {
  HELM,
  digestFieldManagers as fieldManagersOf,
  withoutFields,
  type FieldManagers,
} from "./managed-fields.ts";
