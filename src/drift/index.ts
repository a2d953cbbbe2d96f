export { compare, type Comparison, type DriftedField } from "./difference.ts";
export { HELM, handsOf, without, type Hands } from "./managed-fields.ts";
export { NO_DRIFT, changedByOthers, describeDrift, describeObject, driftOf } from "./report.ts";
export type { Drift, DriftedObject } from "./report.ts";
