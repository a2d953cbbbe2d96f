export { judgeObject } from "./judge.ts";
export { findingOf, makesPods, NOT_FOUND, unwatched } from "./finding.ts";
export type { Finding } from "./finding.ts";
export { hasStatus } from "./kinds.ts";
export { podTrouble } from "./pod-trouble.ts";
export type { NamedTrouble } from "./pod-trouble.ts";
export { dueAt, healthOf } from "./summary.ts";
export type { Health, HealthVerdict, Patient } from "./summary.ts";
