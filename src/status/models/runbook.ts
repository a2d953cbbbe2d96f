/** Links to the sections of the on-call guide, docs/guides/on-call.md. */

const GUIDES = "docs/guides/";
const PAGE = `${GUIDES}on-call.md`;

/** By state of a module, by reason of its failure or of a Stalled condition, or by phase. A path names another guide. */
const SECTIONS: Readonly<Record<string, string>> = {
  Retrying: "one-module-fails-and-others-wait",
  HookFailed: "a-hook-fails",
  SourceUnavailable: "a-module-source-is-not-ready",
  ObjectsExist: "running.md#taking-over",
  Discovery: "discovery-fails",
  Start: "start-here",
  Pending: "a-module-waits",
  Running: "helm-hangs",
  Progressing: "a-pod-is-in-crashloopbackoff",
  Unhealthy: "a-pod-is-in-crashloopbackoff",
  Deleting: "a-module-cannot-be-removed",
  Invalid: "a-module-is-invalid",
  RolledBack: "go-back",
  Suspended: "freeze-everything",
  Drifted: "an-object-was-changed-by-hand",
  ConfigMapInvalid: "the-configmap-is-invalid",
  ConfigMapMissing: "the-configmap-is-missing",
  SourcesUnreadable: "module-sources.md#when-something-is-missing",
  RemovalHeld: "a-removal-is-blocked",
  ModulesInvalid: "a-module-is-invalid",
  HooksFailing: "a-hook-fails",
  ReloadHeldUp: "a-hook-fails",
  NotRunning: "the-operator-does-not-answer",
};

/** Reasons that are about the operator itself, not about one of its modules. */
const OPERATOR_REASONS: ReadonlySet<string> = new Set([
  "ConfigMapInvalid",
  "ConfigMapMissing",
  "SourcesUnreadable",
  "RemovalHeld",
  "HooksFailing",
  "NotRunning",
]);

/** Whether a reason of Ready is about the operator itself, and has a section. */
export function isOperatorReason(reason: string): boolean {
  return OPERATOR_REASONS.has(reason);
}

/** States and reasons that have a section. */
export const RUNBOOKS = Object.keys(SECTIONS);

/** Path of the section about a state or reason; of the page itself if it has no section. */
export function getRunbookPath(about: string): string {
  const section = SECTIONS[about];
  if (section === undefined) return PAGE;
  return section.includes("#") ? `${GUIDES}${section}` : `${PAGE}#${section}`;
}
