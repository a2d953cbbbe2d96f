/** The AddonModule of a module: its state, what it requires, and its values (docs/reference/status.md). */

import { KnownSecrets, displayDigest, formatUtc } from "../../lib/index.ts";
import { describeDrift } from "../../drift/index.ts";
import type { Drift } from "../../drift/index.ts";
import type { Health } from "../../health/index.ts";
import type { Release } from "../../helm/index.ts";
import { type Json, describeCause, isJsonObject } from "../../model/index.ts";
import { describeEnablement, toDisplayedOrigin, type Requirement } from "../../plan/index.ts";
import { annotationToken, missingObjects } from "../../state/index.ts";
import type { LastRun, ModuleView } from "../../state/index.ts";
import { defined, line } from "../models/kinds.ts";
import type {
  LastRunStatus,
  ModuleSpec,
  ModuleStatus,
  ReleaseStatus,
  RequirementStatus,
} from "../models/kinds.ts";
import {
  failingHooksConditions,
  isHidden,
  evaluateModule,
  progressConditions,
  withTimes,
} from "./evaluation.ts";
import type { UntimedCondition, EvaluationContext, Transitions, Evaluation } from "./evaluation.ts";

/** An AddonModule as it should be. */
export interface ModuleProjection {
  readonly spec: ModuleSpec;
  readonly status: ModuleStatus;
}

/** Input of a projection besides the module's view. */
export interface ModuleContext extends EvaluationContext {
  /** Transition times of the status before. */
  readonly before: Transitions;
  /**
   * The previous status. It provides `lastRun` while the current run is too young to be announced, and the times of
   * requirements.
   */
  readonly displayedBefore?: ModuleStatus | undefined;
  readonly requirements?: readonly Requirement[];
  readonly displayed: DisplayedValues;
  /** As whom the module acts; undefined = as the operator. */
  readonly identity?: ModuleStatus["identity"];
  /** When a failure is tried again, in ms since the epoch. */
  readonly nextRetryAt?: number | undefined;
}

const MAX_ABSENT_OBJECTS = 20;

/** Computes the AddonModule of a module. Pure. */
export function projectModule(view: ModuleView, facts: ModuleContext): ModuleProjection {
  const evaluation = evaluateModule(view, facts);
  const missing = missingObjects(view);
  return {
    spec: { enabled: view.enabled, order: view.module.order, configDigest: displayDigest(view.configDigest) },
    status: defined({
      state: evaluation.state,
      enabledBy: view.enabledBy,
      enabledReason: mapOptional(view.enabledReason, line),
      valuesDigest: displayDigest(view.wholeDigest),
      ...facts.displayed,
      lastRun: isHidden(view, facts.now)
        ? facts.displayedBefore?.lastRun
        : mapOptional(view.lastRun, projectRun),
      runSeconds: view.runSeconds.length === 0 ? undefined : view.runSeconds,
      release: mapOptional(view.release, projectRelease),
      absent: missing.length === 0 ? undefined : missing.slice(0, MAX_ABSENT_OBJECTS),
      ...projectRequires(facts.requirements, facts.displayedBefore?.requires, facts.now),
      ...mapOptional(view.health, projectHealth),
      drift: projectDrift(view.drift),
      identity: facts.identity,
      source: toDisplayedOrigin(view),
      failures: view.retry?.failures ?? 0,
      nextRetryAt: mapOptional(facts.nextRetryAt, formatUtc),
      lastHandledReconcileAt: annotationToken(view.handled.token),
      conditions: withTimes(conditionsOf(view, evaluation, facts), facts.before, facts.now),
    }),
  };
}

function conditionsOf(
  view: ModuleView,
  evaluation: Evaluation,
  { lostRequirement, failingHooks }: EvaluationContext,
): UntimedCondition[] {
  const list = progressConditions(evaluation);
  if (view.health !== undefined)
    list.push({
      type: "Healthy",
      status: view.health.status,
      reason: view.health.reason,
      message: line(view.health.message),
    });
  list.push(...driftConditions(view.drift), ...failingHooksConditions(failingHooks));
  if (lostRequirement !== undefined)
    list.push({
      type: "DependencyLost",
      status: "True",
      reason: lostRequirement.reason,
      message: line(lostRequirement.message),
    });
  list.push({
    type: "Enabled",
    status: view.enabled ? "True" : "False",
    reason: ENABLED_REASON[view.enabledBy],
    message: line(describeEnablement(view)),
  });
  if (view.suspended) {
    const message = "The ConfigMap sets NoResourceReconciliation: helm changes nothing";
    list.push({ type: "Suspended", status: "True", reason: "NoResourceReconciliation", message });
  }
  return list;
}

function driftConditions(drift: Drift): UntimedCondition[] {
  const type = "Drifted";
  if (drift.count > 0)
    return [{ type, status: "True", reason: "Drifted", message: line(describeDrift(drift)) }];
  if (drift.issue === undefined) return [];
  return [{ type, status: "Unknown", reason: "NotCompared", message: line(drift.issue) }];
}

const ENABLED_REASON: Readonly<Record<ModuleView["enabledBy"], string>> = {
  values: "Values",
  "module-values": "ModuleValues",
  hook: "Hook",
  configmap: "ConfigMap",
  script: "EnabledScript",
  source: "ModuleSource",
  none: "NotSwitchedOn",
};

function projectRun(run: LastRun): LastRunStatus {
  const { finishedAt, startedAt } = run;
  return defined({
    trigger: line(describeCause(run.trigger)),
    startedAt: formatUtc(startedAt),
    finishedAt: mapOptional(finishedAt, formatUtc),
    durationSeconds: finishedAt === undefined ? undefined : (finishedAt - startedAt) / 1000,
    result: run.result,
    step: run.step,
    hook: run.hook,
    message: mapOptional(run.message, line),
    attempts: run.attempts,
  });
}

/** Number of objects by status, and details of those that are not Current. */
function projectHealth({ counts, ailments }: Health): Pick<ModuleStatus, "health" | "objects"> {
  const health = ailments.map(({ object, status, reason, message }) => ({
    object,
    status,
    reason: line(reason),
    message: line(message),
  }));
  return health.length === 0 ? { objects: counts } : { objects: counts, health };
}

const MAX_DRIFTED_FIELDS = 20;

function projectDrift({ objects }: Drift): ModuleStatus["drift"] {
  const fields = objects.flatMap(({ object, fields: own }) =>
    own.map(({ field, manager, at }) =>
      defined({
        object,
        field: line(field),
        manager: mapOptional(manager, line),
        since: mapOptional(at, formatUtc),
      }),
    ),
  );
  return fields.length === 0 ? undefined : fields.slice(0, MAX_DRIFTED_FIELDS);
}

function projectRelease(release: Release): ReleaseStatus {
  return defined({
    ...release,
    lastDeployed: mapOptional(release.lastDeployed, formatUtc),
    manifestChecksum: mapOptional(release.manifestChecksum, displayDigest),
  });
}

/** Applies `map` unless the value is undefined. */
function mapOptional<T, R>(value: T | undefined, map: (value: T) => R): R | undefined {
  return value === undefined ? undefined : map(value);
}

const MAX_REQUIREMENTS = 20;

/** Lists unmet requirements first. `since` of a requirement changes only when `met` changes. */
function projectRequires(
  all: readonly Requirement[] = [],
  before: ModuleStatus["requires"] = [],
  now: number,
): Pick<ModuleStatus, "requires" | "requiresMet"> {
  if (all.length === 0) return {};
  const met = all.filter(isMet);
  const listed = [...all.filter((each) => !isMet(each)), ...met].slice(0, MAX_REQUIREMENTS);
  const sinceOf = (each: Requirement): string | undefined =>
    before.find(({ of, name, met: was }) => of === each.of && name === each.name && was === isMet(each))
      ?.since;
  return {
    requires: listed.map((each) => ({ ...projectRequirement(each), since: sinceOf(each) ?? formatUtc(now) })),
    requiresMet: `${met.length}/${all.length}`,
  };
}

function isMet({ unmet }: Requirement): boolean {
  return unmet === undefined;
}

function projectRequirement(each: Requirement): Omit<RequirementStatus, "since"> {
  const { of, name, range, unmet } = each;
  const why = unmet && { reason: unmet.reason, message: line(unmet.message) };
  return defined({ of, name: line(name), range, met: isMet(each), ...why });
}

/** `--status-values`. */
export type StatusValues = "redacted" | "full" | "none";

/** Merged values for the status. */
export interface DisplayedValues {
  readonly values?: Json;
  readonly valuesTruncated?: boolean;
}

/** Known secrets: paths from the schemas of the values, and texts. */
export interface SecretMarks {
  readonly secretPaths?: ReadonlySet<string> | undefined;
  readonly secrets?: KnownSecrets;
}

/** Most bytes of JSON that the values in a status may have. */
export const VALUES_LIMIT = 32 * 1024;

/**
 * The merged values for the status: without secrets in mode `redacted`, and cut to VALUES_LIMIT bytes, with a marker in
 * place of each cut part.
 */
export function displayValues(values: Json, mode: StatusValues, marks: SecretMarks = {}): DisplayedValues {
  if (mode === "none") return {};
  const { secrets = new KnownSecrets(), secretPaths } = marks;
  const displayed = mode === "full" ? values : secrets.redactValues(values, secretPaths);
  if (sizeOf(displayed) <= VALUES_LIMIT) return { values: displayed };
  return { values: cut(displayed, VALUES_LIMIT), valuesTruncated: true };
}

function sizeOf(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** `value` in at most `budget` bytes. Keeps small members whole, cuts large ones, and leaves out the rest. */
function cut(value: Json, budget: number): Json {
  const size = sizeOf(value);
  if (size <= budget) return value;
  if (Array.isArray(value)) return cutList(value, budget - 2);
  if (isJsonObject(value)) return cutMap(value, budget - 2);
  return `<cut: ${size} bytes>`;
}
const MARKER_BYTES = 24;

/** Cuts a map to `budget` bytes. Small members come first, so that one large member does not displace them. */
function cutMap(value: Readonly<Record<string, Json | undefined>>, budget: number): Json {
  const members = Object.entries(value).map(([key, member]) => ({ key, member: member ?? null }));
  const sized = members.map((member) => ({ ...member, size: sizeOf(member.member) }));
  const kept = new Map<string, Json>();
  let left = budget - 2 * MARKER_BYTES;
  for (const { key, member, size } of sized.toSorted((a, b) => a.size - b.size)) {
    const room = left - Buffer.byteLength(JSON.stringify(key)) - 2;
    if (room < Math.min(size, MARKER_BYTES)) continue;
    const displayed = cut(member, room);
    kept.set(key, displayed);
    left = room - sizeOf(displayed);
  }
  // In the order in which the user wrote them.
  const displayed: [string, Json][] = members.flatMap(({ key }) =>
    kept.has(key) ? [[key, kept.get(key) ?? null]] : [],
  );
  const dropped = members.length - kept.size;
  if (dropped > 0) displayed.push(["…", `<cut: ${dropped} keys>`]);
  return Object.fromEntries(displayed);
}

function cutList(value: readonly Json[], budget: number): Json {
  const kept: Json[] = [];
  let left = budget - MARKER_BYTES;
  for (const item of value) {
    left -= sizeOf(item) + 1;
    if (left < 0) break;
    kept.push(item);
  }
  return [...kept, `<cut: ${value.length - kept.length} items>`];
}
