/** Links to the sections of the on-call guide, docs/guides/on-call.md. */

const GUIDES = "docs/guides/";
const PAGE = `${GUIDES}on-call.md`;

/** Sections about the operator itself, by reason of its condition Ready. A path names another guide. */
const OPERATOR_SECTIONS: Readonly<Record<string, string>> = {
  ConfigMapInvalid: "the-configmap-is-invalid",
  ConfigMapMissing: "the-configmap-is-missing",
  SourcesUnreadable: "module-sources.md#when-something-is-missing",
  RemovalHeld: "a-removal-is-blocked",
  ReloadHeldUp: "a-hook-fails",
  HooksFailing: "a-hook-fails",
  LeaseFailed: "the-api-server-is-slow-or-away",
  WatchFailed: "the-api-server-is-slow-or-away",
  NotRunning: "the-operator-does-not-answer",
};

/** All sections: also by state of a module, by reason of its failure or of a Stalled condition, or by phase. */
const SECTIONS: Readonly<Record<string, string>> = {
  ...OPERATOR_SECTIONS,
  Retrying: "one-module-fails-and-others-wait",
  HookFailed: "a-hook-fails",
  ReadinessProbeFailed: "a-hook-fails",
  ScriptFailed: "discovery-fails",
  SourceUnavailable: "a-module-source-is-not-ready",
  ObjectsExist: "running.md#taking-over",
  Discovery: "discovery-fails",
  Pending: "a-module-waits",
  Running: "helm-hangs",
  Progressing: "a-module-is-unhealthy",
  Unhealthy: "a-module-is-unhealthy",
  Deleting: "a-module-cannot-be-removed",
  Invalid: "a-module-is-invalid",
  ModulesInvalid: "a-module-is-invalid",
  RolledBack: "go-back",
  Suspended: "freeze-everything",
  Drifted: "an-object-was-changed-by-hand",
};

/** Whether a reason of Ready is about the operator itself, and has a section. */
export function isOperatorReason(reason: string): boolean {
  return Object.hasOwn(OPERATOR_SECTIONS, reason);
}

/** States and reasons that have a section. */
export const RUNBOOKS = Object.keys(SECTIONS);

/** Path of the section about a state or reason of a module or of the operator; of the on-call guide itself if it has no section. */
export function getRunbookPath(about: string): string {
  const section = SECTIONS[about];
  if (section === undefined) return PAGE;
  const isInOtherGuide = section.includes("#");
  return isInOtherGuide ? `${GUIDES}${section}` : `${PAGE}#${section}`;
}
