export { hasStatus, judgeObject } from "./judge.ts";
export { findingOf, makesPods, NOT_FOUND, unwatched, type Finding } from "./finding.ts";
export { dueAt, healthOf, podTrouble } from "./summary.ts";
export type { Health, HealthVerdict, NamedTrouble, Patient } from "./summary.ts";
