export { hasStatus, assessObject } from "./assess.ts";
export { applyVolumeBinding, CLASS_UNKNOWN, type VolumeBinding } from "./finding.ts";
export { createFinding, NOT_FOUND, createUnwatchedFinding, type Finding } from "./finding.ts";
export { controllerUidOf, isCurrentReplicaSet, isOfWantedRevision, makesPods } from "./own-pods.ts";
export type { OwnPods } from "./own-pods.ts";
export {
  findReassessTime,
  summarizeHealth,
  mayBeRollbackTarget,
  provesBroken,
  findPodIssue,
} from "./summary.ts";
export type { Health, HealthCondition, NamedIssue, AssessedObject } from "./summary.ts";
