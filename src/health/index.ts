export { hasStatus, judgeObject } from "./judge.ts";
export { findingOf, makesPods, NOT_FOUND, unwatched, type Finding } from "./finding.ts";
export { podTrouble, type NamedTrouble } from "./pod-trouble.ts";
export { dueAt, healthOf, type Health, type HealthVerdict, type Patient } from "./summary.ts";
