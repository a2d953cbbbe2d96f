export { hasStatus, assessObject } from "./assess.ts";
export { findingOf, NOT_FOUND, unwatched, type Finding } from "./finding.ts";
export { controllerOf, isCurrentReplicaSet, isOfWantedRevision, makesPods } from "./own-pods.ts";
export type { OwnPods } from "./own-pods.ts";
export { reassessAt, healthOf, mayBeGood, provesBroken, podIssue } from "./summary.ts";
export type { Health, HealthCondition, NamedIssue, AssessedObject } from "./summary.ts";
