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
export { HELM, digestFieldManagers, withoutFields, type FieldManagers } from "./managed-fields.ts";
