export {
  NO_DRIFT,
  changedByOthers,
  compare,
  describeDrift,
  describeObject,
  driftOf,
  maybeAutoscaled,
} from "./difference.ts";
export type { Comparison, Drift, DriftedField, DriftedObject } from "./difference.ts";
export { HELM, fieldManagersOf, withoutFields, type FieldManagers } from "./managed-fields.ts";
