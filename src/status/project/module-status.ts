/** The AddonModule of a module (docs/STATUS.md, "States of a module"). */

import { shownDigest } from "../../lib/index.ts";
import { describeDrift } from "../../drift/index.ts";
import type { Drift } from "../../drift/index.ts";
import type { Health } from "../../health/index.ts";
import { describeCause } from "../../model/index.ts";
import { enabledText, type Requirement, type Wait } from "../../plan/index.ts";
import type { LastRun, ModuleView, ReleaseView } from "../../state/index.ts";
import { type Aspect, type Transitions, progress, timed } from "./conditions.ts";
import { defined, line, timestamp } from "./format.ts";
import type { LastRunStatus, ModuleSpec, ModuleStatus, ReleaseStatus } from "../models/kinds.ts";
import { projectRequires } from "./required.ts";
import type { ShownValues } from "./values-mirror.ts";
import { type JudgeContext, type Verdict, isHidden, judge } from "./verdict.ts";

/** An AddonModule as it should be. */
export interface ModuleProjection {
  readonly spec: ModuleSpec;
  readonly status: ModuleStatus;
}

/** What is shown of a module beside its own view. */
export interface ShowContext extends JudgeContext {
  /** Transition times of the status before. */
  readonly before: Transitions;
  /**
   * The status as shown before: its `lastRun` stays while the present run is too young to be announced, and the times of
   * what is required.
   */
  readonly shownBefore?: ModuleStatus | undefined;
  readonly required?: readonly Requirement[];
  readonly shown: ShownValues;
  /** When a failure is tried again, in ms since the epoch. */
  readonly nextTryAt?: number | undefined;
}

const MOST_ABSENT = 20;

/** The AddonModule of one module. Pure: every time and every text comes from the arguments. */
export function projectModule(view: ModuleView, facts: ShowContext): ModuleProjection {
  const verdict = judge(view, facts);
  return {
    spec: { enabled: view.enabled, order: view.module.order, configDigest: shownDigest(view.configDigest) },
    status: defined({
      state: verdict.state,
      enabledBy: view.enabledBy,
      enabledReason: optional(view.enabledReason, line),
      valuesDigest: shownDigest(view.wholeDigest),
      ...facts.shown,
      lastRun: isHidden(view, facts.now) ? facts.shownBefore?.lastRun : optional(view.lastRun, projectRun),
      runSeconds: view.runSeconds.length === 0 ? undefined : view.runSeconds,
      release: optional(view.release, projectRelease),
      absent: view.absent.length === 0 ? undefined : view.absent.slice(0, MOST_ABSENT),
      ...projectRequires(facts.required, facts.shownBefore?.requires, facts.now),
      ...optional(view.health, projectHealth),
      drift: projectDrift(view.drift),
      failures: view.retry?.failures ?? 0,
      nextRetryAt: optional(facts.nextTryAt, timestamp),
      lastHandledReconcileAt: view.handled.token,
      conditions: timed(aspects(view, verdict, facts.lost), facts.before, facts.now),
    }),
  };
}

function aspects(view: ModuleView, verdict: Verdict, lost: Wait | undefined): Aspect[] {
  const list = progress(verdict);
  if (view.health !== undefined)
    list.push({
      type: "Healthy",
      status: view.health.status,
      reason: view.health.reason,
      message: line(view.health.message),
    });
  list.push(...driftedAspects(view.drift));
  if (lost !== undefined)
    list.push({ type: "DependencyLost", status: "True", reason: lost.reason, message: line(lost.message) });
  list.push({
    type: "Enabled",
    status: view.enabled ? "True" : "False",
    reason: ENABLED_REASON[view.enabledBy],
    message: line(enabledText(view)),
  });
  if (view.suspended) {
    const message = "The ConfigMap asks for NoResourceReconciliation: helm is left alone";
    list.push({ type: "Suspended", status: "True", reason: "NoResourceReconciliation", message });
  }
  return list;
}

function driftedAspects(drift: Drift): Aspect[] {
  const type = "Drifted";
  if (drift.count > 0)
    return [{ type, status: "True", reason: "Drifted", message: line(describeDrift(drift)) }];
  if (drift.trouble === undefined) return [];
  return [{ type, status: "Unknown", reason: "NotCompared", message: line(drift.trouble) }];
}

const ENABLED_REASON: Readonly<Record<ModuleView["enabledBy"], string>> = {
  values: "Values",
  "module-values": "ModuleValues",
  hook: "Hook",
  configmap: "ConfigMap",
  script: "EnabledScript",
  none: "NotSwitchedOn",
};

function projectRun(run: LastRun): LastRunStatus {
  const { finishedAt, startedAt } = run;
  return defined({
    trigger: line(describeCause(run.trigger)),
    startedAt: timestamp(startedAt),
    finishedAt: optional(finishedAt, timestamp),
    durationSeconds: finishedAt === undefined ? undefined : (finishedAt - startedAt) / 1000,
    result: run.result,
    step: run.step,
    hook: run.hook,
    message: optional(run.message, line),
    attempts: run.attempts,
  });
}

/** How many objects have which status, and those that are not Current. */
function projectHealth({ counts, ailments }: Health): Pick<ModuleStatus, "health" | "objects"> {
  const health = ailments.map(({ object, status, reason, message }) => ({
    object,
    status,
    reason: line(reason),
    message: line(message),
  }));
  return health.length === 0 ? { objects: counts } : { objects: counts, health };
}

const MOST_FIELDS = 20;

/** The fields that others have changed, of all objects together. */
function projectDrift({ objects }: Drift): ModuleStatus["drift"] {
  const fields = objects.flatMap(({ object, fields: own }) =>
    own.map(({ field, manager, at }) =>
      defined({
        object,
        field: line(field),
        manager: optional(manager, line),
        since: optional(at, timestamp),
      }),
    ),
  );
  return fields.length === 0 ? undefined : fields.slice(0, MOST_FIELDS);
}

function projectRelease(release: ReleaseView): ReleaseStatus {
  return defined({
    ...release,
    lastDeployed: optional(release.lastDeployed, timestamp),
    manifestChecksum: optional(release.manifestChecksum, shownDigest),
  });
}

function optional<T, R>(value: T | undefined, map: (value: T) => R): R | undefined {
  return value === undefined ? undefined : map(value);
}
