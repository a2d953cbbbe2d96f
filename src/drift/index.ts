export { compare } from "./difference.ts";
export type { Comparison, DriftedField } from "./difference.ts";
export { HELM, handsOf } from "./hands.ts";
export type { Hands } from "./hands.ts";
export { NO_DRIFT, changedByOthers, describeDrift, describeObject, driftOf } from "./report.ts";
export type { Drift, DriftedObject } from "./report.ts";
export { without } from "./paths.ts";
