export { hasStatus, judgeObject } from "./judge.ts";
export { findingOf, makesPods, NOT_FOUND, unwatched, type Finding } from "./finding.ts";
export { controllerOf, isCurrentReplicaSet, isOfWantedRevision } from "./own-pods.ts";
export type { OwnPods } from "./own-pods.ts";
export { dueAt, healthOf, mayBeGood, provesBroken, podTrouble } from "./summary.ts";
export type { Health, HealthVerdict, NamedTrouble, Patient } from "./summary.ts";
