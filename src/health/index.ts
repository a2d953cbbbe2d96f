export { hasStatus, assessObject } from "./assess.ts";
export {
  createFinding as findingOf,
  NOT_FOUND,
  createUnwatchedFinding as unwatched,
  type Finding,
} from "./finding.ts";
export {
  controllerUidOf as controllerOf,
  isCurrentReplicaSet,
  isOfWantedRevision,
  makesPods,
} from "./own-pods.ts";
export type { OwnPods } from "./own-pods.ts";
export {
  findReassessTime as reassessAt,
  summarizeHealth as healthOf,
  mayBeRollbackTarget as mayBeGood,
  provesBroken,
  findPodIssue as podIssue,
} from "./summary.ts";
export type { Health, HealthCondition, NamedIssue, AssessedObject } from "./summary.ts";
