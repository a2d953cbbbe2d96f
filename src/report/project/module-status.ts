/** Projects the view of a module (what the operator knows in memory) to the wanted spec and status of its AddonModule (docs/reference/status.md). */

import { displayDigest, formatUtc } from "../../base/index.ts";
import { describeDrift } from "../../kube/drift/index.ts";
import type { Drift } from "../../kube/drift/index.ts";
import type { Health } from "../../kube/health/index.ts";
import { describeCause } from "../../base/model/index.ts";
import type { Requirement } from "../../engine/plan/index.ts";
import { readAnnotationToken, listMissingObjects, getReleaseVersion } from "../../engine/state/index.ts";
import type { LastRun, ModuleView } from "../../engine/state/index.ts";
import { omitUndefined, toConditionMessage, toStatusLine } from "../models/kinds.ts";
import type {
  LastRunStatus,
  ModuleSpec,
  ModuleStatus,
  ReleaseStatus,
  RequirementStatus,
} from "../models/kinds.ts";
import { addTransitionTimes, buildHooksFailingCondition, buildProgressConditions } from "./conditions.ts";
import type { UntimedCondition } from "./conditions.ts";
import type { ModuleExplanation } from "../explain/explain.ts";
import { toDisplayedOrigin } from "../explain/origin.ts";
import { describeDecision } from "../explain/reasons.ts";

/** The wanted content of an AddonModule. */
export interface ModuleProjection {
  readonly spec: ModuleSpec;
  readonly status: ModuleStatus;
}

/** Input of a projection besides the explanation of the module. */
export interface ModuleContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The previous status. It provides `lastRun` while the current run is too young to be announced, and the times of conditions and requirements. */
  readonly previousStatus?: ModuleStatus | undefined;
  /** As whom the module acts; undefined = as the operator. */
  readonly identity?: ModuleStatus["identity"];
}

/** The status names at most this many missing objects: a deleted namespace may have thousands. */
const MAX_ABSENT_OBJECTS = 20;

/**
 * Computes the wanted content of a module's AddonModule, without the merged values. It is pure, so that callers can cache the
 * result. Of `previousStatus` it keeps the times of unchanged conditions, and `lastRun` while the next run is very young.
 */
export function projectModule(
  explanation: ModuleExplanation,
  { now, previousStatus, identity }: ModuleContext,
): ModuleProjection {
  const { view, isRunUnannounced } = explanation;
  const missing = listMissingObjects(view);
  return {
    spec: { enabled: view.enabled, order: view.module.order, configDigest: displayDigest(view.configDigest) },
    status: omitUndefined({
      state: explanation.state,
      enabledBy: view.enabledBy,
      enabledReason: mapOptional(view.enabledReason, toStatusLine),
      valuesDigest: displayDigest(view.wholeDigest),
      lastRun: isRunUnannounced ? previousStatus?.lastRun : mapOptional(view.lastRun, projectRun),
      runSeconds: view.runSeconds.length === 0 ? undefined : view.runSeconds,
      release: projectRelease(view),
      chartVersion: getReleaseVersion(view) === undefined ? view.module.chartVersion : undefined,
      absent: missing.length === 0 ? undefined : missing.slice(0, MAX_ABSENT_OBJECTS),
      ...projectRequires(explanation.requirements, previousStatus?.requires, now),
      ...mapOptional(view.health, projectHealth),
      driftedObjects: view.drift.count === 0 ? undefined : view.drift.count,
      drift: projectDrift(view.drift),
      identity,
      source: toDisplayedOrigin(view),
      failures: view.retry?.failures ?? 0,
      failingSince: mapOptional(view.retry?.since, formatUtc),
      nextRetryAt: mapOptional(explanation.nextRetryAt, formatUtc),
      waitsFor: mapOptional(explanation.runBlocker?.awaitedName, toStatusLine),
      reasons: toLines(explanation.reasons, toConditionMessage),
      warnings: toLines(explanation.warnings, toStatusLine),
      lastHandledReconcileAt: readAnnotationToken(view.handled.token),
      conditions: addTransitionTimes(buildConditions(explanation), previousStatus?.conditions, now),
    }),
  };
}

/** Most items of a list of sentences. */
const MAX_LINES = 20;

/** The first sentences, each as one line; undefined for an empty list, so that the status omits the field. */
function toLines(
  sentences: readonly string[],
  toLine: (text: string) => string,
): readonly string[] | undefined {
  return sentences.length === 0 ? undefined : sentences.slice(0, MAX_LINES).map(toLine);
}

/** All conditions of the module. Healthy, Drifted and some others exist only if there is something to report. */
function buildConditions(explanation: ModuleExplanation): UntimedCondition[] {
  const { view, lostRequirement, failingHooks } = explanation;
  const conditions = buildProgressConditions(explanation);
  if (view.health !== undefined)
    conditions.push({
      type: "Healthy",
      status: view.health.status,
      reason: view.health.reason,
      message: toStatusLine(view.health.message),
    });
  conditions.push(...buildDriftCondition(view.drift), ...buildHooksFailingCondition(failingHooks));
  if (lostRequirement !== undefined)
    conditions.push({
      type: "DependencyLost",
      status: "True",
      reason: lostRequirement.reason,
      message: toStatusLine(lostRequirement.message),
    });
  conditions.push({
    type: "Enabled",
    status: view.enabled ? "True" : "False",
    reason: ENABLED_REASON[view.enabledBy],
    message: toStatusLine(describeDecision(view)),
  });
  if (view.suspended) {
    const message = "The ConfigMap sets NoResourceReconciliation: helm changes nothing";
    conditions.push({ type: "Suspended", status: "True", reason: "NoResourceReconciliation", message });
  }
  return conditions;
}

/** The condition Drifted if others have changed objects of the release, or if they could not be compared; else an empty list. */
function buildDriftCondition(drift: Drift): UntimedCondition[] {
  const type = "Drifted";
  if (drift.count > 0)
    return [{ type, status: "True", reason: "Drifted", message: toStatusLine(describeDrift(drift)) }];
  if (drift.issue === undefined) return [];
  return [{ type, status: "Unknown", reason: "NotCompared", message: toStatusLine(drift.issue) }];
}

/** The reason of the condition Enabled, by what decided. */
const ENABLED_REASON: Readonly<Record<ModuleView["enabledBy"], string>> = {
  values: "Values",
  "module-values": "ModuleValues",
  hook: "Hook",
  configmap: "ConfigMap",
  script: "EnabledScript",
  source: "ModuleSource",
  none: "NotSwitchedOn",
};

/** The last run as the status displays it. */
function projectRun(run: LastRun): LastRunStatus {
  const { finishedAt, startedAt } = run;
  return omitUndefined({
    trigger: toStatusLine(describeCause(run.cause)),
    startedAt: formatUtc(startedAt),
    finishedAt: mapOptional(finishedAt, formatUtc),
    durationSeconds: finishedAt === undefined ? undefined : (finishedAt - startedAt) / 1000,
    result: run.result,
    step: run.step,
    hook: run.hook,
    message: mapOptional(run.message, toStatusLine),
    attempts: run.attempts,
  });
}

/** Number of the release's objects by kstatus status, and details of the objects that are not Current. */
function projectHealth({ counts, ailments }: Health): Pick<ModuleStatus, "health" | "objects"> {
  const health = ailments.map(({ object, status, reason, message }) => ({
    object,
    status,
    reason: toStatusLine(reason),
    message: toStatusLine(message),
  }));
  return health.length === 0 ? { objects: counts } : { objects: counts, health };
}

const MAX_DRIFTED_FIELDS = 20;

/** The fields of the release's objects that others have changed, at most MAX_DRIFTED_FIELDS; undefined if there are none. */
function projectDrift({ objects }: Drift): ModuleStatus["drift"] {
  const fields = objects.flatMap(({ object, fields: driftedFields }) =>
    driftedFields.map(({ field, manager, at }) =>
      omitUndefined({
        object,
        field: toStatusLine(field),
        manager: mapOptional(manager, toStatusLine),
        since: mapOptional(at, formatUtc),
      }),
    ),
  );
  return fields.length === 0 ? undefined : fields.slice(0, MAX_DRIFTED_FIELDS);
}

/** The helm release as the status displays it; undefined if there is none. */
function projectRelease(view: ModuleView): ReleaseStatus | undefined {
  const { release } = view;
  if (release === undefined) return undefined;
  return omitUndefined({
    ...release,
    chartVersion: getReleaseVersion(view),
    lastDeployed: mapOptional(release.lastDeployed, formatUtc),
    manifestChecksum: mapOptional(release.manifestChecksum, displayDigest),
  });
}

/** Converts an optional value: undefined stays undefined. */
function mapOptional<T, R>(value: T | undefined, map: (value: T) => R): R | undefined {
  return value === undefined ? undefined : map(value);
}

const MAX_REQUIREMENTS = 20;

/** Lists the requirements of the module, unmet ones first, and counts the met ones. The time `since` stays while `met` is as in the previous status. */
function projectRequires(
  all: readonly Requirement[],
  previous: ModuleStatus["requires"] = [],
  now: number,
): Pick<ModuleStatus, "requires" | "requiresMet"> {
  if (all.length === 0) return {};
  const unmet = all.filter((each) => each.unmet !== undefined);
  const met = all.filter((each) => each.unmet === undefined);
  const requires = [...unmet, ...met].slice(0, MAX_REQUIREMENTS).map((requirement) => {
    const isMet = requirement.unmet === undefined;
    const before = previous.find(
      ({ of, name, met: wasMet }) => of === requirement.of && name === requirement.name && wasMet === isMet,
    );
    return { ...projectRequirement(requirement), since: before?.since ?? formatUtc(now) };
  });
  return { requires, requiresMet: `${met.length}/${all.length}` };
}

/** One requirement as the status displays it, without its time. */
function projectRequirement({ of, name, range, unmet }: Requirement): Omit<RequirementStatus, "since"> {
  const explanation = unmet && { reason: unmet.reason, message: toStatusLine(unmet.message) };
  return omitUndefined({ of, name: toStatusLine(name), range, met: unmet === undefined, ...explanation });
}
